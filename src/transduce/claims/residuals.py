"""What residual connections and norms are for: without them training is worse."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from transduce.claims import Result, compare
from transduce.claims.lab import Lab, apart, mean
from transduce.claims.variants import (
    SEEDS,
    Variants,
    curves,
    has_learnt,
    losses,
    report,
    train_each,
)
from transduce.model import Transformer
from transduce.model.layers import AddAndNorm

SHAPE = {"n_layers": 4}


def without_residuals(model: Transformer) -> None:
    """LayerNorm(Sublayer(x)): the residual is gone."""
    _answer(model, lambda whole, given, out: whole.norm(given[1]))


def without_norms(model: Transformer) -> None:
    """x + Sublayer(x): the norm is gone."""
    _answer(model, lambda whole, given, out: given[0] + given[1])


def as_it_is(model: Transformer) -> None:
    """Change nothing."""


def _answer(
    model: Transformer, otherwise: Callable[[Any, tuple[Tensor, Tensor], Tensor], Tensor]
) -> None:
    for part in model.modules():
        if isinstance(part, AddAndNorm):
            part.register_forward_hook(otherwise)


def run(lab: Lab, *, removed: bool = True, seeds: tuple[int, ...] = SEEDS[:2]) -> Result:
    """Four layers in each stack, trained alike: whole, without residuals, without norms."""
    bends = {
        "whole": as_it_is,
        "without residuals": without_residuals,
        "without norms": without_norms,
    }
    variants: Variants = {
        name: {"bend": bend if removed else as_it_is, "shape": SHAPE}
        for name, bend in bends.items()
    }
    exams = train_each(lab, variants, seeds)
    whole, no_residuals, no_norms = (losses(each) for each in exams.values())
    worse = [apart(whole, each) for each in (no_residuals, no_norms)]
    better = [apart(each, whole) for each in (no_residuals, no_norms)]
    told = [
        "worse, as claimed" if a else "better, against the claim" if b else "no clear difference"
        for a, b in zip(worse, better, strict=True)
    ]
    return report(
        compare(has_learnt(exams["whole"]), worse, better),
        f"After the same steps the whole model has a loss of {mean(whole):.2f}. Without residual connections it "
        f"is {mean(no_residuals):.2f}: {told[0]}. Without norms it is {mean(no_norms):.2f}: {told[1]}. (Clear is "
        f"what every seed shows; {SHAPE['n_layers']} layers in each stack and a small task.)",
        exams,
        curves(lab, variants, seeds[0]),
        control="The control is the whole model, trained alike: it translates "
        f"{mean([exam.sentences for exam in exams['whole']]):.0%} of new sentences exactly.",
    )
