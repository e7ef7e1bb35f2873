"""Numbers in texts: does a translation have those of its source?

Languages write numbers differently: 1,234.5 and 1 234,5, 5 p.m. and 17 h, 3 and three. So only
what no language does counts as wrong.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise, product
from typing import NamedTuple

# Digits with separators between them. A space separates groups of three digits only.
NUMBER = re.compile(r"\d+(?:[.,'’:/٫٬-]\d+|[ \u00a0\u202f]\d{3}(?!\d))*")
DIGITS = re.compile(r"\d+")
MAX_SPELLED = 12  # numbers up to this one may be written as a word
HALF_DAY = 12  # hours

# A numeral is one number, a chain several: a time, a score, a range, a date.
NUMERAL = r"\d+(?:[.,'’٫٬]\d+)*"
SPACED_NUMERAL = r"\d+(?:[.,'’٫٬]\d+|[ \u00a0\u202f\u2009]\d{3}(?!\d))*"
SPACED_DIGITS = re.compile(r"\d[ \u00a0\u202f\u2009]\d{3}(?!\d)")
LINK = "(?:[-–:/]|[ \u00a0\u202f]?h[ \u00a0\u202f]?)"  # between the numerals of a chain
CHAINS = {
    True: re.compile(rf"{SPACED_NUMERAL}(?:{LINK}{SPACED_NUMERAL})*"),
    False: re.compile(rf"{NUMERAL}(?:{LINK}{NUMERAL})*"),
}
NUMERALS = {True: re.compile(SPACED_NUMERAL), False: re.compile(NUMERAL)}

# Digits in groups of three (1,234,567.8), or in groups as in India (12,34,567).
GROUPED = re.compile(
    r"(?P<whole>[1-9]\d{0,2}(?P<sep>[.,'’٬ \u00a0\u202f\u2009])\d{3}(?:(?P=sep)\d{3})*"
    r"|[1-9]\d?(?:,\d{2})+,\d{3})(?:(?!(?P=sep))[.,٫](?P<rest>\d+))?"
)
DECIMAL = re.compile(r"\d+[.,٫]\d+|\d+(?:\.\d+){2,}")  # or a version
CLOCK_TIME = re.compile(r"(?:[01]?\d|2[0-4])\.[0-5]\d")  # 12.30, as in German
DATE = re.compile(r"(?:[0-2]?\d|3[01])\.(?:0?\d|1[0-2])\.(?:\d{4}|\d{2})|\d{4}\.\d\d?\.\d\d?")
DAY_AND_MONTH = re.compile(r"(?:[0-2]?\d|3[01])\.(?:0?\d|1[0-2])")
DATE_GOES_ON = re.compile(r"\.(?:[,;)]|\s+[^\W_A-Z])")  # it is not the end of the sentence
# After an hour.
CLOCK = re.compile(
    r"[ \u00a0\u202f]?(?:[ap]\.? ?m\b|uhr\b|h\b|o ?['’]? ?clock\b|[時时点點시])"
    r"|[^\w.!?]{1,3}(?:in the (?:morning|afternoon|evening)|at night|tonight)\b",
    re.IGNORECASE,
)


class Number(NamedTuple):
    """A number of a text: `text[start:end]`, or a part of it."""

    start: int
    end: int
    key: str  # its digits, with a point for the decimal separator: equal for equal numbers
    may_be_word: bool  # a language may spell it out
    is_hour: bool  # it may be told by the other clock


class Difference(NamedTuple):
    """What the numbers of a target lack, and what they have beside those of the source."""

    missing: list[Number]
    n_extra: int


def numbers_agree(source: str, target: str) -> bool:
    """Return whether no number of the source is missing or changed in the target.

    A target may spell out small whole numbers, and tell the time by 12 or by 24 hours.
    """
    return not DIGITS.search(source) or any(
        not (missing or n_extra) for missing, n_extra in _differences(source, target)
    )


def missing_numbers(source: str, target: str) -> list[Number]:
    """Return the numbers of a source that its target lacks.

    Of the ways to read numbers the one is taken by which the fewest are missing. A number that the
    source has more often than the target is returned with all its occurrences.
    """
    if numbers_agree(source, target):
        return []
    return min((each.missing for each in _differences(source, target)), key=len)


def _differences(source: str, target: str) -> Iterator[Difference]:
    """Yield the differences of two texts, for each way to read their numbers.

    Those that languages make are left out. Dates and times with points are read as several numbers
    on one side only: 12.30 is 12:30 and 12 h 30, but never 1.230.
    """
    for one, other in product(_spacings(source), _spacings(target)):
        read, found = list(_numbers(source, one)), list(_numbers(target, other))
        yield _compare(read, found)
        yield _compare(list(_numbers(source, one, split_points=True)), found)
        yield _compare(read, list(_numbers(target, other, split_points=True)))


def _spacings(text: str) -> tuple[bool, ...]:
    """Return whether a space may separate groups of digits: if it can, both are possible."""
    return (True, False) if SPACED_DIGITS.search(text) else (False,)


def _compare(source: Sequence[Number], target: Sequence[Number]) -> Difference:
    wanted, found = Counter(each.key for each in source), Counter(each.key for each in target)
    missing, extra = wanted - found, found - wanted
    _match_hours(source, target, missing, extra)
    missing -= Counter(each.key for each in source if each.may_be_word)
    return Difference([each for each in source if each.key in missing], extra.total())


def _match_hours(
    source: Sequence[Number],
    target: Sequence[Number],
    missing: Counter[str],
    extra: Counter[str],
) -> None:
    """Take equal hours by the other clock out of both counters; one side must be a clear time."""
    hours = {each.key for each in (*source, *target) if each.is_hour}
    for number in list(missing):
        for other in _other_hours(number):
            if number in hours or other in hours:
                n_equal = min(missing[number], extra[other])
                missing[number] -= n_equal
                extra[other] -= n_equal


def _other_hours(key: str) -> list[str]:
    """Return the same time by the other clock: 17 for 5, 5.30 for 17.30, 0 for 12."""
    hour, *minutes = key.split(".")
    if len(hour) > 2:
        return []
    hours = (int(hour) - HALF_DAY, int(hour) + HALF_DAY)
    return [".".join((str(each), *minutes)) for each in hours if 0 <= each <= 2 * HALF_DAY]


def _numbers(text: str, is_spaced: bool, split_points: bool = False) -> Iterator[Number]:
    """Yield the numbers of a text from left to right."""
    for chain in CHAINS[is_spaced].finditer(text):
        numerals = list(NUMERALS[is_spaced].finditer(chain[0]))
        links = {chain[0][one.end() : other.start()].strip() for one, other in pairwise(numerals)}
        is_time = not links.isdisjoint((":", "h"))
        may_be_words = _may_be_words([each[0] for each in numerals], links)
        for i, numeral in enumerate(numerals):
            if is_time and i == 1 and numeral[0] == "00":  # 17:00 is 17 h
                continue
            start, end = (chain.start() + each for each in numeral.span())
            digits = _ascii(numeral[0])
            parts = _split_points(digits, text, end) if split_points else None
            is_hour = (is_time and i == 0) or parts is not None or bool(CLOCK.match(text, end))
            for key, may_be_word in parts or [(key, may_be_words) for key in _keys(digits)]:
                yield Number(start, end, key, may_be_word and _is_small(key), is_hour)


def _may_be_words(numerals: Sequence[str], links: AbstractSet[str]) -> bool:
    """Return whether the numerals of a chain may be spelled out: 3:00 or 3-5, not 3:10 or 3-1."""
    if not links or links == {"/"}:
        return True
    if links <= {":", "h"}:
        return list(numerals[1:]) == ["00"]
    if not links <= {"-", "–"} or not all(map(str.isdecimal, numerals)):
        return False
    if len(numerals) == 2:  # a range ascends
        return _size(numerals[0]) < _size(numerals[1])
    return len(numerals) == 3 and any(len(each) == 4 for each in numerals)  # a date


def _size(digits: str) -> tuple[int, str]:
    """Return a key to sort numbers of any length by."""
    return len(digits), digits


def _is_small(key: str) -> bool:
    return len(key) <= 2 and int(key) <= MAX_SPELLED


def _keys(numeral: str) -> list[str]:
    """Return the keys of a numeral: one, or several if it is a list such as 1,2,3."""
    if grouped := GROUPED.fullmatch(numeral):
        whole = "".join(DIGITS.findall(grouped["whole"]))
        return [whole if grouped["rest"] is None else f"{whole}.{grouped['rest']}"]
    runs = DIGITS.findall(numeral)
    return [".".join(runs)] if DECIMAL.fullmatch(numeral) else [_without_zero(run) for run in runs]


def _split_points(numeral: str, text: str, end: int) -> list[tuple[str, bool]] | None:
    """Return the keys of a date or time with points, each with whether it may be a word."""
    keys = [_without_zero(run) for run in numeral.split(".")]
    if DATE.fullmatch(numeral):
        return [(key, True) for key in keys]
    if DAY_AND_MONTH.fullmatch(numeral) and DATE_GOES_ON.match(text, end):
        return [(keys[0], False), (keys[1], True)]
    if CLOCK_TIME.fullmatch(numeral):
        return [(key, False) for key in keys if key != "00"]
    return None


def _without_zero(run: str) -> str:
    """Return a run of digits without the zero that fills it up to two: 1 for 01."""
    return run[1] if len(run) == 2 and run[0] == "0" and run != "00" else run


def _ascii(digits: str) -> str:
    if digits.isascii():
        return digits
    return "".join(str(unicodedata.digit(each)) if each.isdecimal() else each for each in digits)
