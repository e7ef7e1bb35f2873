"""Regular forms by hand, one of each rule."""

import pytest

from transduce.grammar import generate
from transduce.grammar.inflection import (
    definite_article,
    english_past,
    english_s,
    italian_plural,
    like_un,
)
from transduce.grammar.lexicon import NAMES


@pytest.mark.parametrize(
    ("word", "plural"),
    [("city", "cities"), ("day", "days"), ("box", "boxes"), ("cat", "cats"), ("go", "goes")],
)
def test_english_plurals(word: str, plural: str) -> None:
    assert english_s(word) == plural


def test_the_english_past() -> None:
    assert [english_past(word) for word in ("carry", "play", "love", "look")] == [
        "carried",
        "played",
        "loved",
        "looked",
    ]


def test_italian_plurals() -> None:
    plurals = {"gatto": "gatti", "zio": "zi", "amica": "amiche", "casa": "case", "città": "città"}
    assert {word: italian_plural(word) for word in plurals} == plurals


def test_italian_articles_follow_the_first_letters_of_the_next_word() -> None:
    words = ("gatto", "zaino", "studente", "sole", "amico")
    assert [definite_article("m", False, word) for word in words] == ["il", "lo", "lo", "il", "l'"]
    assert [definite_article("m", True, word) for word in words] == ["i", "gli", "gli", "i", "gli"]
    assert [like_un("un", "m", word) for word in words] == ["un", "uno", "uno", "un", "un"]
    assert [like_un("un", "f", word) for word in ("casa", "amica")] == ["una", "un'"]


def test_no_sentence_names_somebody_twice() -> None:
    for pair in generate("en-it", 3000, seed=8):
        words = pair.source.strip("?").replace("'s", "").split()
        assert all(words.count(name) < 2 for name, _ in NAMES), pair.source
