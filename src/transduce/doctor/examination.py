"""A whole corpus, examined: two readings, one for lengths and one for everything else, both a pair at a time."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

import numpy as np

from transduce.doctor.checks import CHECKS, find_odd_ratio, log_ratio
from transduce.doctor.faults import BLANK, COPY, FAULTS, MISALIGNED, RATIO, WRONG_LANGUAGE, Fault
from transduce.doctor.languages import LanguageJudge
from transduce.doctor.measure import (
    Counts,
    Measured,
    Place,
    measure,
    parts_of,
    places,
    typical_ratio,
)
from transduce.doctor.repeats import HeldOut, Note, Repeats, keys_of
from transduce.text.corpus import Languages, Pair, PairFiles, PairSource
from transduce.text.drift import find_drifts
from transduce.text.files import display_name, read_lines

MOST_EXAMPLES = 5
MOST_SEEN = 10_000  # pairs of a quick look
MOST_JUDGED = (
    2000  # of them, about so many are judged by their language, evenly: that is the slow part
)
MARGIN = 10  # lines on both sides of a stretch out of step: its ends are known no better


@dataclass(frozen=True, slots=True)
class Example:
    """A pair with a fault, and where it stands."""

    file: str
    line: int
    note: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault, how often it was found among how many pairs, and examples from the whole corpus."""

    fault: Fault
    count: int
    n_looked_at: int
    examples: tuple[Example, ...]

    @property
    def share(self) -> float:
        """Of the pairs looked at."""
        return self.count / self.n_looked_at if self.n_looked_at else 0.0

    @property
    def is_alarming(self) -> bool:
        """So many that the model will suffer."""
        return self.count > 0 and self.share >= self.fault.alarming


@dataclass(frozen=True, slots=True)
class Unequal:
    """Two files that have not the same number of lines."""

    source: str
    target: str
    source_lines: int
    target_lines: int

    def __str__(self) -> str:
        return f"{self.source} has {self.source_lines:,} lines, {self.target} has {self.target_lines:,}"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found in a corpus.

    `n_usable` pairs have no fault for which a cleaned copy leaves them out. `typical_ratio` is the median of target to source
    length; the counts are of lengths in characters and of the logarithms of ratios, as `measure` makes them.
    """

    name: str
    n_pairs: int
    n_usable: int
    languages: Languages | None
    are_swapped: bool
    findings: tuple[Finding, ...]
    unequal: tuple[Unequal, ...]
    places: tuple[Place, ...]
    remarks: tuple[str, ...]
    typical_ratio: float
    source_lengths: Counts
    target_lengths: Counts
    ratios: Counts

    def count(self, fault: Fault) -> int:
        """How often a fault was found."""
        return next((finding.count for finding in self.findings if finding.fault is fault), 0)


@dataclass(slots=True)
class Judge:
    """Sees pair after pair and says what is wrong with each; it remembers what it has seen."""

    typical_ratio: float = 0.0
    languages: LanguageJudge | None = None
    held_out: tuple[HeldOut, ...] = ()
    repeats: Repeats = field(default_factory=Repeats)

    def notes(self, number: int, pair: Pair) -> list[Note]:
        """All faults of a pair, each with a note. A blank pair is blank and nothing else."""
        if pair.is_blank:
            return [
                (BLANK, "both sides" if not (pair.source + pair.target).strip() else "one side")
            ]
        notes = [(fault, note) for fault, find in CHECKS if (note := find(pair)) is not None]
        if odd := find_odd_ratio(pair, self.typical_ratio):
            notes.append((RATIO, odd))
        is_copy = any(
            fault is COPY for fault, _ in notes
        )  # it is in one language, and has been told already
        if self.languages and not is_copy and (other := self.languages.note(number, pair)):
            notes.append((WRONG_LANGUAGE, other))
        keys = keys_of(pair)
        notes += self.repeats.notes(pair, keys)
        notes += [leak for held_out in self.held_out if (leak := held_out.note(keys))]
        return notes


@dataclass(slots=True)
class Tally:
    """Counts faults, and keeps a few examples of each, drawn evenly from all; the same ones each time."""

    n_pairs: int = 0
    n_usable: int = 0
    counts: dict[Fault, int] = field(default_factory=dict)
    examples: dict[Fault, list[Example]] = field(default_factory=dict)
    rng: random.Random = field(default_factory=lambda: random.Random(1))

    def add(self, part: str, line: int, pair: Pair, notes: Sequence[Note]) -> None:
        """Count a pair and its faults."""
        self.n_pairs += 1
        self.n_usable += not any(fault.drops for fault, _ in notes)
        for fault, note in dict(notes).items():
            count = self.counts[fault] = self.counts.get(fault, 0) + 1
            kept = self.examples.setdefault(fault, [])
            place = len(kept) if len(kept) < MOST_EXAMPLES else self.rng.randrange(count)
            if place < MOST_EXAMPLES:
                kept[place : place + 1] = [Example(part, line, note, pair.source, pair.target)]

    def findings(self, n_judged: int) -> tuple[Finding, ...]:
        """What was found, in the order of FAULTS; languages were looked at in so many pairs."""
        return tuple(
            Finding(
                fault,
                self.counts[fault],
                n_judged if fault is WRONG_LANGUAGE else self.n_pairs,
                examples,
            )
            for fault in FAULTS
            if fault in self.counts
            for examples in [tuple(sorted(self.examples[fault], key=lambda example: example.line))]
        )


Visit = Callable[[PairSource, int, Pair, Sequence[Note]], None]


def examine(
    pairs: PairSource,
    languages: Languages | None = None,
    held_out: Sequence[PairSource] = (),
    visit: Visit | None = None,
    progress: Callable[[int], None] | None = None,
) -> Diagnosis:
    """Examine a corpus; of unequal files, the pairs before they drift apart.

    `visit` is called with each pair and its faults, in order; then every pair is judged by its language, not only a sample.
    """
    languages = languages or pairs.languages
    measured = [measure(part) for part in parts_of(pairs)]
    ratios = np.sum([part.ratios for part in measured], axis=0)
    of_languages = LanguageJudge(languages, every_pair=visit is not None)
    leaks = tuple(HeldOut(part) for one in held_out for part in parts_of(one))
    judge = Judge(typical_ratio(ratios), of_languages, leaks)
    tally = Tally()
    for part in measured:
        misaligned = _misaligned(part)
        for line, pair in enumerate(_read(part), start=1):
            notes = judge.notes(tally.n_pairs + 1, pair)
            if any(line in stretch for stretch in misaligned):
                notes.insert(0, (MISALIGNED, ""))
            tally.add(part.part.name, line, pair, notes)
            if visit is not None:
                visit(part.part, line, pair, notes)
            if progress is not None and tally.n_pairs % 1000 == 0:
                progress(tally.n_pairs)
    remarks = [*of_languages.remarks, *judge.repeats.remarks]
    remarks += chain.from_iterable(
        [*(leak.remarks for leak in leaks), *(part.remarks for part in measured)]
    )
    return Diagnosis(
        name=pairs.name,
        n_pairs=tally.n_pairs,
        n_usable=tally.n_usable,
        languages=languages,
        are_swapped=of_languages.are_swapped,
        findings=tally.findings(of_languages.n_pairs),
        unequal=tuple(_unequal(part) for part in measured if part.n_source != part.n_target),
        places=tuple(place for part in measured for place in places(part)),
        remarks=tuple(remarks),
        typical_ratio=float(np.exp(judge.typical_ratio)),
        source_lengths=np.sum([part.source_lengths for part in measured], axis=0),
        target_lengths=np.sum([part.target_lengths for part in measured], axis=0),
        ratios=ratios,
    )


def _read(measured: Measured) -> Iterator[Pair]:
    """The pairs of a part as far as they belong together; what is not UTF-8 is replaced."""
    part = measured.part
    if isinstance(part, PairFiles):
        lines = zip(
            read_lines(part.sources[0], "replace"),
            read_lines(part.targets[0], "replace"),
            strict=False,
        )
        return (Pair(*pair) for pair in islice(lines, measured.n_trusted))
    return part.read("replace")


def _unequal(measured: Measured) -> Unequal:
    assert isinstance(measured.part, PairFiles), "a table has two sides of equal length"
    part = measured.part
    return Unequal(
        display_name(part.sources[0]),
        display_name(part.targets[0]),
        measured.n_source,
        measured.n_target,
    )


def _misaligned(measured: Measured) -> list[range]:
    """The stretches of equally long files in which one is shifted against the other, with a margin."""
    if measured.n_source != measured.n_target or not measured.drifts:
        return []
    ends = [*(drift.line for drift in measured.drifts[1:]), measured.n_source + 1]
    stretches = zip(measured.drifts, ends, strict=True)
    return [range(drift.line - MARGIN, end + MARGIN) for drift, end in stretches if drift.shift]


def check_sample(pairs: Iterable[Pair], languages: Languages | None = None) -> list[str]:
    """Warnings about the first 10,000 pairs, before training, a line each; none if nothing is alarming.

    Lines are counted from 1 as they come. A fault is alarming from the share on that its `Fault` states.
    """
    seen = list(islice(pairs, MOST_SEEN))
    judge = Judge(float(np.median([log_ratio(pair) for pair in seen])) if seen else 0.0)
    of_languages = LanguageJudge(languages)
    every = max(1, len(seen) // MOST_JUDGED)
    tally = Tally()
    for line, pair in enumerate(seen, start=1):
        notes = judge.notes(line, pair)
        if not notes and line % every == 0 and (other := of_languages.note(line, pair)):
            notes.append((WRONG_LANGUAGE, other))
        tally.add("", line, pair, notes)
    n_usable = len(seen) - tally.counts.get(BLANK, 0)
    if not n_usable:
        return []  # whoever reads the whole corpus will say so, if no pair follows
    warnings = []
    if n_usable == 1:
        warnings.append(
            f"only 1 of {len(seen):,} pairs is usable: nothing can be learnt from it but itself"
        )
    if languages and of_languages.are_swapped:
        a, b = languages
        warnings.append(
            f"the two sides look swapped: the source is mostly {b}, the target mostly {a}"
        )
    warnings += [
        _warning(finding) for finding in tally.findings(of_languages.n_pairs) if finding.is_alarming
    ]
    if drifts := find_drifts(
        [len(pair.source) for pair in seen], [len(pair.target) for pair in seen]
    ):
        warnings.append(f"source and target seem out of step from about line {drifts[0].line:,} on")
    return warnings


def _warning(finding: Finding) -> str:
    example = finding.examples[0]
    share = f"{100 * finding.share:.2g}" if finding.share < 0.995 else "100"
    return f"{share} % of the pairs {finding.fault.says}, e.g. line {example.line:,}"
