"""Checks of a single sentence pair.

A check returns a short note on what it found, or None if it found nothing. `CHECKS` lists them with
the fault that each one reports.
"""

import math
import re
import unicodedata
from collections.abc import Callable

from ftfy.badness import BADNESS_RE

from transduce.doctor import faults
from transduce.doctor.repeats import near_key
from transduce.text.corpus import Pair
from transduce.text.files import REPLACEMENT_CHARACTER
from transduce.text.normalize import CONTROL_CHARACTERS

MAX_WORDS = 250
MAX_CHARACTERS = 2000
MIN_COPIED_WORDS = 3  # shorter copies are names, numbers, "OK"
MIN_COPIED_LETTERS = 12  # for scripts without spaces between words
RATIO_SMOOTHING = 10  # characters added to both lengths: the ratio of short lines varies widely
MAX_RATIO = 3.0  # relative to the typical ratio of the corpus
MAX_NOTE = 30  # characters of markup quoted in a note

INVALID_CHARACTER = re.compile(f"[{REPLACEMENT_CHARACTER}\ud800-\udfff]")
NEXT_LINE = re.compile("(?<![\x80-\xff])\x85")  # not a byte of a misread character
TAG = re.compile(r"</?[A-Za-z][^<>]{0,200}>|<!--")
ENTITY = re.compile(r"&(?:[A-Za-z]{2,8}|#\d{2,6}|#x[0-9A-Fa-f]{2,6});")
TEMPLATE = re.compile(
    r"\{\{|\}\}|\[\[|\]\]|\[/?(?:b|i|u|url|img|quote)\b[^\]]{0,200}\]|\{\\[a-z]+\d*\}"
)
NUMBER = re.compile(r"\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,'’٫٬]\d+)*")

Check = Callable[[Pair], str | None]


def find_invalid_characters(pair: Pair) -> str | None:
    """Find U+FFFD, which replaces invalid UTF-8, and lone surrogates, which JSON allows."""
    sides = (("source", pair.source), ("target", pair.target))
    found = [side for side, text in sides if not text.isascii() and INVALID_CHARACTER.search(text)]
    return " and ".join(found) if found else None


def find_mojibake(pair: Pair) -> str | None:
    """Find text that was decoded with the wrong encoding, such as UTF-8 read as Windows-1252.

    ftfy's table of unlikely character sequences decides. It includes the control characters U+0080
    to U+009F. U+0085 (next line) may be part of a text and does not count by itself.
    """
    for text in (pair.source, pair.target):
        if text.isascii():
            continue
        if "\x85" in text:
            text = NEXT_LINE.sub(" ", text)
        if found := BADNESS_RE.search(text):
            return f"{found[0]!r}"
    return None


def find_copy(pair: Pair) -> str | None:
    """Find pairs with the same text on both sides, ignoring case, digits and punctuation.

    Texts of fewer than 3 words are ignored, unless they are one run of at least 12 characters.
    """
    if abs(len(pair.source) - len(pair.target)) > RATIO_SMOOTHING:
        return None
    n_words = len(pair.source.split())
    is_long_run = n_words == 1 and len(pair.source) >= MIN_COPIED_LETTERS
    if n_words < MIN_COPIED_WORDS and not is_long_run:
        return None

    key = near_key(pair.source)
    is_prose = any(map(str.isalpha, key)) and "://" not in pair.source
    if is_prose and key == near_key(pair.target):
        return "the same text on both sides"
    return None


def find_excess_length(pair: Pair) -> str | None:
    """Find sides with more than 250 words or 2,000 characters."""
    for side, text in (("source", pair.source), ("target", pair.target)):
        if len(text) > MAX_CHARACTERS:
            return f"{side}: {len(text):,} characters"
        if len(text) > MAX_WORDS and (n_words := len(text.split())) > MAX_WORDS:
            return f"{side}: {n_words:,} words"
    return None


def find_different_numbers(pair: Pair) -> str | None:
    """Find numbers of two digits or more that are on one side only.

    Separators are ignored: 1,000 and 1.000 and 1 000 are the same number.
    """
    source, target = numbers_in(pair.source), numbers_in(pair.target)
    if source == target:
        return None
    unmatched = [*sorted(source - target), *sorted(target - source)]
    found = [number for number in unmatched if len(number) > 1]
    return f"{', '.join(found[:3])} on one side only" if found else None


def numbers_in(text: str) -> set[str]:
    """Return the numbers of a text as ASCII digits without separators and leading zeros."""
    if not text.isascii():
        text = "".join(
            str(unicodedata.digit(c)) if c.isdigit() and not c.isascii() else c for c in text
        )
    digits = ("".join(filter(str.isdigit, found)) for found in NUMBER.findall(text))
    return {number.lstrip("0") or "0" for number in digits}


def find_markup(pair: Pair) -> str | None:
    """Find tags, entities like &amp;, wiki templates and links, BBCode, and subtitle commands."""
    for text in (pair.source, pair.target):
        # Most lines have none of these characters; looking for them first is cheap.
        found = (
            ("<" in text and TAG.search(text))
            or ("&" in text and ENTITY.search(text))
            or (("[" in text or "{" in text or "}" in text) and TEMPLATE.search(text))
        )
        if found:
            markup = found[0]
            return markup if len(markup) <= MAX_NOTE else markup[:MAX_NOTE] + "…"
    return None


def find_control_characters(pair: Pair) -> str | None:
    """Find U+0000 to U+001F and U+007F, except tab, vertical tab, form feed, carriage return."""
    for side, text in (("source", pair.source), ("target", pair.target)):
        if not text.isprintable() and (found := CONTROL_CHARACTERS.search(text)):
            return f"{side}: U+{ord(found[0]):04X}"
    return None


CHECKS: tuple[tuple[faults.Fault, Check], ...] = (
    (faults.INVALID, find_invalid_characters),
    (faults.MOJIBAKE, find_mojibake),
    (faults.COPY, find_copy),
    (faults.TOO_LONG, find_excess_length),
    (faults.NUMBERS, find_different_numbers),
    (faults.MARKUP, find_markup),
    (faults.CONTROL_CHARACTERS, find_control_characters),
)


def log_ratio(pair: Pair) -> float:
    """Return the logarithm of target length divided by source length, smoothed for short lines."""
    source_length = len(pair.source) + RATIO_SMOOTHING
    target_length = len(pair.target) + RATIO_SMOOTHING
    return math.log(target_length / source_length)


def find_odd_ratio(pair: Pair, typical: float) -> str | None:
    """Find pairs whose length ratio differs by a factor of 3 from the corpus's typical ratio.

    `typical` is a logarithm, as returned by `log_ratio`.
    """
    if abs(log_ratio(pair) - typical) <= math.log(MAX_RATIO):
        return None
    return f"{len(pair.source):,} characters against {len(pair.target):,}"
