"""Split texts that are too long: at sentence ends, then at clause ends, then between words."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

MAX_SENTENCES = 200_000  # more on one line are no prose, and each takes a kilobyte of memory
BLOCK_SIZE = 4096  # parts of a text that are measured at once
Item = TypeVar("Item")

CLOSING_MARKS = "\"'”’»)]"

# Where a text may be split, tried in this order. Scripts without spaces have their own punctuation.
BOUNDARIES = (
    re.compile(r"(?<=[.!?…؟।])[\"'”’»)\]]{0,3}\s+|(?<=[。！？])"),  # sentences
    re.compile(r"(?<=[,;:–—،؛])\s+|(?<=[，、；：])"),  # clauses
    re.compile(r"\s+"),  # words
)


class Segment(NamedTuple):
    """A part of a text, and the white space that follows it."""

    text: str
    gap: str


Measure = Callable[[Sequence[str]], list[int]]  # returns the number of tokens of each text


def split_text(text: str, max_tokens: int, measure: Measure) -> list[Segment]:
    """Split a text into segments of at most `max_tokens` tokens.

    A text that fits is one segment. Otherwise each sentence is a segment; those that are still too
    long are split into clauses, then words, which are joined again as far as they fit. So are
    sentences if there are more than MAX_SENTENCES. Only a run without white space can remain too
    long. Joined with their gaps, the segments give the text.
    """
    return list(_split([Segment(text, "")], max_tokens, measure, level=0))


def in_blocks(items: Iterable[Item], size: int = BLOCK_SIZE) -> Iterator[list[Item]]:
    """Yield the items in lists of at most `size`, so that millions of them are never in memory."""
    iterator = iter(items)
    while block := list(islice(iterator, size)):
        yield block


def _split(
    segments: Iterable[Segment], max_tokens: int, measure: Measure, level: int
) -> Iterator[Segment]:
    for segment, length in _measured(segments, measure):
        if length <= max_tokens or level == len(BOUNDARIES):
            yield segment
            continue
        parts = _cut(segment, BOUNDARIES[level])
        if level > 0 or _has_too_many_sentences(segment.text):
            parts = _join_neighbors(parts, max_tokens, measure)
        yield from _split(parts, max_tokens, measure, level + 1)


def _has_too_many_sentences(text: str) -> bool:
    ends = BOUNDARIES[0].finditer(text)
    return next(islice(ends, MAX_SENTENCES, None), None) is not None


def _measured(segments: Iterable[Segment], measure: Measure) -> Iterator[tuple[Segment, int]]:
    """Yield segments with their number of tokens."""
    for block in in_blocks(segments):
        yield from zip(block, measure([segment.text for segment in block]), strict=True)


def _cut(segment: Segment, boundary: re.Pattern[str]) -> Iterator[Segment]:
    """Cut a segment at each boundary; closing quotes and brackets stay with their sentence."""
    text, start = segment.text, 0
    for found in boundary.finditer(text):
        n_closing = len(found[0]) - len(found[0].lstrip(CLOSING_MARKS))
        end, next_start = found.start() + n_closing, found.end()
        if start < next_start:
            yield Segment(text[start:end], gap=text[end:next_start])
        start = next_start
    if start < len(text) or segment.gap:
        yield Segment(text[start:], segment.gap)


def _join_neighbors(
    parts: Iterable[Segment], max_tokens: int, measure: Measure
) -> Iterator[Segment]:
    """Join neighboring parts as long as they fit into `max_tokens` together."""
    joined: Segment | None = None
    joined_length = 0
    for part, length in _measured(parts, measure):
        if joined is not None:
            # A single space is part of the next token; each byte of another gap may be a token.
            gap_length = 0 if joined.gap in ("", " ") else len(joined.gap.encode())
            total = joined_length + gap_length + length
            if total <= max_tokens:
                part, length = Segment(joined.text + joined.gap + part.text, part.gap), total
            else:
                yield joined
        joined, joined_length = part, length
    if joined is not None:
        yield joined
