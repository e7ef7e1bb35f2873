"""Capitals: how words and sentences are written."""

import pytest

from transduce.text.case import (
    TITLE,
    UPPER,
    capitalize,
    is_title_sentence,
    is_upper_sentence,
    restore_word,
    restore_words,
    word_style,
)


@pytest.mark.parametrize(
    ("word", "style"),
    [
        ("WHERE", UPPER),
        ("L'EAU", UPPER),
        ("COVID-19", UPPER),
        ("ÜBER", UPPER),
        ("Where", TITLE),
        ("Über", TITLE),
        ("I", TITLE),
        ("A", TITLE),
        ("where", ""),
        ("McDonald", ""),
        ("iPhone", ""),
        ("eBAY", ""),
        ("42", ""),
        ("", ""),
        ("猫", ""),
    ],
)
def test_the_style_of_a_word(word: str, style: str) -> None:
    assert word_style(word) == style


@pytest.mark.parametrize(
    ("word", "style", "expected"),
    [
        ("où", UPPER, "OÙ"),
        ("straße", UPPER, "STRASSE"),
        ("où", TITLE, "Où"),
        ("iPhone", TITLE, "IPhone"),
        ("iPhone", "", "iPhone"),
        ("", UPPER, ""),
    ],
)
def test_a_word_is_put_into_a_style(word: str, style: str, expected: str) -> None:
    assert restore_word(word, style) == expected


def test_capitalizing_leaves_the_rest_as_it_is() -> None:
    assert [capitalize(word) for word in ("", "a", "mcDonald", "éTÉ")] == [
        "", "A", "McDonald", "ÉTÉ",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "is_upper"),
    [
        ("WHERE IS THE STATION ?", True),
        ("NO", True),
        ("A 4", False),
        ("I", False),
        ("WHERE is THE STATION", False),
        ("NATO 12", True),
        ("12 !", False),
        ("猫 NO", True),
        ("", False),
    ],
)
def test_a_sentence_is_in_capitals_if_all_its_words_are(text: str, is_upper: bool) -> None:
    assert is_upper_sentence(text.split()) == is_upper


@pytest.mark.parametrize(
    ("text", "is_title"),
    [
        ("Where Is The Station", True),
        ("New York", False),  # two words
        ("Where Can Tom Find The Next Station", True),
        ("The Man with the Golden Gun", False),  # half of the long words
        ("Seven Great Women from Paris", True),
        ("Maria saw Peter at home", False),
        ("Three Blind Mice", True),
        ("Three Blind mice", False),
        ("Three Blind Mice nearly", True),  # three of four
        ("", False),
    ],
)
def test_a_heading_has_capitals_on_three_of_four_long_words(text: str, is_title: bool) -> None:
    assert is_title_sentence(text.split()) == is_title


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        (TITLE, "Der Schwarze iPod-kater, L'amico 2"),
        (UPPER, "DER SCHWARZE IPOD-KATER, L'AMICO 2"),
        ("", "der schwarze iPod-kater, l'amico 2"),
    ],
)
def test_each_word_of_a_phrase_gets_the_style(style: str, expected: str) -> None:
    assert restore_words("der schwarze iPod-kater, l'amico 2", style) == expected
