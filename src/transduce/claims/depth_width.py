"""Deeper and wider models are better (Table 3, C)."""

from transduce.claims.claim import Result, judge_variants
from transduce.claims.lab import Lab, is_clearly_lower, mean
from transduce.claims.variants import NARROW, SEEDS, has_learned, losses, report, train_each

BASE = "base"
SMALLER = {"1 layer": {"n_layers": 1}, "d 16": {"d_model": 16}, "ff 16": {"d_ff": 16}}
LARGER = {"3 layers": {"n_layers": 3}, "d 64": {"d_model": 64}, "ff 256": {"d_ff": 256}}


def run(lab: Lab, *, is_size_changed: bool = True, seeds: tuple[int, ...] = SEEDS) -> Result:
    """Train variants of one base with less and more depth, width and feed-forward size."""
    variants = {BASE: {}, **SMALLER, **LARGER}
    shapes = {
        name: {"shape": {**NARROW, **(changes if is_size_changed else {})}}
        for name, changes in variants.items()
    }
    evaluations = train_each(lab, shapes, seeds)
    base = losses(evaluations[BASE])
    worse = [
        name for name in (*SMALLER, *LARGER) if is_clearly_lower(base, losses(evaluations[name]))
    ]
    better = [
        name for name in (*SMALLER, *LARGER) if is_clearly_lower(losses(evaluations[name]), base)
    ]
    supports = [name in worse for name in SMALLER] + [name in better for name in LARGER]
    contradicts = [name in better for name in SMALLER] + [name in worse for name in LARGER]

    def with_losses(names: list[str]) -> str:
        return (
            ", ".join(f"{name} ({mean(losses(evaluations[name])):.3f})" for name in names) or "none"
        )

    return report(
        judge_variants(has_learned(evaluations[BASE]), supports, contradicts),
        "The base (2 layers; d, the vector size, is 32; ff, the feed-forward size, is 64) has a "
        f"loss of {mean(base):.3f}. Clearly worse: {with_losses(worse)}. Clearly better: "
        f"{with_losses(better)}. No clear difference: "
        f"{with_losses([name for name in (*SMALLER, *LARGER) if name not in worse + better])}.",
        evaluations,
    )
