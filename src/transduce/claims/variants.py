"""Compare small models that differ in one thing, each trained from the same seeds."""

from collections.abc import Mapping, Sequence
from typing import Any

from transduce.claims.claim import Plot, Result, Verdict, bars, lines
from transduce.claims.lab import Evaluation, Lab, evaluate, held_out_set, mean

SEEDS = (1, 2, 3)
NARROW = {"d_model": 32, "d_ff": 64}  # too small to learn the toy language completely
LEARNED = 0.75  # token accuracy above which a model has learned its task

Evaluations = Mapping[str, Sequence[Evaluation]]  # of each variant, one per seed
Variants = Mapping[str, Mapping[str, Any]]  # the arguments of `Lab.train` that each changes


def train_each(lab: Lab, variants: Variants, seeds: Sequence[int], **common: Any) -> Evaluations:
    """Train every variant from every seed and evaluate it on unseen sentences."""
    found = {}
    for name, changes in variants.items():
        models = [lab.train(**{**common, **changes}, seed=seed).translator.model for seed in seeds]
        found[name] = [evaluate(model, held_out_set()) for model in models]
    return found


def has_learned(evaluations: Sequence[Evaluation]) -> bool:
    """Return whether the models can do their task; if not, differences mean nothing."""
    return mean([evaluation.token_accuracy for evaluation in evaluations]) > LEARNED


def losses(evaluations: Sequence[Evaluation]) -> list[float]:
    """Return the loss of each seed."""
    return [evaluation.loss for evaluation in evaluations]


def exact_accuracies(evaluations: Sequence[Evaluation]) -> list[float]:
    """Return the share of exact sentences of each seed."""
    return [evaluation.exact_accuracy for evaluation in evaluations]


def report(
    verdict: Verdict,
    says: str,
    evaluations: Evaluations,
    *plots: Plot,
    control: str | None = None,
) -> Result:
    """Return a result with the losses of all variants, as a table and as bars.

    The default control is the difference between the seeds of one model.
    """
    loss_of = {name: losses(each) for name, each in evaluations.items()}
    if control is None:
        spread = max(max(each) - min(each) for each in loss_of.values())
        control = (
            "Chance: a difference counts only if it holds for every pair of seeds. "
            f"Seeds of the same model differ by up to {spread:.3f} in loss."
        )
    rows = [
        (name, mean(each), min(each), max(each), mean(exact_accuracies(evaluations[name])))
        for name, each in loss_of.items()
    ]
    shown = {
        "mean": [mean(each) for each in loss_of.values()],
        "worst": [max(each) for each in loss_of.values()],
    }
    names = [name.removesuffix(" (control)") for name in evaluations]
    return Result(
        verdict=verdict,
        says=says,
        control=control,
        headers=("model", "loss, mean of the seeds", "from", "to", "exact sentences"),
        rows=rows,
        plots=[bars("Loss on unseen sentences, mean and worst seed", names, shown), *plots],
    )


def loss_curves(lab: Lab, variants: Variants, seed: int) -> Plot:
    """Return the training losses by step, at most about 24 points each."""
    found = {
        name.split(" (")[0]: lab.train(**changes, seed=seed).losses
        for name, changes in variants.items()
    }
    n_steps = min(map(len, found.values()))
    every = max(1, n_steps // 24)
    shown = {name: values[:n_steps:every] for name, values in found.items()}
    return lines("Loss in training, by step (first seed)", range(0, n_steps, every), shown)
