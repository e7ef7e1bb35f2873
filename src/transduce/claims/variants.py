"""Small models that differ in one thing, each trained from the same seeds, side by side."""

from collections.abc import Mapping, Sequence
from typing import Any

from transduce.claims import Plot, Result, Verdict, bars, lines
from transduce.claims.lab import Exam, Lab, exam_set, examine, mean

SEEDS = (1, 2, 3)
NARROW = {
    "d_model": 32,
    "d_ff": 64,
}  # small enough that the little language is not learnt to the end
LEARNT = 0.75  # share of pieces

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


def report(
    verdict: Verdict, says: str, exams: Exams, *plots: Plot, control: str | None = None
) -> Result:
    """The losses of all variants as numbers and as bars; where nothing else is said the control is chance."""
    found = {name: losses(each) for name, each in exams.items()}
    widest = max(max(each) - min(each) for each in found.values())
    rows = [
        (name, mean(each), min(each), max(each), mean([exam.sentences for exam in exams[name]]))
        for name, each in found.items()
    ]
    seeds = {
        "mean": [mean(each) for each in found.values()],
        "worst": [max(each) for each in found.values()],
    }
    names = [name.removesuffix(" (control)") for name in exams]
    return Result(
        verdict,
        says,
        control
        or "Chance: only what holds for every seed against every seed counts as a difference; seeds of one and the "
        f"same model differ by up to {widest:.3f} in the loss.",
        ("model", "loss, mean of the seeds", "from", "to", "exact sentences"),
        rows,
        [bars("Loss on unseen sentences, mean and worst seed", names, seeds), *plots],
    )


def curves(lab: Lab, variants: Variants, seed: int) -> Plot:
    """The losses of trainings, by step."""
    found = {
        name.split(" (")[0]: lab.train(**changes, seed=seed).losses
        for name, changes in variants.items()
    }
    n_steps = min(map(len, found.values()))
    every = max(1, n_steps // 24)
    shown = {name: values[:n_steps:every] for name, values in found.items()}
    return lines("Loss in training, by step (first seed)", range(0, n_steps, every), shown)
