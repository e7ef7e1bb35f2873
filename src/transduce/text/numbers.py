"""Numbers in texts: does a translation have those of its source?

Languages write numbers differently: 1,234.5 and 1 234,5, 5 p.m. and 17 h, 3 and three. So only
what no language does counts as wrong.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator

# Digits with separators between them. A space separates groups of three digits only.
NUMBER = re.compile(r"\d+(?:[.,'’:/٫٬-]\d+|[ \u00a0\u202f]\d{3}(?!\d))*")
DIGITS = re.compile(r"\d+")
MAX_SPELLED = 12  # numbers up to this one may be written as a word
HALF_DAY = 12  # hours


def numbers_agree(source: str, target: str) -> bool:
    """Return whether no number of the source is missing or changed in the target.

    A target may spell out small numbers, and tell the time by 12 or by 24 hours.
    """
    return not DIGITS.search(source) or any(
        not (missing or extra) for missing, extra in _differences(source, target)
    )


def missing_numbers(source: str, target: str) -> Counter[str]:
    """Return the numbers of a source that its target lacks, as digits, with how often.

    Of the ways to read numbers the one is taken by which the fewest are missing.
    """
    if numbers_agree(source, target):
        return Counter()
    return min((missing for missing, _ in _differences(source, target)), key=Counter.total)


def digits_of(text: str) -> str:
    """Return the digits of a text as ASCII digits."""
    return "".join(_ascii(run) for run in DIGITS.findall(text))


def _differences(source: str, target: str) -> Iterator[tuple[Counter[str], Counter[str]]]:
    """Yield the numbers that are missing and those that were added, for each way to read numbers.

    Differences that languages make are left out.
    """
    for read in (_numbers, _digit_runs, _all_digits):
        wanted, found = Counter(read(source)), Counter(read(target))
        missing, extra = wanted - found, found - wanted
        for number in list(missing):
            for other in _other_hours(number):
                n_equal = min(missing[number], extra[other])
                missing[number] -= n_equal
                extra[other] -= n_equal
        is_spelled = {number: len(number) <= 2 and int(number) <= MAX_SPELLED for number in missing}
        missing = Counter({number: n for number, n in missing.items() if not is_spelled[number]})
        yield +missing, +extra


def _other_hours(number: str) -> tuple[str, ...]:
    """Return the same hour of the afternoon by the other clock: 17 for 5, 5 for 17."""
    hour = int(number) if len(number) <= 2 else 0
    if 0 < hour < HALF_DAY:
        return (str(hour + HALF_DAY),)
    if HALF_DAY < hour < 2 * HALF_DAY:
        return (str(hour - HALF_DAY),)
    return ()


def _numbers(text: str) -> list[str]:
    return [digits_of(number) for number in NUMBER.findall(text)]


def _digit_runs(text: str) -> list[str]:
    return [_ascii(run) for run in DIGITS.findall(text)]


def _all_digits(text: str) -> list[str]:
    return [digits_of(text)]


def _ascii(digits: str) -> str:
    if digits.isascii():
        return digits
    return "".join(str(unicodedata.digit(digit)) for digit in digits)
