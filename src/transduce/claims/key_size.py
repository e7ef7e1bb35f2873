"""Smaller keys hurt (Table 3, B)."""

from transduce.claims.claim import Result, judge_variants
from transduce.claims.lab import Lab, is_clearly_lower, mean
from transduce.claims.variants import NARROW, SEEDS, has_learned, losses, report, train_each

SIZES = (8, 4, 2, 1)


def run(lab: Lab, *, sizes: tuple[int, ...] = SIZES, seeds: tuple[int, ...] = SEEDS) -> Result:
    """Train with four heads whose queries and keys have 8, 4, 2 and 1 dimensions."""
    variants = {
        f"d_k {d_k}": {"shape": {**NARROW, "d_k": None if d_k == SIZES[0] else d_k}}
        for d_k in sizes
    }
    evaluations = train_each(lab, variants, seeds)
    found = [losses(each) for each in evaluations.values()]
    hurts = [is_clearly_lower(found[0], each) for each in found[1:]]
    helps = any(is_clearly_lower(each, found[0]) for each in found[1:])
    return report(
        judge_variants(
            has_learned(next(iter(evaluations.values()))), [] if helps else hurts, [helps]
        ),
        f"With d_k {sizes[0]} the loss is {mean(found[0]):.3f}; "
        + "; ".join(
            f"with {d_k} it is {mean(each):.3f}, "
            f"{'clearly worse' if bad else 'no clear difference'}"
            for d_k, each, bad in zip(sizes[1:], found[1:], hurts, strict=True)
        )
        + ".",
        evaluations,
    )
