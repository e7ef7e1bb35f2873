r"""Parts of a text that are copied, never translated: links, placeholders, code, emojis.

They are found by their form alone, in any language. Numbers are words of the language and are only
found if they are asked for.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from transduce.text.numbers import NUMBER as NUMERAL
from transduce.text.terms import is_word_character

# Every protected part has one of these: most texts have none, and take no more time.
HINT = re.compile(r"[@/\\{}%<>`_#~\u20e3\u2190-\u2bff\ufe0f\U0001f000-\U0001faff]")
OTHER_HINT = re.compile(r"\.\w|--\w|\(\)|\$[A-Z]")
DIGIT = re.compile(r"\d")

FILE_SUFFIX = (
    "pdf|docx?|xlsx?|pptx?|odt|txt|csv|tsv|png|jpe?g|gif|svg|mp[34]|py|js|ts|css|html?|json|xml|zip"
    "|gz|exe|dll|md|sh|cpp|java|rs|toml|ya?ml|ini|cfg|log|sql"
)
EMOJI = (
    r"(?:[\U0001f1e6-\U0001f1ff]{2}"  # flags
    r"|\U0001f3f4[\U000e0020-\U000e007e]{1,32}\U000e007f"  # flags of regions: England
    r"|[0-9#*]\ufe0f?\u20e3"  # keycaps
    # Signs that are text, unless U+FE0F follows.
    r"|[\u00a9\u00ae\u203c\u2049\u2122\u2139\u3030\u303d\u3297\u3299]\ufe0f"
    r"|[\u2190-\u21ff\u2300-\u27bf\u2b00-\u2bff\U0001f000-\U0001f1e5\U0001f200-\U0001faff]"
    r"[\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff]*"
    r"(?:\u200d[\u2190-\u2bff\U0001f000-\U0001faff][\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]*)*)"
)
BREAKS = "\\n\\r\\v\\f\\x1c-\\x1e\\x85\\u2028\\u2029"  # never inside a part
PROTECTED = re.compile(
    rf"""(?x)
      (?P<code> `[^`{BREAKS}]{{1,500}}` )
    | (?P<link> (?: [a-zA-Z][a-zA-Z+.-]{{1,15}}:// | www\. ) [^\s<>"`]{{1,2000}}
        | mailto: [^\s<>"`]{{1,500}}
        | (?<![\w@.-]) (?:[a-zA-Z0-9-]{{1,63}}\.){{1,8}}
          (?: (?:com|org|net|edu|gov|io)(?![\w@]) (?:/[^\s<>"`]{{0,2000}})?
            | [a-z]{{2,10}} / [^\s<>"`]{{1,2000}} ) )
    | (?P<mail> [\w.+-]{{1,64}} @ [\w-]{{1,64}} (?: \. [\w-]{{1,64}} ){{1,8}} )
    | (?P<tag> < /? [a-zA-Z] [^<>{BREAKS}]{{0,500}} > | <!-- [^{BREAKS}]{{0,500}}? --> )
    | (?P<placeholder> \$? \{{\{{ [^{{}}{BREAKS}]{{0,64}} \}}\}} | \$? \{{ [^{{}}\s]{{0,64}} \}}
        | % \( \w{{1,64}} \) [a-zA-Z]
        | (?<![\d%]) % (?:\d\$)? [-+#0]{{0,4}} \d{{0,3}} (?: \. \d{{1,3}} )? [a-zA-Z@] (?!\w)
        | \$ [A-Z_][A-Z0-9_]{{1,64}} \b )
    | (?P<path> (?<![\w/:.]) (?: ~ | \.{{1,2}} )? (?: / [\w.+@-]{{1,255}} ){{2,64}} /?
        | (?<![\w/:.]) (?: ~ | \.{{1,2}} ) / [\w.+@-]{{1,255}} /?
        | (?<![\w/\\]) [a-zA-Z] : \\ [^\s"<>|]{{0,500}}
        | (?<![^\s"'(\[«“]) \\\\ [^\s"<>|]{{1,500}}
        | (?<![\w/:.-]) (?: [\w.+-]{{1,255}} / ){{0,64}} [\w+-]{{1,255}}
          \. (?:{FILE_SUFFIX}) (?![\w/@]) )
    | (?P<name> (?<![\w&/]) [@\#] [^\W\d] \w{{0,100}}          # @mention, #topic
        | (?<!\w) [^\W\d_] \w{{0,100}} _ \w{{0,100}} (?: \(\) )?   # a_name
        | (?<!\w) [a-zA-Z] [\w.]{{0,100}} \(\)                   # call()
        | (?<![\w-]) -- [a-zA-Z] [\w-]{{1,64}} (?![\w-]) )       # --option
    | (?P<emoji> {EMOJI} )
    """
)
# A word with a digit, as a whole: 1.5kg, 12:30, COVID-19, $5.
NUMBER_WORD = re.compile(r"""(?<![^\s"'(\[«“])[^\s\d"'(\[«“]{0,64}\d[^\s"'»”]{0,2000}""")
SENTENCE_PUNCTUATION = ".,;:!?…"
BRACKETS = {")": "(", "]": "["}


TERM, NUMBER = "term", "number"  # kinds that are not groups of PROTECTED


class ProtectedPart(NamedTuple):
    """`text[start:end]` must be in the translation as it is."""

    start: int
    end: int
    text: str
    kind: str  # the name of a group of PROTECTED, NUMBER or TERM


def find_protected(text: str, *, with_numbers: bool = False) -> list[ProtectedPart]:
    """Return the parts of a text to copy, from left to right, without overlaps.

    Punctuation at the end is not part of a link, nor is a closing bracket that was not opened
    inside it. Neighbors with nothing but white space between them are one part.
    """
    return join_neighbors(text, find_single_parts(text, with_numbers=with_numbers))


def find_single_parts(text: str, *, with_numbers: bool = False) -> list[ProtectedPart]:
    """Return the parts of a text to copy as `find_protected`, but neighbors are not joined."""
    found: list[ProtectedPart] = []
    if HINT.search(text) or OTHER_HINT.search(text):
        found = list(_matches(PROTECTED, text))
    if with_numbers and DIGIT.search(text):
        found = add_parts(found, _matches(NUMBER_WORD, text))
    return found


def add_parts(
    parts: Sequence[ProtectedPart], others: Iterable[ProtectedPart]
) -> list[ProtectedPart]:
    """Return parts with those others that overlap none of them; all are from left to right."""
    free = []
    i = 0
    for each in others:
        while i < len(parts) and parts[i].end <= each.start:
            i += 1
        if i == len(parts) or each.end <= parts[i].start:
            free.append(each)
    return sorted([*parts, *free])


def join_neighbors(text: str, parts: list[ProtectedPart]) -> list[ProtectedPart]:
    """Join parts with nothing but white space between them."""
    spans: list[tuple[int, int, str]] = []
    for start, end, _, kind in parts:
        if spans and not text[spans[-1][1] : start].strip(" \t\u00a0"):
            first_start, _, kind = spans.pop()
            start = first_start
        spans.append((start, end, kind))
    return [ProtectedPart(start, end, text[start:end], kind) for start, end, kind in spans]


def numbers_in(text: str) -> list[ProtectedPart]:
    """Return the numbers of a text, each with the letters of its word: 5 of $5, but 5kg whole."""
    found = []
    for word in _matches(NUMBER_WORD, text):
        if has_letter(word.text):
            found.append(word)
            continue
        numerals = NUMERAL.finditer(text, word.start, word.end)
        found += [ProtectedPart(*match.span(), match[0], NUMBER) for match in numerals]
    return found


def has_letter(text: str) -> bool:
    """Return whether a text has a letter."""
    return any(map(str.isalpha, text))


def has_words(text: str, parts: list[ProtectedPart]) -> bool:
    """Return whether a text has a letter outside of its protected parts."""
    done = 0
    for part in parts:
        if has_letter(text[done : part.start]):
            return True
        done = part.end
    return has_letter(text[done:])


def _matches(pattern: re.Pattern[str], text: str) -> Iterator[ProtectedPart]:
    for match in pattern.finditer(text):
        start, end = match.span()
        kind = match.lastgroup or NUMBER
        if kind in ("link", "mail", "path", NUMBER):
            while end > start and _ends_outside(text[start:end]):
                end -= 1
        if kind in ("placeholder", "path", "name"):
            start, end = _whole_word(text, start, end)
        if start < end:
            yield ProtectedPart(start, end, text[start:end], kind)


def _ends_outside(part: str) -> bool:
    """Return whether the last character belongs to the sentence around a part."""
    last = part[-1]
    if last in SENTENCE_PUNCTUATION:
        return True
    if last in BRACKETS:
        return part.count(last) > part.count(BRACKETS[last])
    return last in "'’»”"


def _whole_word(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span of a part with the letters and digits that adjoin it: v{version}, {n}px."""
    while start > 0 and is_word_character(text[start - 1]):
        start -= 1
    while end < len(text) and is_word_character(text[end]):
        end += 1
    return start, end
