"""Protected parts: what is copied is found whole, wherever it stands, and nothing else is."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.text.protected import (
    NUMBER,
    ProtectedPart,
    add_parts,
    find_protected,
    has_words,
    numbers_in,
)

SURE = [
    ("https://example.org/a?b=c#d", "link"),
    ("http://example.org/(x)/y", "link"),
    ("https://it.wikipedia.org/wiki/Gatto_(animale)", "link"),
    ("www.example.org", "link"),
    ("example.org/path", "link"),
    ("ftp://files.example.org/x.zip", "link"),
    ("mailto:maria@example.org", "link"),
    ("maria.rossi+it@example.co.uk", "mail"),
    ("{name}", "placeholder"),
    ("{}", "placeholder"),
    ("${name}", "placeholder"),
    ("{{ user.name }}", "placeholder"),
    ("v{version}", "placeholder"),
    ("%s", "placeholder"),
    ("%d", "placeholder"),
    ("%-5.2f", "placeholder"),
    ("%1$s", "placeholder"),
    ("%(name)s", "placeholder"),
    ("$HOME", "placeholder"),
    ("`make test`", "code"),
    ("/usr/local/bin", "path"),
    ("./run.sh", "path"),
    ("~/notes", "path"),
    (r"C:\Users\maria\notes.txt", "path"),
    (r"\\server\share", "path"),
    ("report.pdf", "path"),
    ("src/main.py", "path"),
    ("<br/>", "tag"),
    ('<a href="x">', "tag"),
    ("</b>", "tag"),
    ("<!-- a remark -->", "tag"),
    ("@maria", "name"),
    ("#gattini", "name"),
    ("file_name", "name"),
    ("print()", "name"),
    ("--help", "name"),
    ("😀", "emoji"),
    ("👩‍👩‍👧‍👦", "emoji"),
    ("👍🏽", "emoji"),
    ("🇮🇹", "emoji"),
    ("❤️", "emoji"),
    ("→", "emoji"),
    ("1\ufe0f\u20e3", "emoji"),
    ("#\ufe0f\u20e3", "emoji"),
    ("*\u20e3", "emoji"),
    *((f"{sign}\ufe0f", "emoji") for sign in "©®™ℹ‼⁉〰〽㊗㊙"),
    ("\U0001f3f4" + "".join(chr(0xE0000 + ord(each)) for each in "gbeng\x7f"), "emoji"),
    ("🏴‍☠️", "emoji"),
    ("🏴", "emoji"),
]  # fmt: skip
NUMBERS = [
    "7",
    "1,234.56",
    "-3",
    "12:30",
    "2026-08-01",
    "1.5kg",
    "12:30pm",
    "50%",
    "$5",
    "€5",
    "COVID-19",
    "3/4",
]
PLACES = ["{}", "I see {}", "I see {}, and you", "Is it {} there?", "It is {}.", "({})", "«{}»"]


def texts_of(parts: list[ProtectedPart]) -> list[str]:
    return [part.text for part in parts]


@pytest.mark.parametrize(("token", "kind"), SURE)
@pytest.mark.parametrize("place", PLACES)
def test_unmistakable_parts_are_found_whole_at_any_place(token: str, kind: str, place: str) -> None:
    text = place.replace("{}", token)
    [part] = find_protected(text)
    assert (part.text, part.kind) == (token, kind)
    assert text[part.start : part.end] == token


@pytest.mark.parametrize("token", NUMBERS)
@pytest.mark.parametrize("place", PLACES)
def test_words_with_digits_are_found_whole_if_asked_for(token: str, place: str) -> None:
    text = place.replace("{}", token)
    assert texts_of(find_protected(text, with_numbers=True)) == [token]
    assert [part for part in find_protected(text) if part.kind == NUMBER] == []


@pytest.mark.parametrize(
    "text",
    [
        "I love you",
        "a@b",
        "{not a name}",
        "% of",
        "100 % of it",
        "He paid 50% more",
        "and/or",
        "yes/no",
        "e.g. this",
        "the end.Then more",
        "well-known",
        "a -- b",
        "Tom & Jerry",
        "3 < 4 and 5 > 2",
        "It's 5 o'clock",
        "No. 5",
        "U.S. troops",
        "A #1 hit",
        "l'amico",
        "rock 'n' roll",
        "Don't panic!",
        "What?!",
        "a man on a &quot; big &quot; bike",
        "~ about",
        "$100",
        "#",
        "@",
        "Acme™ and ©",
        "Really‼",
        "1\ufe0f",
    ],
)
def test_ordinary_words_are_not_protected(text: str) -> None:
    assert find_protected(text) == []


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("it costs $5 or €1,250.50.", ["5", "1,250.50"]),
        ("50% of 1 234", ["50", "1", "234"]),  # one word after the other
        ("at 12:30pm, 1.5kg of COVID-19", ["12:30pm", "1.5kg", "COVID-19"]),
        ("3/4 and -3", ["3/4", "3"]),
        ("none", []),
    ],
)
def test_the_numbers_of_a_text_stand_alone_but_stay_with_their_letters(
    text: str, numbers: list[str]
) -> None:
    assert texts_of(numbers_in(text)) == numbers


def test_neighbors_with_only_spaces_between_are_one_part_but_lines_stay_apart() -> None:
    assert texts_of(find_protected("see {a} %s  😀 now")) == ["{a} %s  😀"]
    assert texts_of(find_protected("see {a}\u2028{b} now")) == ["{a}", "{b}"]


def test_a_word_with_a_digit_inside_a_link_is_not_a_part_of_its_own() -> None:
    text = "see https://example.org/page2 3"
    assert texts_of(find_protected(text, with_numbers=True)) == ["https://example.org/page2 3"]
    assert texts_of(find_protected(f"{text} now")) == ["https://example.org/page2"]


def test_added_parts_never_overlap_those_that_are_there() -> None:
    there = [ProtectedPart(2, 5, "abc", "link")]
    beside = [ProtectedPart(0, 2, "xy", NUMBER), ProtectedPart(5, 6, "z", NUMBER)]
    inside = [ProtectedPart(1, 3, "ya", NUMBER), ProtectedPart(4, 6, "cz", NUMBER)]
    assert add_parts(there, inside) == there
    assert add_parts(there, beside) == [beside[0], there[0], beside[1]]


@pytest.mark.parametrize(
    ("text", "has"),
    [
        ("{name}", False),
        ("{name} {b}!", False),
        ("12:30, 45", False),
        ("https://example.org 😀 ...", False),
        ("a {name}", True),
        ("{name} è", True),
        ("{a} b {c}", True),
        ("猫", True),
    ],
)
def test_a_text_has_words_if_a_letter_stands_outside_its_parts(text: str, has: bool) -> None:
    assert has_words(text, find_protected(text)) == has


@given(st.text(alphabet="aZ09.,:/-@%(){}$<>`_#~\\ \n\u2028è😀\u200d\ufe0f", max_size=60))
def test_parts_are_in_order_apart_and_hold_the_text_they_cover(text: str) -> None:
    for with_numbers in (False, True):
        parts = find_protected(text, with_numbers=with_numbers)
        for part in parts:
            assert part.start < part.end
            assert part.text == text[part.start : part.end]
            assert "\u2028" not in part.text.strip("`") or part.kind != "code"
        for one, other in pairwise(parts):
            assert one.end <= other.start


@pytest.mark.parametrize("character", list("a@/\\{}%<`_#~.-:0😀🏴\ufe0f\u20e3\U000e0067"))
def test_a_long_run_of_any_character_takes_linear_time(character: str) -> None:
    """A run of a million must not hang: the test's time limit would end it."""
    find_protected(character * 200_000, with_numbers=True)
    find_protected(f"{character} " * 100_000, with_numbers=True)
    find_protected(f"a{character}" * 100_000, with_numbers=True)
