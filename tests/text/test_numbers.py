"""Numbers: what languages write differently is no fault, and what none does is one."""

import pytest
from hypothesis import assume, given
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
        ("1.5 l", "1,5 l"),
        ("1.05 m", "1,05 m"),
        ("1,000 men", "1000 Männer"),
        ("1,000 men", "1.000 Männer"),
        ("1,234.5", "1'234.5"),
        ("1,234.5", "1234,5"),
        ("12,34,567 men", "1.234.567 Männer"),
        ("10 200 men", "10, 200 Männer"),  # the space need not separate groups
        ("version 1.2.3", "Version 1.2.3"),
        ("3.50, 12.30 and 1.25", "3,50, 12,30 und 1,25"),
        ("12:30", "12.30 Uhr"),
        ("at 5.30 pm", "um 17.30 Uhr"),
        ("at 5:30", "à 17h30"),
        ("à 17h30", "at 5:30"),
        ("at 02:30", "à 2 h 30"),
        ("at 5:00 p.m.", "um 17 Uhr"),
        ("at 9:00", "à 9 h 00"),
        ("at 9:00", "à neuf heures"),
        ("at 17:00", "um 17.00 Uhr"),
        ("at 12 a.m.", "um 0 Uhr"),
        ("at 5 in the afternoon", "alle 17"),
        ("at 12:05", "um 12.05 Uhr"),
        ("3-5 men", "3–5 Männer"),
        ("3-5 men", "3 bis 5 Männer"),
        ("3-5 men", "drei bis fünf Männer"),
        ("won 3-1", "gewann 3:1"),
        ("won 3-1", "gewann 3 - 1"),
        ("won 3-1", "gewann 3 zu 1"),
        ("12/31", "31.12. um"),
        ("on 12/31", "am 31. Dezember"),
        ("am 31.12. um", "on December 31"),
        ("12/31/2026", "31.12.2026"),
        ("2026-08-01", "1. August 2026"),
        ("the 1st", "der 1."),
        ("3/4 full", "drei Viertel voll"),
        ("a 4-year-old", "ein Vierjähriger"),
        ("10kg", "10 kg"),
        ("10kg", "10 Kilogramm"),
        ("10 kg", "10kg"),
        ("1,2,3 go", "1, 2, 3 los"),
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
        ("1.5", "15"),
        ("1.5", "1 5"),
        ("1.10", "11.0"),
        ("10.01", "1.10"),
        ("1.05", "1.5"),
        ("1.5", ""),
        ("0.500", "500"),
        ("1.000", "10.00"),
        ("12:10", "1210"),
        ("12:10", "12,10"),
        ("3-1", "31"),
        ("3:1", "31"),
        ("3-1", "nothing"),
        ("3-3", "nothing"),
        ("10,20", "1020"),
        ("5.30", "530"),
        ("9.10", "nothing"),
        ("12:10", "nothing"),
        ("1.2.3", "nothing"),
        ("1.2.3", "1.23"),
        ("It costs 9.10.", "Es kostet 9."),
        ("3 dogs", "15 Hunde"),  # hours have another clock, dogs have not
        ("at 12:30", "um 17.30"),
        ("2 and 5 p.m.", "2 und 18 Uhr"),
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
        ("12:30", "halb eins", ["12", "30"]),
        ("won 3-1 in 12", "gewann 31", ["1", "3"]),
        ("50", "50", []),
        ("no", "5", []),
        ("1", "1 1 19", []),  # none is missing, but there are others
    ],
)
def test_the_missing_numbers_are_those_that_no_language_leaves_out(
    source: str, target: str, missing: list[str]
) -> None:
    found = missing_numbers(source, target)
    assert sorted({source[start:end] for start, end, *_ in found}) == missing


WHOLE = st.integers(1, 10**7).map(str)
DECIMAL = st.tuples(
    WHOLE, st.sampled_from(".,"), st.text("0123456789", min_size=1, max_size=4)
).map("".join)


@given(WHOLE | DECIMAL, st.data())
def test_a_number_with_a_digit_changed_or_dropped_never_agrees(
    number: str, data: st.DataObject
) -> None:
    places = [i for i, character in enumerate(number) if character.isdigit()]
    place = data.draw(st.sampled_from(places))
    other = data.draw(st.sampled_from([*set("0123456789") - {number[place]}, ""]))
    changed = number[:place] + other + number[place + 1 :]
    assume(any(map(str.isdigit, changed)))  # without any it may be a word
    assert not numbers_agree(f"it costs {number} now", f"es kostet {changed} jetzt")


@given(WHOLE | DECIMAL, st.integers(-3, 3).filter(bool))
def test_a_number_with_its_point_elsewhere_never_agrees(number: str, shift: int) -> None:
    """Three digits after the point may be a group: 1.000 is 1000, so it has four or none."""
    whole, _, rest = number.replace(",", ".").partition(".")
    assume(len(rest) != 3)
    digits, point = whole + rest, len(whole) + shift
    assume(point > 0)
    changed = f"{digits[:point].ljust(point, '0')}.{digits[point:]}".removesuffix(".")
    assume(len(changed.partition(".")[2]) != 3)
    assert not numbers_agree(f"it costs {number} now", f"es kostet {changed} jetzt")


@given(st.integers(1, 10**9), st.integers(0, 99), st.permutations([",.", ".,", "’.", " ,"]))
def test_a_number_agrees_with_itself_in_any_groups(
    whole: int, cents: int, styles: list[str]
) -> None:
    one, other = (
        f"{whole:,}".replace(",", group) + f"{point}{cents:02}" for group, point in styles[:2]
    )
    assert numbers_agree(f"it costs {one} now", f"es kostet {other} jetzt")


@pytest.mark.parametrize(
    "text", ["1", "1-", "1.", "1,", "1 000", "1:", "1h", "1 ", "12.10 ", "5 p.m. "]
)
def test_many_numbers_take_linear_time(text: str) -> None:
    """The test's time limit would end it."""
    numbers_agree(text * 5_000, "2 " + text * 5_000)
    missing_numbers(text * 5_000, "2")
