"""Several heads are better than one, too many are worse (Table 3, A)."""

from transduce.claims.claim import Result, judge_variants
from transduce.claims.lab import Lab, is_clearly_lower, mean
from transduce.claims.variants import NARROW, SEEDS, has_learned, losses, report, train_each

COUNTS = (1, 2, 4, 16)


def run(lab: Lab, *, counts: tuple[int, ...] = COUNTS, seeds: tuple[int, ...] = SEEDS) -> Result:
    """Split the same width into 1 to 16 heads: equal parameters, equal cost, three seeds each."""
    evaluations = train_each(
        lab,
        {f"{n} heads" if n > 1 else "1 head": {"shape": {**NARROW, "n_heads": n}} for n in counts},
        seeds,
    )
    found = [losses(each) for each in evaluations.values()]
    best = min(range(len(found)), key=lambda i: mean(found[i]))
    more_helps = is_clearly_lower(found[best], found[0])
    too_many_hurt = is_clearly_lower(found[best], found[-1])
    is_one_best = is_clearly_lower(found[0], [value for each in found[1:] for value in each])
    supports = [] if is_one_best else [more_helps, too_many_hurt]
    return report(
        judge_variants(has_learned(list(evaluations.values())[best]), supports, [is_one_best]),
        f"The loss is lowest with {counts[best]} heads: {mean(found[best]):.3f}, against "
        f"{mean(found[0]):.3f} with one and {mean(found[-1]):.3f} with {counts[-1]}. One head is "
        f"{'clearly worse' if more_helps else 'not clearly worse'}, {counts[-1]} are "
        f"{'clearly worse' if too_many_hurt else 'not clearly worse'} (every seed against every "
        "seed).",
        evaluations,
    )
