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


def has_numbers(source: str, target: str) -> bool:
    """Return whether a target has all numbers of its source in digits, and no others."""
    return any(missing == extra == [] for missing, extra in _differences(source, target))


def numbers_agree(source: str, target: str) -> bool:
    """Return whether no number of the source is missing or changed in the target.

    A target may spell out small numbers, and tell the time of the afternoon by 24 hours.
    """
    return any(_is_usual(missing, extra) for missing, extra in _differences(source, target))


def _differences(source: str, target: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the numbers that are missing and those that were added, for each way to read numbers.

    A source without numbers has no difference.
    """
    if not DIGITS.search(source):
        yield [], []
        return
    for read in (_numbers, _digit_runs, _all_digits):
        wanted, found = Counter(read(source)), Counter(read(target))
        yield list((wanted - found).elements()), list((found - wanted).elements())


def _is_usual(missing: list[str], extra: list[str]) -> bool:
    """Return whether the difference is none, or one that languages make."""
    left = list(missing)
    for number in extra:
        earlier = str(int(number) - HALF_DAY) if len(number) == 2 else ""
        if earlier not in left:
            return False
        left.remove(earlier)
    return all(len(number) <= 2 and int(number) <= MAX_SPELLED for number in left)


def _numbers(text: str) -> list[str]:
    return ["".join(_ascii(run) for run in DIGITS.findall(n)) for n in NUMBER.findall(text)]


def _digit_runs(text: str) -> list[str]:
    return [_ascii(run) for run in DIGITS.findall(text)]


def _all_digits(text: str) -> list[str]:
    return ["".join(_digit_runs(text))]


def _ascii(digits: str) -> str:
    if digits.isascii():
        return digits
    return "".join(str(unicodedata.digit(digit)) for digit in digits)
