"""Deeper and wider models are better (Table 3, C)."""

from transduce.inspection.claims import Result, compare
from transduce.inspection.claims.lab import Lab, apart, mean
from transduce.inspection.claims.variants import NARROW, SEEDS, has_learnt, losses, report, train_each

BASE = "base"
SMALLER = {"1 layer": {"n_layers": 1}, "d 16": {"d_model": 16}, "ff 16": {"d_ff": 16}}
LARGER = {"3 layers": {"n_layers": 3}, "d 64": {"d_model": 64}, "ff 256": {"d_ff": 256}}


def run(lab: Lab, *, is_size_changed: bool = True, seeds: tuple[int, ...] = SEEDS) -> Result:
    """From one base: fewer and more layers, narrower and wider vectors, a smaller and a larger feed-forward; the same steps."""
    variants = {BASE: {}, **SMALLER, **LARGER}
    shapes = {name: {"shape": {**NARROW, **(changes if is_size_changed else {})}} for name, changes in variants.items()}
    exams = train_each(lab, shapes, seeds)
    base = losses(exams[BASE])
    as_said = [name for name in SMALLER if apart(base, losses(exams[name]))] + [
        name for name in LARGER if apart(losses(exams[name]), base)
    ]
    against = [name for name in SMALLER if apart(losses(exams[name]), base)] + [
        name for name in LARGER if apart(base, losses(exams[name]))
    ]
    is_as_said = [name in as_said for name in (*SMALLER, *LARGER)]
    verdict = compare(has_learnt(exams[BASE]), is_as_said, [bool(against)])
    return report(
        verdict,
        f"The base (2 layers, d 32, feed-forward 64) has a loss of {mean(base):.3f}. "
        f"As the paper says, clearly: {', '.join(as_said) or 'none'}. "
        f"Against it, clearly: {', '.join(against) or 'none'}. The others do not differ by more than their seeds.",
        exams,
    )
