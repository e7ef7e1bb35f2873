"""What the paper and the texts about it claim, each as an experiment with a control, numbers and a verdict.

One file a claim: its `run(lab, ...)` measures and judges. What is said about it in words is in `claims.toml`.
An experiment takes its cause as an argument (`mask=False`), so that a test can take the cause away and see another verdict.
"""

import importlib
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from transduce.reports.charts import Series

if TYPE_CHECKING:
    from transduce.claims.lab import Lab

Verdict = Literal["shown", "shown in part", "not at this scale", "refuted"]
SHOWN: Verdict = "shown"
IN_PART: Verdict = "shown in part"
NOT_HERE: Verdict = "not at this scale"
REFUTED: Verdict = "refuted"
VERDICTS: tuple[Verdict, ...] = (SHOWN, IN_PART, NOT_HERE, REFUTED)
TEXTS = (
    "Texts that explain the paper: T1 a journal-club note; T2 a long walk-through with training and inference; T3 a study "
    "log on the Illustrated Transformer; T4 an introduction, part 2; T5 a plain-words breakdown."
)


class Plot(NamedTuple):
    """Lines or bars over the same labels; on a logarithmic scale values must be above zero."""

    title: str
    labels: Sequence[str]
    series: Sequence[Series]
    kind: Literal["lines", "bars"]
    is_log: bool = False


def lines(
    title: str,
    labels: Iterable[object],
    series: Mapping[str, Sequence[float]],
    *,
    is_log: bool = False,
) -> Plot:
    """A line for each series, by name."""
    return Plot(
        title,
        [*map(str, labels)],
        [Series(name, values) for name, values in series.items()],
        "lines",
        is_log,
    )


def bars(title: str, labels: Iterable[object], series: Mapping[str, Sequence[float]]) -> Plot:
    """Bars for each series, by name."""
    return Plot(
        title,
        [*map(str, labels)],
        [Series(name, values) for name, values in series.items()],
        "bars",
    )


@dataclass(frozen=True)
class Result:
    """What came out: the verdict, a sentence that reads the numbers aloud, one on the control, the numbers, and plots."""

    verdict: Verdict
    says: str
    control: str
    headers: Sequence[str]
    rows: Sequence[Sequence[object]]  # words and numbers
    plots: Sequence[Plot]


def conclude(
    verdict: Verdict,
    says: str,
    control: str,
    headers: Sequence[str],
    rows: Sequence[Sequence[object]],
    *plots: Plot,
) -> Result:
    """The result of an experiment, its plots one by one."""
    return Result(verdict, says, control, headers, rows, plots)


def judge(control: bool, *found: bool) -> Verdict:
    """The verdict of an experiment: whether its control behaves, without which nothing can be said, and what was found."""
    if not control:
        return NOT_HERE
    return SHOWN if all(found) else IN_PART if any(found) else REFUTED


def compare(learnt: bool, found: Sequence[bool], against: Sequence[bool]) -> Verdict:
    """The verdict on models side by side: whether they learnt at all, what is clear as claimed, and what is clear against it."""
    if not learnt or not any((*found, *against)):
        return NOT_HERE
    return REFUTED if not any(found) else SHOWN if all(found) else IN_PART


@dataclass(frozen=True)
class Claim:
    """A claim in words: who says it where, what is done to test it, which control would fail, and what would refute it."""

    name: str
    title: str
    statement: str
    source: str  # sections of the paper, and TEXTS
    done: str
    control: str
    refuted_by: str
    seeds: str
    station: str  # of the page of `transduce inspect` where it can be seen; empty: nowhere
    is_fast: bool
    # What it looks into: any given model, one that knows the grammar, only models of its own.
    model: Literal["yours", "grammar", "own"]

    def run(self, lab: "Lab", **cause: object) -> Result:
        """Make the experiment."""
        result: Result = importlib.import_module(f"{__name__}.{self.name}").run(lab, **cause)
        return result


@cache
def claims() -> Mapping[str, Claim]:
    """All claims by name, in the order of the paper."""
    texts = tomllib.loads(Path(__file__).with_name("claims.toml").read_text(encoding="utf-8"))
    return {name: Claim(name=name, **fields) for name, fields in texts.items()}
