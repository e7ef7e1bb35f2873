"""Measure a corpus: number of lines, lengths, and places where two files drift apart."""

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
from transduce.text.files import display_name, has_byte_order_mark, read_lines

MAX_MEASURED = 2_000_000  # lines of a file whose lengths are kept
CONTEXT_LINES = 3  # shown before and after a drift
MAX_SHOWN = 5  # drifts shown with their lines
RATIO_STEP = 0.02  # bin width of the histogram of logarithmic length ratios
RATIO_BINS = 251  # from e^-2.5 to e^2.5; the outermost bins hold everything beyond

Counts = NDArray[np.int64]
NumberedLines = tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class DriftLocation:
    """A place where two files drift apart, or become aligned again.

    From source line `line` on, source line n belongs to target line n + `shift`. `missing` is the
    number of lines that the source lacks here; if negative, the target lacks them. `source` and
    `target` are the surrounding lines.
    """

    file: str
    line: int
    shift: int
    missing: int
    source: NumberedLines
    target: NumberedLines


@dataclass(frozen=True, slots=True)
class PartStatistics:
    """The measurements of a part of a corpus (two parallel files, or a table).

    Lengths are histograms in characters; `ratios` is a histogram of logarithmic length ratios.
    """

    part: PairSource
    n_source: int
    n_target: int
    drifts: tuple[Drift, ...]
    source_lengths: Counts
    target_lengths: Counts
    ratios: Counts
    files_with_mark: tuple[str, ...] = ()  # files that begin with a byte order mark

    @property
    def remarks(self) -> list[str]:
        """Return remarks on byte order marks, and on lines that were not measured."""
        remarks = [
            f"{name} begins with a byte order mark, which is ignored"
            for name in self.files_with_mark
        ]
        if max(self.n_source, self.n_target) > MAX_MEASURED:
            remarks.append(
                f"{self.part.name}: lengths and drift were measured on the first "
                f"{MAX_MEASURED:,} lines"
            )
        return remarks

    @property
    def n_trusted(self) -> int:
        """Return the number of pairs before files of unequal length drift apart; otherwise all."""
        if self.n_source == self.n_target:
            return self.n_source
        shared = min(self.n_source, self.n_target)
        return min(shared, self.drifts[0].line - 1) if self.drifts else shared


def split_parts(pairs: PairSource) -> tuple[PairSource, ...]:
    """Split a corpus into its parts: each two parallel files, or one table."""
    if isinstance(pairs, PairFiles):
        return tuple(
            PairFiles((source,), (target,))
            for source, target in zip(pairs.sources, pairs.targets, strict=True)
        )
    if isinstance(pairs, PairTables):
        return tuple(PairTables((path,), pairs.fields) for path in pairs.paths)
    return (pairs,)


def part_files(part: PairSource) -> tuple[Path, ...]:
    """Return the files of a part; none for pairs in memory."""
    if isinstance(part, PairFiles):
        return part.sources + part.targets
    return part.paths if isinstance(part, PairTables) else ()


def measure_part(part: PairSource) -> PartStatistics:
    """Count and measure the lines of a part."""
    lengths = (array("I"), array("I"))
    n_lines = [0, 0]
    for side, length in _read_lengths(part):
        n_lines[side] += 1
        if n_lines[side] <= MAX_MEASURED:
            lengths[side].append(length)

    source, target = (
        np.frombuffer(side, dtype=np.uint32) if side else np.zeros(0, np.uint32) for side in lengths
    )
    drifts = find_drifts(source, target)
    n_both = min(len(source), len(target))
    n_trusted = drifts[0].line - 1 if drifts and n_lines[0] != n_lines[1] else n_both
    return PartStatistics(
        part,
        n_source=n_lines[0],
        n_target=n_lines[1],
        drifts=drifts,
        source_lengths=_count_lengths(source[:n_both]),
        target_lengths=_count_lengths(target[:n_both]),
        ratios=_count_ratios(source[:n_trusted], target[:n_trusted]),
        files_with_mark=tuple(
            display_name(path) for path in part_files(part) if has_byte_order_mark(path)
        ),
    )


def typical_ratio(ratios: Counts) -> float:
    """Return the median of a histogram of logarithmic length ratios, to the nearest bin."""
    if not ratios.sum():
        return 0.0
    median_bin = int(np.searchsorted(np.cumsum(ratios), (ratios.sum() + 1) // 2))
    return (median_bin - RATIO_BINS // 2) * RATIO_STEP


def locate_drifts(statistics: PartStatistics) -> Iterator[DriftLocation]:
    """Yield the first drifts of two files with the lines around them, which are read again."""
    if not isinstance(statistics.part, PairFiles):
        return
    shift = 0
    for drift in statistics.drifts[:MAX_SHOWN]:
        first = max(drift.line - CONTEXT_LINES, 1, 1 - shift)
        numbers = range(first, drift.line + CONTEXT_LINES)
        shifted_numbers = range(numbers.start + shift, numbers.stop + shift)
        yield DriftLocation(
            file=statistics.part.name,
            line=drift.line,
            shift=drift.shift,
            missing=drift.shift - shift,
            source=_read_range(statistics.part.sources[0], numbers),
            target=_read_range(statistics.part.targets[0], shifted_numbers),
        )
        shift = drift.shift


def _read_lengths(part: PairSource) -> Iterator[tuple[int, int]]:
    """Yield side (0 or 1) and length of every line."""
    if isinstance(part, PairFiles):
        # One file after the other, since they may be of unequal length.
        for side, path in enumerate((part.sources[0], part.targets[0])):
            for line in read_lines(path, "replace"):
                yield side, len(line)
    else:
        for pair in part.read("replace"):
            yield 0, len(pair.source)
            yield 1, len(pair.target)


def _count_lengths(lengths: NDArray[np.uint32]) -> Counts:
    return np.bincount(np.minimum(lengths, MAX_CHARACTERS), minlength=MAX_CHARACTERS + 1)


def _count_ratios(source: NDArray[np.uint32], target: NDArray[np.uint32]) -> Counts:
    is_filled = (source > 0) & (target > 0)
    ratios = np.log((target[is_filled] + RATIO_SMOOTHING) / (source[is_filled] + RATIO_SMOOTHING))
    bins = np.rint(ratios / RATIO_STEP).astype(np.int64) + RATIO_BINS // 2
    return np.bincount(np.clip(bins, 0, RATIO_BINS - 1), minlength=RATIO_BINS)


def _read_range(path: Path, numbers: range) -> NumberedLines:
    lines = enumerate(read_lines(path, "replace"), start=1)
    return tuple(islice(lines, numbers.start - 1, numbers.stop - 1))
