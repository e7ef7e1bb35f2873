"""Post-norm needs a warm-up of the learning rate (section 5.3)."""

from transduce.claims import Result, compare
from transduce.claims.lab import RECIPE, Lab, apart, mean
from transduce.claims.variants import (
    SEEDS,
    Variants,
    curves,
    has_learnt,
    losses,
    report,
    train_each,
)

PEAK = 0.006
SHAPE = {"n_layers": 3}


def run(lab: Lab, *, peak: float = PEAK, seeds: tuple[int, ...] = SEEDS[:2]) -> Result:
    """The same peak rate with and without a warm-up, for the paper's post-norm and for pre-norm."""
    rate = {"learning_rate": peak}
    flat = {**rate, "warmup_steps": 1}
    variants: Variants = {
        "post-norm, warm-up": {"recipe": rate, "shape": SHAPE},
        "post-norm, none": {"recipe": flat, "shape": SHAPE},
        "pre-norm, none (control)": {"recipe": flat, "shape": {**SHAPE, "norm": "pre"}},
    }
    exams = train_each(lab, variants, seeds)
    with_it, without, control = (losses(each) for each in exams.values())
    needed = apart(with_it, without)
    control_learns = has_learnt(exams["pre-norm, none (control)"]) and apart(control, without)
    is_lost = needed and control_learns and mean(without) > 2 * mean(with_it)
    exact = [f"{mean([exam.sentences for exam in each]):.0%}" for each in exams.values()]
    return report(
        compare(
            has_learnt(exams["post-norm, warm-up"]), [needed, is_lost], [apart(without, with_it)]
        ),
        f"At a peak rate of {peak:g} the paper's model ends at a loss of {mean(with_it):.2f} with "
        f"{RECIPE.warmup_steps} steps of warm-up and at {mean(without):.2f} without "
        f"({exact[0]} and {exact[1]} of sentences exact).",
        exams,
        curves(lab, variants, seeds[0]),
        control=f"Pre-norm, which is said not to need it, ends at {mean(control):.2f} without any ({exact[2]} exact): "
        f"{'by itself the rate is not' if control_learns else 'it has not learnt, so the rate itself may be'} too high.",
    )
