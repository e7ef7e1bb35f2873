"""The types of claims and results, and how a verdict follows from what was measured."""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from transduce.reports.charts import Series

if TYPE_CHECKING:
    from transduce.claims.lab import Lab

Verdict = Literal["shown", "shown in part", "not at this scale", "refuted"]
SHOWN: Verdict = "shown"
IN_PART: Verdict = "shown in part"
INCONCLUSIVE: Verdict = "not at this scale"
REFUTED: Verdict = "refuted"
VERDICTS: tuple[Verdict, ...] = (SHOWN, IN_PART, INCONCLUSIVE, REFUTED)


class Plot(NamedTuple):
    """Lines or bars over shared labels. On a logarithmic scale values must be positive."""

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
    """Return a plot with one line per series."""
    return Plot(title, [*map(str, labels)], _named(series), "lines", is_log)


def bars(title: str, labels: Iterable[object], series: Mapping[str, Sequence[float]]) -> Plot:
    """Return a plot with one set of bars per series."""
    return Plot(title, [*map(str, labels)], _named(series), "bars")


def _named(series: Mapping[str, Sequence[float]]) -> list[Series]:
    return [Series(name, values) for name, values in series.items()]


@dataclass(frozen=True)
class Result:
    """The result of an experiment."""

    verdict: Verdict
    says: str  # what the numbers say, in a sentence or two
    control: str  # what the control says
    headers: Sequence[str]
    rows: Sequence[Sequence[object]]  # text and numbers
    plots: Sequence[Plot]


def conclude(
    verdict: Verdict,
    says: str,
    control: str,
    headers: Sequence[str],
    rows: Sequence[Sequence[object]],
    *plots: Plot,
) -> Result:
    """Return a result; the plots are given as separate arguments."""
    return Result(verdict, says, control, headers, rows, plots)


def judge(control_holds: bool, *found: bool) -> Verdict:
    """Return the verdict of an experiment; `found` says which findings agree with the claim.

    If the control fails, the experiment is inconclusive.
    """
    if not control_holds:
        return INCONCLUSIVE
    if all(found):
        return SHOWN
    return IN_PART if any(found) else REFUTED


def judge_variants(
    has_learned: bool, supports: Sequence[bool], contradicts: Sequence[bool]
) -> Verdict:
    """Return the verdict of a comparison of trained models.

    `supports` says which of the claimed differences are clear, `contradicts` which opposite ones.
    If the models have not learned their task, or nothing is clear, the result is inconclusive.
    """
    if not has_learned or not (any(supports) or any(contradicts)):
        return INCONCLUSIVE
    if not any(supports):
        return REFUTED
    return SHOWN if all(supports) else IN_PART


@dataclass(frozen=True)
class Claim:
    """A claim and its experiment in words. The experiment itself is the module of the same name."""

    name: str
    title: str
    statement: str
    source: str  # sections of the paper, and texts of SOURCES
    done: str  # the method
    control: str
    refuted_by: str  # the results that would refute it
    seeds: str
    station: str  # the station of the page of `transduce inspect` that shows it, or empty
    is_fast: bool  # part of `transduce claims --fast`
    # The model it examines: the given one, one that translates the grammar, or its own models.
    model: Literal["yours", "grammar", "own"]

    def run(self, lab: "Lab", **arguments: object) -> Result:
        """Run the experiment. `arguments` change or remove its cause or its control, for tests."""
        module = importlib.import_module(f"transduce.claims.{self.name}")
        result: Result = module.run(lab, **arguments)
        return result
