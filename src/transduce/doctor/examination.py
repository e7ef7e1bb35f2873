"""Examine a whole corpus, or a sample of it.

A corpus is read twice, one pair at a time: first for lengths and drift, then for all other checks.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from transduce.doctor.checks import CHECKS, find_odd_ratio, log_ratio
from transduce.doctor.faults import BLANK, COPY, FAULTS, MISALIGNED, RATIO, WRONG_LANGUAGE, Fault
from transduce.doctor.languages import LanguageChecker
from transduce.doctor.measure import (
    Counts,
    DriftLocation,
    PartStatistics,
    locate_drifts,
    measure_part,
    split_parts,
    typical_ratio,
)
from transduce.doctor.repeats import DuplicateDetector, HeldOutIndex, Note, near_fingerprints
from transduce.text.corpus import Languages, Pair, PairFiles, PairSource
from transduce.text.drift import find_drifts
from transduce.text.files import display_name, read_lines

MAX_EXAMPLES = 5
SAMPLE_SIZE = 10_000  # pairs that `check_sample` reads
N_LANGUAGE_CHECKS = 2000  # of these pairs, evenly spread; language identification is slow
MARGIN = 10  # lines added at both ends of a misaligned stretch, whose ends are not exact
PROGRESS_INTERVAL = 1000  # pairs


@dataclass(frozen=True, slots=True)
class FaultExample:
    """A pair with a fault, and its place in the corpus."""

    file: str
    line: int
    note: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault with the number of pairs that have it, and examples from the whole corpus."""

    fault: Fault
    count: int
    n_checked: int
    examples: tuple[FaultExample, ...]

    @property
    def share(self) -> float:
        """Return the share of the checked pairs that have the fault."""
        return self.count / self.n_checked if self.n_checked else 0.0

    @property
    def is_alarming(self) -> bool:
        """Return whether the fault is frequent enough to harm the model."""
        return self.count > 0 and self.share >= self.fault.alarm_threshold


@dataclass(frozen=True, slots=True)
class UnequalFiles:
    """Two parallel files with different numbers of lines."""

    source: str
    target: str
    source_lines: int
    target_lines: int

    def __str__(self) -> str:
        return (
            f"{self.source} has {self.source_lines:,} lines, "
            f"{self.target} has {self.target_lines:,}"
        )


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of examining a corpus.

    `n_usable` counts the pairs that a cleaned copy keeps. `typical_ratio` is the median of target
    length divided by source length. The last three fields are histograms, see `PartStatistics`.
    """

    name: str
    n_pairs: int
    n_usable: int
    languages: Languages | None
    are_swapped: bool
    findings: tuple[Finding, ...]
    unequal: tuple[UnequalFiles, ...]
    drifts: tuple[DriftLocation, ...]
    remarks: tuple[str, ...]
    typical_ratio: float
    source_lengths: Counts
    target_lengths: Counts
    ratios: Counts

    def count(self, fault: Fault) -> int:
        """Return the number of pairs with a fault."""
        return next((finding.count for finding in self.findings if finding.fault is fault), 0)


@dataclass(slots=True)
class PairExaminer:
    """Find the faults of pairs, one by one; earlier pairs are remembered to find duplicates."""

    typical_ratio: float = 0.0
    languages: LanguageChecker | None = None
    held_out: tuple[HeldOutIndex, ...] = ()
    duplicates: DuplicateDetector = field(default_factory=DuplicateDetector)

    def notes(self, number: int, pair: Pair) -> list[Note]:
        """Return all faults of a pair with notes; a blank pair has no other faults.

        `number` is the position of the pair in the corpus, from 1.
        """
        if pair.is_blank:
            is_all_blank = not (pair.source + pair.target).strip()
            return [(BLANK, "both sides" if is_all_blank else "one side")]

        notes = [(fault, note) for fault, check in CHECKS if (note := check(pair)) is not None]
        if odd := find_odd_ratio(pair, self.typical_ratio):
            notes.append((RATIO, odd))

        # A copy has both sides in one language; reporting it once is enough.
        is_copy = any(fault is COPY for fault, _ in notes)
        if self.languages and not is_copy and (other := self.languages.note(number, pair)):
            notes.append((WRONG_LANGUAGE, other))

        keys = near_fingerprints(pair)
        notes += self.duplicates.notes(pair, keys)
        notes += [leak for held_out in self.held_out if (leak := held_out.note(keys))]
        return notes


@dataclass(slots=True)
class FaultCounter:
    """Count faults and keep a few examples of each.

    The examples are a reservoir sample of all pairs with the fault, drawn with a fixed seed.
    """

    n_pairs: int = 0
    n_usable: int = 0
    counts: dict[Fault, int] = field(default_factory=dict)
    examples: dict[Fault, list[FaultExample]] = field(default_factory=dict)
    rng: random.Random = field(default_factory=lambda: random.Random(1))

    def add(self, part: str, line: int, pair: Pair, notes: Sequence[Note]) -> None:
        """Count a pair and its faults."""
        self.n_pairs += 1
        if not any(fault.is_dropped for fault, _ in notes):
            self.n_usable += 1
        for fault, note in dict(notes).items():
            self.counts[fault] = self.counts.get(fault, 0) + 1
            example = FaultExample(part, line, note, pair.source, pair.target)
            kept = self.examples.setdefault(fault, [])
            if len(kept) < MAX_EXAMPLES:
                kept.append(example)
            elif (place := self.rng.randrange(self.counts[fault])) < MAX_EXAMPLES:
                kept[place] = example

    def findings(self, n_language_checks: int) -> tuple[Finding, ...]:
        """Return the faults found, in the order of FAULTS.

        `n_language_checks` is the number of pairs whose languages were checked.
        """
        findings = []
        for fault in FAULTS:
            if fault not in self.counts:
                continue
            examples = sorted(self.examples[fault], key=lambda example: example.line)
            n_checked = n_language_checks if fault is WRONG_LANGUAGE else self.n_pairs
            findings.append(Finding(fault, self.counts[fault], n_checked, tuple(examples)))
        return tuple(findings)


Visit = Callable[[PairSource, int, Pair, Sequence[Note]], None]  # part, line, pair, faults


def examine(
    pairs: PairSource,
    languages: Languages | None = None,
    held_out: Sequence[PairSource] = (),
    visit: Visit | None = None,
    progress: Callable[[int], None] | None = None,
) -> Diagnosis:
    """Examine a corpus.

    Of files of unequal length, only the pairs before they drift apart are examined.

    `visit` is called with each pair and its faults, in order; if it is given, the language of every
    pair is checked, otherwise a sample. `progress` is called with the number of pairs read so far.
    """
    languages = languages or pairs.languages
    statistics = [measure_part(part) for part in split_parts(pairs)]
    ratios = np.sum([part.ratios for part in statistics], axis=0)
    language_checker = LanguageChecker(languages, every_pair=visit is not None)
    held_out_indexes = tuple(
        HeldOutIndex(part) for source in held_out for part in split_parts(source)
    )
    examiner = PairExaminer(typical_ratio(ratios), language_checker, held_out_indexes)
    counter = FaultCounter()

    for part in statistics:
        misaligned = _misaligned_stretches(part)
        for line, pair in enumerate(_read_trusted(part), start=1):
            notes = examiner.notes(counter.n_pairs + 1, pair)
            if any(line in stretch for stretch in misaligned):
                notes.insert(0, (MISALIGNED, ""))
            counter.add(part.part.name, line, pair, notes)
            if visit is not None:
                visit(part.part, line, pair, notes)
            if progress is not None and counter.n_pairs % PROGRESS_INTERVAL == 0:
                progress(counter.n_pairs)

    remarks = [*language_checker.remarks, *examiner.duplicates.remarks]
    for index in held_out_indexes:
        remarks += index.remarks
    for part in statistics:
        remarks += part.remarks
    return Diagnosis(
        name=pairs.name,
        n_pairs=counter.n_pairs,
        n_usable=counter.n_usable,
        languages=languages,
        are_swapped=language_checker.are_swapped,
        findings=counter.findings(language_checker.n_pairs),
        unequal=tuple(_unequal(part) for part in statistics if part.n_source != part.n_target),
        drifts=tuple(drift for part in statistics for drift in locate_drifts(part)),
        remarks=tuple(remarks),
        typical_ratio=float(np.exp(examiner.typical_ratio)),
        source_lengths=np.sum([part.source_lengths for part in statistics], axis=0),
        target_lengths=np.sum([part.target_lengths for part in statistics], axis=0),
        ratios=ratios,
    )


def _read_trusted(statistics: PartStatistics) -> Iterator[Pair]:
    """Read the pairs of a part before its files drift apart; invalid UTF-8 becomes U+FFFD."""
    part = statistics.part
    if not isinstance(part, PairFiles):
        return part.read("replace")
    lines = zip(
        read_lines(part.sources[0], "replace"),
        read_lines(part.targets[0], "replace"),
        strict=False,
    )
    return (Pair(*pair) for pair in islice(lines, statistics.n_trusted))


def _unequal(statistics: PartStatistics) -> UnequalFiles:
    part = statistics.part
    assert isinstance(part, PairFiles), "a table has two sides of equal length"
    return UnequalFiles(
        source=display_name(part.sources[0]),
        target=display_name(part.targets[0]),
        source_lines=statistics.n_source,
        target_lines=statistics.n_target,
    )


def _misaligned_stretches(statistics: PartStatistics) -> list[range]:
    """Return the ranges of lines in which two equally long files are misaligned, with a margin."""
    if statistics.n_source != statistics.n_target or not statistics.drifts:
        return []
    ends = [*(drift.line for drift in statistics.drifts[1:]), statistics.n_source + 1]
    return [
        range(drift.line - MARGIN, end + MARGIN)
        for drift, end in zip(statistics.drifts, ends, strict=True)
        if drift.shift != 0
    ]


def check_sample(pairs: Iterable[Pair], languages: Languages | None = None) -> list[str]:
    """Check the first 10,000 pairs before training and return warnings, one line each.

    Only alarming faults lead to a warning. Line numbers count from 1. If no pair is usable, there
    is no warning: reading the whole corpus will show whether any follows.
    """
    sample = list(islice(pairs, SAMPLE_SIZE))
    median_ratio = float(np.median([log_ratio(pair) for pair in sample])) if sample else 0.0
    examiner = PairExaminer(median_ratio)
    language_checker = LanguageChecker(languages)
    interval = max(1, len(sample) // N_LANGUAGE_CHECKS)
    counter = FaultCounter()
    for line, pair in enumerate(sample, start=1):
        notes = examiner.notes(line, pair)
        if not notes and line % interval == 0 and (other := language_checker.note(line, pair)):
            notes.append((WRONG_LANGUAGE, other))
        counter.add("", line, pair, notes)

    n_filled = len(sample) - counter.counts.get(BLANK, 0)
    if n_filled == 0:
        return []
    warnings = []
    if n_filled == 1:
        warnings.append(
            f"only 1 of {len(sample):,} pairs is usable; the model will only learn this pair"
        )
    if languages and language_checker.are_swapped:
        a, b = languages
        warnings.append(
            f"the two sides look swapped: the source is mostly {b}, the target mostly {a}"
        )
    warnings += [
        _format_warning(finding)
        for finding in counter.findings(language_checker.n_pairs)
        if finding.is_alarming
    ]
    drifts = find_drifts(
        [len(pair.source) for pair in sample], [len(pair.target) for pair in sample]
    )
    if drifts:
        warnings.append(f"source and target seem misaligned from about line {drifts[0].line:,} on")
    return warnings


def _format_warning(finding: Finding) -> str:
    share = f"{100 * finding.share:.2g}" if finding.share < 0.995 else "100"
    line = finding.examples[0].line
    return f"{share} % of the pairs {finding.fault.description}, e.g. line {line:,}"
