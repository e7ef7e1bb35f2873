"""Numbers: what languages write differently is no fault, and what none does is one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.text.numbers import missing_numbers, numbers_agree


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("", ""),
        ("no number", "a number, 5"),  # "a pair" may become "2"
        ("It costs 5", "Kostet 5"),
        ("1,234.56 dollars", "1.234,56 Dollar"),
        ("1,234 men", "1 234 hommes"),
        ("1,234 men", "1\u202f234 hommes"),
        ("12:30", "12 h 30"),
        ("3 men", "drei Männer"),
        ("12 men", "zwölf Männer"),
        ("at 5 p.m.", "um 17 Uhr"),
        ("um 17 Uhr", "at 5 p.m."),
        ("at 12:30 p.m. 5", "5, 12.30"),
        ("2026-08-01", "01.08.2026"),
        ("٣ men", "3 Männer"),
        ("10-20 men", "10 bis 20 Männer"),
    ],
)
def test_other_ways_to_write_the_same_numbers_agree(source: str, target: str) -> None:
    assert numbers_agree(source, target)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("It costs 50", "Es kostet 500"),
        ("It costs 50", "Es kostet"),
        ("13 men", "Männer"),
        ("It costs 5", "Es kostet 5 5"),
        ("1", "1 1 19"),
        ("4711 and 1984", "1984"),
        ("at 5 p.m.", "um 18 Uhr"),
        ("1,234.56", "1.234"),
        ("2026", "2062"),
    ],
)
def test_other_numbers_do_not_agree(source: str, target: str) -> None:
    assert not numbers_agree(source, target)


@given(st.lists(st.integers(13, 10**6), min_size=1, max_size=5, unique=True))
def test_numbers_agree_in_any_order_and_not_with_one_missing(numbers: list[int]) -> None:
    source = " and ".join(map(str, numbers))
    assert numbers_agree(source, " und ".join(map(str, reversed(numbers))))
    assert not numbers_agree(source, " und ".join(map(str, numbers[1:])))


@given(st.text(alphabet="0123456789., :-/a٣²½", max_size=40), st.text(max_size=20))
def test_any_text_agrees_with_itself_and_nothing_is_raised(text: str, other: str) -> None:
    assert numbers_agree(text, text)
    assert not missing_numbers(text, text)
    numbers_agree(text, other)
    numbers_agree(other, text)


@pytest.mark.parametrize(
    ("source", "target", "missing"),
    [
        ("50 and 1,234.5", "1.234,5", ["50"]),
        ("50 and 50", "50", ["50"]),
        ("3 and 50", "drei", ["50"]),
        ("at 5 p.m., 50", "um 17 Uhr", ["50"]),
        ("um 17 Uhr, 50", "at 5 p.m.", ["50"]),
        ("12:30", "halb eins", ["1230"]),
        ("50", "50", []),
        ("no", "5", []),
        ("1", "1 1 19", []),  # none is missing, but there are others
    ],
)
def test_the_missing_numbers_are_those_that_no_language_leaves_out(
    source: str, target: str, missing: list[str]
) -> None:
    assert sorted(missing_numbers(source, target).elements()) == missing
