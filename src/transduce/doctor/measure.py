"""The first look at a corpus: how many lines, how long, and where two files drift apart."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from transduce.doctor.checks import MAX_CHARACTERS, RATIO_SMOOTHING
from transduce.text.corpus import PairFiles, PairSource, PairTables
from transduce.text.drift import Drift, find_drifts
from transduce.text.files import display_name, has_mark, read_lines

MOST_MEASURED = 2_000_000  # lines of a file whose lengths are kept
AROUND = 3  # lines shown before and after a drift
MOST_SHOWN = 5  # drifts shown with their lines
RATIO_STEP = 0.02  # width of a bin of the logarithm of length ratios
RATIO_BINS = 251  # from e^-2.5 to e^2.5; what is beyond is in the outermost

Counts = NDArray[np.int64]
Numbered = tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A place where two files drift apart: from `line` of the source on, line n of it fits line n + `shift` of the target.

    `missing`: so many lines the source lacks here; the target, if negative. `source` and `target`: the lines around, side by side.
    """

    file: str
    line: int
    shift: int
    missing: int
    source: Numbered
    target: Numbered


@dataclass(frozen=True, slots=True)
class Measured:
    """A part of a corpus (two files, or a table) in numbers."""

    part: PairSource
    n_source: int
    n_target: int
    drifts: tuple[Drift, ...]
    source_lengths: Counts
    target_lengths: Counts
    ratios: Counts
    marked: tuple[str, ...] = ()  # files that begin with a byte order mark

    @property
    def remarks(self) -> list[str]:
        """That a byte order mark was there, and that not all lines were measured, if so."""
        remarks = [
            f"{name} begins with a byte order mark, which is left out" for name in self.marked
        ]
        if max(self.n_source, self.n_target) > MOST_MEASURED:
            remarks.append(
                f"{self.part.name}: lengths and drift are of the first {MOST_MEASURED:,} lines"
            )
        return remarks

    @property
    def n_trusted(self) -> int:
        """The pairs before the files drift apart for good: all, where both have the same number of lines."""
        if self.n_source == self.n_target:
            return self.n_source
        shared = min(self.n_source, self.n_target)
        return min(shared, self.drifts[0].line - 1) if self.drifts else shared


def parts_of(pairs: PairSource) -> tuple[PairSource, ...]:
    """A corpus of several files, two by two; a table at a time."""
    if isinstance(pairs, PairFiles):
        return tuple(
            PairFiles((a,), (b,)) for a, b in zip(pairs.sources, pairs.targets, strict=True)
        )
    if isinstance(pairs, PairTables):
        return tuple(PairTables((path,), pairs.fields) for path in pairs.paths)
    return (pairs,)


def files_of(part: PairSource) -> tuple[Path, ...]:
    """The files of a part."""
    if isinstance(part, PairFiles):
        return part.sources + part.targets
    return part.paths if isinstance(part, PairTables) else ()


def measure(part: PairSource) -> Measured:
    """Count and measure the lines of a part."""
    lengths = (array("I"), array("I"))
    counts = [0, 0]
    for side, length in _lengths(part):
        counts[side] += 1
        if counts[side] <= MOST_MEASURED:
            lengths[side].append(length)
    a, b = (
        np.frombuffer(side, dtype=np.uint32) if side else np.zeros(0, np.uint32) for side in lengths
    )
    n = min(len(a), len(b))
    drifts = find_drifts(a, b)
    trusted = drifts[0].line - 1 if drifts and counts[0] != counts[1] else n
    return Measured(
        part,
        n_source=counts[0],
        n_target=counts[1],
        drifts=drifts,
        source_lengths=np.bincount(np.minimum(a[:n], MAX_CHARACTERS), minlength=MAX_CHARACTERS + 1),
        target_lengths=np.bincount(np.minimum(b[:n], MAX_CHARACTERS), minlength=MAX_CHARACTERS + 1),
        ratios=_count_ratios(a[:trusted], b[:trusted]),
        marked=tuple(display_name(path) for path in files_of(part) if has_mark(path)),
    )


def typical_ratio(ratios: Counts) -> float:
    """The median of the logarithms of length ratios, to the width of a bin."""
    if not ratios.sum():
        return 0.0
    middle = int(np.searchsorted(np.cumsum(ratios), (ratios.sum() + 1) // 2))
    return (middle - RATIO_BINS // 2) * RATIO_STEP


def places(measured: Measured) -> Iterator[Place]:
    """The first drifts of two files, each with the lines around it, read once more."""
    if not isinstance(measured.part, PairFiles):
        return
    shift = 0
    for drift in measured.drifts[:MOST_SHOWN]:
        numbers = range(max(drift.line - AROUND, 1, 1 - shift), drift.line + AROUND)
        source = _read_some(measured.part.sources[0], numbers)
        target = _read_some(
            measured.part.targets[0], range(numbers.start + shift, numbers.stop + shift)
        )
        yield Place(
            measured.part.name, drift.line, drift.shift, drift.shift - shift, source, target
        )
        shift = drift.shift


def _lengths(part: PairSource) -> Iterator[tuple[int, int]]:
    """Side and length of every line."""
    if isinstance(part, PairFiles):  # one file after the other: they may be of unequal length
        for side, path in enumerate((part.sources[0], part.targets[0])):
            yield from ((side, len(line)) for line in read_lines(path, "replace"))
    else:
        for pair in part.read("replace"):
            yield 0, len(pair.source)
            yield 1, len(pair.target)


def _count_ratios(source: NDArray[np.uint32], target: NDArray[np.uint32]) -> Counts:
    seen = (source > 0) & (target > 0)
    ratios = np.log((target[seen] + RATIO_SMOOTHING) / (source[seen] + RATIO_SMOOTHING))
    bins = np.clip(
        np.rint(ratios / RATIO_STEP).astype(np.int64) + RATIO_BINS // 2, 0, RATIO_BINS - 1
    )
    return np.bincount(bins, minlength=RATIO_BINS)


def _read_some(path: Path, numbers: range) -> Numbered:
    lines = enumerate(read_lines(path, "replace"), start=1)
    return tuple(islice(lines, numbers.start - 1, numbers.stop - 1))
