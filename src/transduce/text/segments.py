"""A text that is too long, in parts that are not: at ends of sentences, then of clauses, then between words."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

# Behind these a new part may begin. Scripts without spaces end sentences and clauses with signs of their own.
LEVELS = (
    re.compile(r"(?<=[.!?…؟।])[\"'”’»)\]]{0,3}\s+|(?<=[。！？])"),
    re.compile(r"(?<=[,;:–—،؛])\s+|(?<=[，、；：])"),
    re.compile(r"\s+"),
)


class Segment(NamedTuple):
    """A part of a text, and the space that followed it."""

    text: str
    gap: str


Measure = Callable[[Sequence[str]], list[int]]  # the pieces of each of several texts


def split_text(text: str, most: int, measure: Measure) -> list[Segment]:
    """A text in parts of at most `most` pieces where that can be: only a run without any space may be longer.

    Sentences are parts of their own; clauses and words are put together again as far as they fit. The parts and their gaps
    make the text.
    """
    return list(_split([Segment(text, "")], most, measure, level=0))


def _split(
    segments: Sequence[Segment], most: int, measure: Measure, level: int
) -> Iterator[Segment]:
    for segment, length in zip(
        segments, measure([segment.text for segment in segments]), strict=True
    ):
        if length <= most or level == len(LEVELS):
            yield segment
            continue
        parts = _cut(segment, LEVELS[level])
        if level > 0:
            parts = _pack(parts, most, measure)
        yield from _split(parts, most, measure, level + 1)


def _cut(segment: Segment, gap: re.Pattern[str]) -> list[Segment]:
    """A segment at each gap; signs that close a sentence stay with it."""
    places = [(0, 0)]
    for found in gap.finditer(segment.text):
        closing = len(found[0]) - len(found[0].lstrip("\"'”’»)]"))
        places.append((found.start() + closing, found.end()))
    places.append((len(segment.text), len(segment.text)))
    parts = [
        Segment(segment.text[start:end], segment.text[end:after])
        for (_, start), (end, after) in pairwise(places)
    ]
    *others, last = parts
    return [part for part in [*others, last._replace(gap=segment.gap)] if part.text or part.gap]


def _pack(parts: Sequence[Segment], most: int, measure: Measure) -> list[Segment]:
    """Neighbours put together as long as they fit."""
    packed: list[Segment] = []
    total = 0
    for part, length in zip(parts, measure([part.text for part in parts]), strict=True):
        between = packed[-1].gap if packed else ""
        n_between = 0 if between in ("", " ") else len(between.encode())  # each byte may be a piece
        together = total + n_between + length
        if packed and together <= most:
            before = packed.pop()
            part, length = Segment(before.text + between + part.text, part.gap), together
        packed.append(part)
        total = length
    return packed
