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
    _answer(model, lambda whole, given, out: whole.norm(given[1]))


def without_norms(model: Transformer) -> None:
    """Compute x + Sublayer(x), without the norm."""
    _answer(model, lambda whole, given, out: given[0] + given[1])


def unchanged(model: Transformer) -> None:
    """Change nothing."""


def _answer(
    model: Transformer, otherwise: Callable[[Any, tuple[Tensor, Tensor], Tensor], Tensor]
) -> None:
    for part in model.modules():
        if isinstance(part, AddAndNorm):
            part.register_forward_hook(otherwise)


def run(lab: Lab, *, removed: bool = True, seeds: tuple[int, ...] = SEEDS[:2]) -> Result:
    """Train four layers in each stack: complete, without residuals, without norms."""
    changes = {
        "whole": unchanged,
        "without residuals": without_residuals,
        "without norms": without_norms,
    }
    variants: Variants = {
        name: {"change": change if removed else unchanged, "shape": SHAPE}
        for name, change in changes.items()
    }
    evaluations = train_each(lab, variants, seeds)
    whole, no_residuals, no_norms = (losses(each) for each in evaluations.values())
    worse = [is_clearly_lower(whole, each) for each in (no_residuals, no_norms)]
    better = [is_clearly_lower(each, whole) for each in (no_residuals, no_norms)]
    findings = [
        "worse, as claimed" if a else "better, against the claim" if b else "no clear difference"
        for a, b in zip(worse, better, strict=True)
    ]
    return report(
        judge_variants(has_learned(evaluations["whole"]), worse, better),
        f"After the same steps the whole model has a loss of {mean(whole):.2f}. Without residual "
        "connections it "
        f"is {mean(no_residuals):.2f}: {findings[0]}. Without norms it is {mean(no_norms):.2f}: "
        f"{findings[1]}. (Clear is "
        f"what every seed shows; {SHAPE['n_layers']} layers in each stack and a small task.)",
        evaluations,
        loss_curves(lab, variants, seeds[0]),
        control="The control is the whole model, trained alike: it translates "
        f"{mean(exact_accuracies(evaluations['whole'])):.0%} of new sentences exactly.",
    )
