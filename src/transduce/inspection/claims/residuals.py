"""What residual connections and norms are for: without them training is worse."""

from torch import Tensor, nn

from transduce.inspection.claims import Result, compare
from transduce.inspection.claims.lab import Lab, apart, mean
from transduce.inspection.claims.variants import SEEDS, Variants, curves, has_learnt, losses, report, train_each
from transduce.model import Transformer
from transduce.model.layers import AddAndNorm

SHAPE = {"n_layers": 4}


class OnlyNorm(nn.Module):
    """LayerNorm(Sublayer(x)): the residual is gone."""

    def __init__(self, whole: AddAndNorm) -> None:
        super().__init__()
        self.norm = whole.norm

    def input(self, x: Tensor) -> Tensor:
        """As it is."""
        return x

    def forward(self, x: Tensor, sublayer: Tensor) -> Tensor:
        """What the sub-layer answered, normalised."""
        return self.norm(sublayer)


class OnlyAdd(OnlyNorm):
    """x + Sublayer(x): the norm is gone."""

    def forward(self, x: Tensor, sublayer: Tensor) -> Tensor:
        """The sum."""
        return x + sublayer


def without_residuals(model: Transformer) -> None:
    """Replace every add & norm by the norm alone."""
    _replace(model, OnlyNorm)


def without_norms(model: Transformer) -> None:
    """Replace every add & norm by the sum alone."""
    _replace(model, OnlyAdd)


def as_it_is(model: Transformer) -> None:
    """Change nothing."""


def _replace(model: Transformer, kind: type[OnlyNorm]) -> None:
    for layer in [*model.encoder, *model.decoder.layers]:
        for name, part in list(layer.named_children()):
            if isinstance(part, AddAndNorm):
                setattr(layer, name, kind(part))


def run(lab: Lab, *, removed: bool = True, seeds: tuple[int, ...] = SEEDS[:2]) -> Result:
    """Four layers in each stack, trained alike: whole, without residuals, without norms."""
    bends = {"whole": as_it_is, "without residuals": without_residuals, "without norms": without_norms}
    variants: Variants = {name: {"bend": bend if removed else as_it_is, "shape": SHAPE} for name, bend in bends.items()}
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
