"""Post-norm needs a warm-up of the learning rate (section 5.3)."""

from transduce.claims.claim import Result, judge_variants
from transduce.claims.lab import RECIPE, Lab, is_clearly_lower, mean
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

PEAK = 0.006
SHAPE = {"n_layers": 3}


def run(lab: Lab, *, peak: float = PEAK, seeds: tuple[int, ...] = SEEDS[:2]) -> Result:
    """Train with the same peak rate with and without a warm-up, for post-norm and pre-norm."""
    warmed = {"learning_rate": peak}
    cold = {**warmed, "warmup_steps": 1}
    variants: Variants = {
        "post-norm, warm-up": {"recipe": warmed, "shape": SHAPE},
        "post-norm, none": {"recipe": cold, "shape": SHAPE},
        "pre-norm, none (control)": {"recipe": cold, "shape": {**SHAPE, "norm": "pre"}},
    }
    evaluations = train_each(lab, variants, seeds)
    with_warmup, without, control = (losses(each) for each in evaluations.values())
    is_needed = is_clearly_lower(with_warmup, without)
    control_learns = has_learned(evaluations["pre-norm, none (control)"]) and is_clearly_lower(
        control, without
    )
    is_far_worse = is_needed and control_learns and mean(without) > 2 * mean(with_warmup)
    exact = [f"{mean(exact_accuracies(each)):.0%}" for each in evaluations.values()]
    return report(
        judge_variants(
            has_learned(evaluations["post-norm, warm-up"]),
            [is_needed, is_far_worse],
            [is_clearly_lower(without, with_warmup)],
        ),
        f"At a peak rate of {peak:g} the paper's model ends at a loss of {mean(with_warmup):.2f} "
        f"with {RECIPE.warmup_steps} steps of warm-up and at {mean(without):.2f} without "
        f"({exact[0]} and {exact[1]} of sentences exact).",
        evaluations,
        loss_curves(lab, variants, seeds[0]),
        control="Pre-norm, which is said not to need a warm-up, ends at "
        f"{mean(control):.2f} without it ({exact[2]} exact): "
        + (
            "the rate itself is not too high."
            if control_learns
            else "it has not learned, so the rate itself may be too high."
        ),
    )
