"""Residual connections and norms are needed: without them training is worse."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from transduce.claims.claim import Result, judge_variants
from transduce.claims.lab import Lab, is_clearly_lower, mean
from transduce.claims.variants import (
    SEEDS,
    Variants,
    exact_accuracies,
    has_learned,
    loss_curves,
    losses,
    report,
    train_each,
)
from transduce.model import Transformer
from transduce.model.layers import AddAndNorm

SHAPE = {"n_layers": 4}


def without_residuals(model: Transformer) -> None:
    """Compute LayerNorm(Sublayer(x)), without the residual."""
    _replace_output(model, lambda module, given, out: module.norm(given[1]))


def without_norms(model: Transformer) -> None:
    """Compute x + Sublayer(x), without the norm."""
    _replace_output(model, lambda module, given, out: given[0] + given[1])


def unchanged(model: Transformer) -> None:
    """Change nothing."""


def _replace_output(
    model: Transformer, hook: Callable[[Any, tuple[Tensor, Tensor], Tensor], Tensor]
) -> None:
    """Replace the output of every AddAndNorm by that of a forward hook."""
    for module in model.modules():
        if isinstance(module, AddAndNorm):
            module.register_forward_hook(hook)


def run(lab: Lab, *, removed: bool = True, seeds: tuple[int, ...] = SEEDS[:2]) -> Result:
    """Train a model of four layers per stack: complete, without residuals, without norms."""
    changes = {
        "complete": unchanged,
        "without residuals": without_residuals,
        "without norms": without_norms,
    }
    variants: Variants = {
        name: {"change": change if removed else unchanged, "shape": SHAPE}
        for name, change in changes.items()
    }
    evaluations = train_each(lab, variants, seeds)
    complete, no_residuals, no_norms = (losses(each) for each in evaluations.values())
    worse = [is_clearly_lower(complete, each) for each in (no_residuals, no_norms)]
    better = [is_clearly_lower(each, complete) for each in (no_residuals, no_norms)]
    return report(
        judge_variants(has_learned(evaluations["complete"]), worse, better),
        f"After the same steps the complete model has a loss of {mean(complete):.2f}. "
        f"Without residual connections it is {mean(no_residuals):.2f}: "
        f"{_finding(worse[0], better[0])}. Without norms it is {mean(no_norms):.2f}: "
        f"{_finding(worse[1], better[1])}. (A difference is clear if every seed shows it; "
        f"{SHAPE['n_layers']} layers in each stack and a small task.)",
        evaluations,
        loss_curves(lab, variants, seeds[0]),
        control="The complete model, trained the same way, translates "
        f"{mean(exact_accuracies(evaluations['complete'])):.0%} of new sentences exactly.",
    )


def _finding(is_worse: bool, is_better: bool) -> str:
    if is_worse:
        return "worse, as claimed"
    return "better, against the claim" if is_better else "no clear difference"
