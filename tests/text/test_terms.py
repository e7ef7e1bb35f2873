"""Phrases in texts: glossaries, and what counts as a word."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.errors import DataError
from transduce.text.protected import find_single_parts
from transduce.text.terms import (
    PHRASE_WORD,
    Glossary,
    contains_phrase,
    is_word_character,
    read_glossary,
    read_phrases,
)

WORDS = st.sampled_from(
    ["cat", "Cat", "cats", "dog", "the", "black", "l'amico", "è", "猫", ",", "?", "x"]
)
TEXTS = st.lists(WORDS, max_size=12).map(" ".join)


def glossary(*entries: tuple[str, ...]) -> Glossary:
    return Glossary([(source, targets) for source, *rest in entries for targets in [tuple(rest)]])


def found(known: Glossary, text: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(text[start:end], term.targets) for term, start, end in known.find(text)]


def test_every_occurrence_of_a_term_is_found_as_whole_words_ignoring_case() -> None:
    known = glossary(("cat", "gatto", "gatta"), ("Acme Corp",))
    assert found(known, "The Cat, a cat and cats at ACME corp.") == [
        ("Cat", ("gatto", "gatta")),
        ("cat", ("gatto", "gatta")),
        ("ACME corp", ("Acme Corp",)),
    ]
    assert found(known, "concatenate") == []


def test_combining_marks_belong_to_their_word_and_case_folding_may_lengthen_a_word() -> None:
    assert found(glossary(("दिन", "day")), "दिनांक दिन") == [("दिन", ("day",))]
    assert not contains_phrase("வீடுகள்", "வீடு")
    assert found(glossary(("İzmir",)), "İzmir ve Diyarbakır") == [("İzmir", ("İzmir",))]


def test_phrase_words_and_word_characters_agree_on_every_character() -> None:
    for character in map(chr, range(1, 0x10000)):
        is_run = re.fullmatch(PHRASE_WORD, character + character) is not None
        assert is_run == (is_word_character(character) and character != "\ufffd"), hex(
            ord(character)
        )


def test_a_phrase_on_two_lines_may_have_either_translation() -> None:
    known = glossary(("car", "automobile"), ("Car", "macchina"))
    assert found(known, "a car") == [("car", ("automobile", "macchina"))]


def test_the_longest_matching_entry_wins() -> None:
    known = glossary(("black", "nero"), ("black cat", "gatto nero"), ("cat", "gatto"))
    assert [targets for _, targets in found(known, "a black cat, a black dog, a cat")] == [
        ("gatto nero",),
        ("nero",),
        ("gatto",),
    ]


def test_scripts_without_spaces_have_terms_in_the_middle_of_a_run() -> None:
    assert found(glossary(("猫", "gatto")), "私は猫が好き") == [("猫", ("gatto",))]


@pytest.mark.parametrize(
    ("text", "matched"),
    [
        ("Node.js runs", ["Node.js"]),
        ("see Node.js", ["Node.js"]),  # "see Node" would cut it
        ("see Node", ["see Node"]),
        ("https://node.js/see", []),
        ("see https://a.org", ["see https://a.org"]),  # it covers the link
        ("a link to a.org/node", []),
        ("😀{name}", ["😀", "{name}"]),
        ("{name} 😀 and {named}", ["{name}", "😀"]),
    ],
)
def test_a_term_may_cover_a_protected_part_but_not_cut_it(text: str, matched: list[str]) -> None:
    phrases = ("Node", "js", "see Node", "Node.js", "see https://a.org", "{name}", "name", "😀")
    known = glossary(*((phrase, "x") for phrase in phrases), ("a.org/n", "x"))
    found = known.find(text, find_single_parts(text))
    assert [text[start:end] for _, start, end in found] == matched


@given(TEXTS, st.lists(TEXTS.filter(str.strip), min_size=1, max_size=4))
def test_matches_agree_with_contains_phrase_and_do_not_overlap(
    text: str, phrases: list[str]
) -> None:
    known = glossary(*((phrase, "x") for phrase in phrases))
    places = [(start, end) for _, start, end in known.find(text)]
    assert all(end <= start for (_, end), (start, _) in pairwise(places))
    assert all(
        contains_phrase(text[start:end], term.source) for term, start, end in known.find(text)
    )
    assert bool(places) == any(contains_phrase(text, phrase) for phrase in phrases)


@given(TEXTS, TEXTS.filter(str.strip), TEXTS)
def test_a_text_contains_an_inserted_phrase(before: str, phrase: str, after: str) -> None:
    assert contains_phrase(f"{before} {phrase.upper()} {after}", phrase)
    assert not contains_phrase(f"{before}", f"{before} {phrase}")


def test_a_glossary_file_may_have_comments_and_alternatives(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("# animals\ncat\tgatto\tgatta\n\nAcme Corp\n dog \t cane \r\n")
    assert [(term.source, term.targets) for term in read_glossary(path).terms] == [
        ("cat", ("gatto", "gatta")),
        ("Acme Corp", ("Acme Corp",)),
        ("dog", ("cane",)),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "cat\tgatto\n\tcane\n",
            r"terms.tsv, line 2: empty phrase or translation; "
            r"expected phrase, tab, translation: '\\tcane'",
        ),
        (
            "cat\t\n",
            r"terms.tsv, line 1: empty phrase or translation; "
            r"expected phrase, tab, translation: 'cat\\t'",
        ),
        ("", "terms.tsv has no entry; expected lines like: cat, tab, gatto"),
        ("# nothing\n\n", "terms.tsv has no entry; expected lines like: cat, tab, gatto"),
    ],
)
def test_an_invalid_glossary_is_refused_with_the_line(
    tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        read_glossary(path)


@pytest.mark.parametrize(
    ("content", "entries"),
    [
        ('"cat","mi\ncio"\ndog,cane\n', [("cat", "mi cio"), ("dog", "cane")]),
        (
            '"big\n\n# cat","micio"\n# a remark\ncar,auto\n',
            [("big # cat", "micio"), ("car", "auto")],
        ),
        ('"a ""big"" cat",micio', [('a "big" cat', "micio")]),
        ('"cat, dog","micio, cane"\r\n', [("cat, dog", "micio, cane")]),
    ],
)
def test_a_quoted_field_of_a_csv_file_may_have_line_breaks_and_commas(
    tmp_path: Path, content: str, entries: list[tuple[str, str]]
) -> None:
    path = tmp_path / "terms.csv"
    path.write_text(content, newline="")
    assert [(term.source, *term.targets) for term in read_glossary(path).terms] == entries


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('"cat,micio\ncar,auto\n', 1),
        ('# a remark\ncar,auto\n"cat,micio\n"dog",cane\n', 3),
        ('car,auto\ncat,"micio" e\n', 2),
    ],
)
def test_a_quotation_mark_that_is_not_closed_is_an_error_with_its_line(
    tmp_path: Path, content: str, line: int
) -> None:
    path = tmp_path / "terms.csv"
    path.write_text(content)
    with pytest.raises(DataError, match=rf"terms\.csv, line {line}: .*close its quotation marks"):
        read_glossary(path)


@pytest.mark.parametrize("line_break", ["\r", "\v", "\f", "\x85", "\u2028", "\u2029"])
def test_a_line_break_inside_a_field_becomes_a_space(tmp_path: Path, line_break: str) -> None:
    for name, separator in (("terms.tsv", "\t"), ("terms.csv", ",")):
        content = separator.join(
            f'"{each}"' if separator == "," else each
            for each in (f"big{line_break}cat", f"mi{line_break}cio")
        )
        path = tmp_path / name
        path.write_text(f"{content}\n", encoding="utf-8", newline="")
        [term] = read_glossary(path).terms
        assert (term.source, term.targets) == ("big cat", ("mi cio",))
    [term] = glossary((f"big{line_break}cat", f"mi{line_break}cio")).terms
    assert (term.source, term.targets) == ("big cat", ("mi cio",))


def test_control_characters_of_a_glossary_and_of_phrases_are_removed(tmp_path: Path) -> None:
    [term] = glossary(("c\x9bat", "mi\x07cio\x9b31m"), ("\x00cat",)).terms
    assert (term.source, term.targets) == ("cat", ("micio31m", "cat"))
    path = tmp_path / "phrases.txt"
    path.write_text("\x00\ngat\x9bto\n \x07 \n", encoding="utf-8")
    assert read_phrases(path) == ["gatto"]
    path.write_text("cat\t\x00\n")
    with pytest.raises(DataError, match=r"phrases\.txt, line 1: empty phrase or translation"):
        read_glossary(path)


def test_an_entry_without_a_word_is_refused() -> None:
    with pytest.raises(DataError, match="glossary entry ' ' has no word; remove it"):
        glossary((" ", "x"))


def test_phrases_are_read_one_per_line_and_an_empty_list_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "forbidden.txt"
    path.write_text("gatto\n# a remark\n\n bel cane \n")
    assert read_phrases(path) == ["gatto", "bel cane"]
    path.write_text("# only this\n")
    with pytest.raises(DataError, match=r"forbidden\.txt has no phrase; expected one per line"):
        read_phrases(path)


def test_letters_digits_and_partial_characters_are_word_characters() -> None:
    assert all(map(is_word_character, "aZè9я\ufffd"))
    assert is_word_character("_")
    assert not any(map(is_word_character, " ',.-猫\u2581"))
    assert not is_word_character("")
