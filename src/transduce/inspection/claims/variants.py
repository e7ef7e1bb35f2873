"""Small models that differ in one thing, each trained from the same seeds, side by side."""

from collections.abc import Mapping, Sequence
from typing import Any

from transduce.inspection.claims import Plot, bars
from transduce.inspection.claims.lab import Exam, Lab, exam_set, examine, mean

SEEDS = (1, 2, 3)
NARROW = {"d_model": 32, "d_ff": 64}  # small enough that the little language is not learnt to the end
LEARNT = 0.75  # share of pieces
HEADERS = ("model", "loss, mean of the seeds", "from", "to", "exact sentences")

Exams = Mapping[str, Sequence[Exam]]
Variants = Mapping[str, Mapping[str, Any]]  # what each changes of the arguments of `Lab.train`


def train_each(lab: Lab, variants: Variants, seeds: Sequence[int], **common: Any) -> Exams:
    """Every variant from every seed, examined on sentences it has not seen."""
    found = {}
    for name, changes in variants.items():
        models = [lab.train(**{**common, **changes}, seed=seed).translator.model for seed in seeds]
        found[name] = [examine(model, exam_set()) for model in models]
    return found


def has_learnt(exams: Sequence[Exam]) -> bool:
    """Whether models can do their task at all: differences between those that cannot mean nothing."""
    return mean([exam.pieces for exam in exams]) > LEARNT


def losses(exams: Sequence[Exam]) -> list[float]:
    """Of all seeds."""
    return [exam.loss for exam in exams]


def rows(exams: Exams) -> list[tuple[object, ...]]:
    """A row each variant, as HEADERS has it."""
    return [
        (name, mean(losses(each)), min(losses(each)), max(losses(each)), mean([exam.sentences for exam in each]))
        for name, each in exams.items()
    ]


def plot(exams: Exams, title: str = "Loss on unseen sentences, mean and worst seed") -> Plot:
    """Losses as bars."""
    values = [losses(each) for each in exams.values()]
    return bars(title, list(exams), {"mean": [mean(each) for each in values], "worst": [max(each) for each in values]})
