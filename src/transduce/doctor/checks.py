"""What can be seen in a single pair: a table of small functions, each with its rule. A note says what was found, None nothing."""

import math
import re
import unicodedata
from collections.abc import Callable

from transduce.doctor import faults
from transduce.doctor.repeats import near_key
from transduce.text.corpus import Pair
from transduce.text.files import REPLACEMENT
from transduce.text.normalize import CONTROL_CHARACTERS

MOST_WORDS = 250
MOST_CHARACTERS = 2000
COPIED_WORDS = 3  # shorter copies are names, numbers, "OK"
COPIED_LETTERS = 12  # where words are not parted by spaces
SLACK = 10  # characters added to both lengths, so that the ratio of short lines means little
FARTHEST = 3.0  # times longer than the corpus's own typical ratio
# Punctuation that may rightly follow a capital letter with an accent, though it has the code of a continuation byte: CAFÉ»
CLOSING = "»”’›…–—"
# The characters of Windows-1252 and Windows-1251 at 0x80 to 0xbf, which continue a character of several bytes in UTF-8
WESTERN = "\u0080-\u00bf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ"
CYRILLIC = "ЂЃ‚ѓ„…†‡€‰Љ‹ЊЌЋЏђ‘’“”•–—™љ›њќћџ\u00a0ЎўЈ¤Ґ¦§Ё©Є«¬\u00ad®Ї°±Ііґµ¶·ё№є»јЅѕї"
MISREAD = re.compile(
    f"(?<![A-ZÀ-Þ])[Â-ß][{WESTERN}]|[Â-ß](?![{CLOSING}])[{WESTERN}]|[à-ï][{WESTERN}]{{2}}|ð[{WESTERN}]{{3}}"
    f"|(?:[РС][{CYRILLIC}]){{2}}|[\u0080-\u0084\u0086-\u009f]"
)
INVALID_CHARACTER = re.compile(f"[{REPLACEMENT}\ud800-\udfff]")
TAG = re.compile(r"</?[A-Za-z][^<>]{0,200}>|<!--")
ENTITY = re.compile(r"&(?:[A-Za-z]{2,8}|#\d{2,6}|#x[0-9A-Fa-f]{2,6});")
TEMPLATE = re.compile(
    r"\{\{|\}\}|\[\[|\]\]|\[/?(?:b|i|u|url|img|quote)\b[^\]]{0,200}\]|\{\\[a-z]+\d*\}"
)
NUMBER = re.compile(r"\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,'’٫٬]\d+)*")

Find = Callable[[Pair], str | None]


def has_invalid_bytes(pair: Pair) -> str | None:
    """U+FFFD, which is also what bytes that are not UTF-8 are read as; or half a character, which JSON can hold."""
    sides = (("source", pair.source), ("target", pair.target))
    found = [side for side, text in sides if not text.isascii() and INVALID_CHARACTER.search(text)]
    return " and ".join(found) if found else None


def is_mojibake(pair: Pair) -> str | None:
    """UTF-8 that was read as Windows-1252, Latin-1 or Windows-1251: a leading byte's character with those of its continuation.

    Not meant are accented capitals before closing punctuation (CAFÉ»). Control characters U+0080 to U+009F count too.
    """
    for text in (pair.source, pair.target):
        if not text.isascii() and (found := MISREAD.search(text)):
            return f"{found[0]!r}"
    return None


def is_copy(pair: Pair) -> str | None:
    """The same text on both sides but for case, digits and punctuation, of at least 3 words, or of 12 letters without a space."""
    if abs(len(pair.source) - len(pair.target)) > SLACK:
        return None
    words = pair.source.split()
    if len(words) < COPIED_WORDS and not (len(words) == 1 and len(pair.source) >= COPIED_LETTERS):
        return None
    key = near_key(pair.source)
    is_text = any(map(str.isalpha, key)) and "://" not in pair.source
    return "the same text on both sides" if is_text and key == near_key(pair.target) else None


def is_too_long(pair: Pair) -> str | None:
    """More than 250 words or 2,000 characters on a side."""
    for side, text in (("source", pair.source), ("target", pair.target)):
        if len(text) > MOST_CHARACTERS:
            return f"{side}: {len(text):,} characters"
        if len(text) > MOST_WORDS and (n_words := len(text.split())) > MOST_WORDS:
            return f"{side}: {n_words:,} words"
    return None


def has_other_numbers(pair: Pair) -> str | None:
    """A number of two digits or more that one side has and the other has not; 1,000 and 1.000 and 1 000 are the same number."""
    source, target = numbers_in(pair.source), numbers_in(pair.target)
    lone = [*sorted(source - target), *sorted(target - source)] if source != target else []
    found = [number for number in lone if len(number) > 1]
    return f"{', '.join(found[:3])} on one side only" if found else None


def numbers_in(text: str) -> set[str]:
    """The numbers of a text as plain digits, without separators and leading zeros."""
    if not text.isascii():
        text = "".join(
            str(unicodedata.digit(c)) if c.isdigit() and not c.isascii() else c for c in text
        )
    digits = ("".join(filter(str.isdigit, found)) for found in NUMBER.findall(text))
    return {number.lstrip("0") or "0" for number in digits}


def has_markup(pair: Pair) -> str | None:
    """A tag, an entity like &amp;, a template or link of a wiki, BBCode, or a subtitle's command."""
    for text in (pair.source, pair.target):
        found = (
            ("<" in text and TAG.search(text))
            or ("&" in text and ENTITY.search(text))
            or (("[" in text or "{" in text or "}" in text) and TEMPLATE.search(text))
        )
        if found:
            return found[0] if len(found[0]) <= 30 else found[0][:30] + "…"
    return None


def has_control_characters(pair: Pair) -> str | None:
    """Codes below 32 and 127, but for tab, vertical tab, form feed and carriage return."""
    for side, text in (("source", pair.source), ("target", pair.target)):
        if not text.isprintable() and (found := CONTROL_CHARACTERS.search(text)):
            return f"{side}: U+{ord(found[0]):04X}"
    return None


CHECKS: tuple[tuple[faults.Fault, Find], ...] = (
    (faults.INVALID, has_invalid_bytes),
    (faults.MOJIBAKE, is_mojibake),
    (faults.COPY, is_copy),
    (faults.TOO_LONG, is_too_long),
    (faults.NUMBERS, has_other_numbers),
    (faults.MARKUP, has_markup),
    (faults.CONTROL_CHARACTERS, has_control_characters),
)


def log_ratio(pair: Pair) -> float:
    """How many times longer the target is than the source, as a logarithm."""
    return math.log((len(pair.target) + SLACK) / (len(pair.source) + SLACK))


def has_odd_ratio(pair: Pair, typical: float) -> str | None:
    """A side is three times longer than the other and the corpus's typical ratio (as a logarithm) let expect."""
    if abs(log_ratio(pair) - typical) <= math.log(FARTHEST):
        return None
    return f"{len(pair.source):,} characters beside {len(pair.target):,}"
