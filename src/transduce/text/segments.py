"""Split texts that are too long: at sentence ends, then at clause ends, then between words."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

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
    long are split into clauses, then words, which are joined again as far as they fit. Only a run
    without white space can remain too long. Joined with their gaps, the segments give the text.
    """
    return list(_split([Segment(text, "")], max_tokens, measure, level=0))


def _split(
    segments: Sequence[Segment], max_tokens: int, measure: Measure, level: int
) -> Iterator[Segment]:
    lengths = measure([segment.text for segment in segments])
    for segment, length in zip(segments, lengths, strict=True):
        if length <= max_tokens or level == len(BOUNDARIES):
            yield segment
            continue
        parts = _cut(segment, BOUNDARIES[level])
        if level > 0:
            parts = _join_neighbors(parts, max_tokens, measure)
        yield from _split(parts, max_tokens, measure, level + 1)


def _cut(segment: Segment, boundary: re.Pattern[str]) -> list[Segment]:
    """Cut a segment at each boundary; closing quotes and brackets stay with their sentence."""
    gaps = [(0, 0)]  # start and end of the white space between parts
    for found in boundary.finditer(segment.text):
        n_closing = len(found[0]) - len(found[0].lstrip(CLOSING_MARKS))
        gaps.append((found.start() + n_closing, found.end()))
    gaps.append((len(segment.text), len(segment.text)))

    parts = [
        Segment(text=segment.text[start:end], gap=segment.text[end:next_start])
        for (_, start), (end, next_start) in pairwise(gaps)
    ]
    parts[-1] = parts[-1]._replace(gap=segment.gap)
    return [part for part in parts if part.text or part.gap]


def _join_neighbors(parts: Sequence[Segment], max_tokens: int, measure: Measure) -> list[Segment]:
    """Join neighboring parts as long as they fit into `max_tokens` together."""
    joined: list[Segment] = []
    last_length = 0
    lengths = measure([part.text for part in parts])
    for part, length in zip(parts, lengths, strict=True):
        gap = joined[-1].gap if joined else ""
        # A single space is part of the next token; each byte of another gap may be a token.
        gap_length = 0 if gap in ("", " ") else len(gap.encode())
        total = last_length + gap_length + length
        if joined and total <= max_tokens:
            previous = joined.pop()
            part = Segment(previous.text + gap + part.text, part.gap)
            length = total
        joined.append(part)
        last_length = length
    return joined
