"""Dropout reduces overfitting; label smoothing hurts perplexity and helps accuracy.

Table 3, D; section 5.4.
"""

import math

from transduce.claims.claim import Result, bars, judge_variants
from transduce.claims.lab import Lab, is_clearly_lower, mean
from transduce.claims.variants import (
    SEEDS,
    exact_accuracies,
    has_learned,
    losses,
    report,
    train_each,
)

VARIANTS = {
    "neither": (0.0, 0.0),
    "dropout 0.1": (0.1, 0.0),
    "dropout 0.3": (0.3, 0.0),
    "smoothing 0.1": (0.0, 0.1),
}


def run(
    lab: Lab, *, n_pairs: int = 250, is_changed: bool = True, seeds: tuple[int, ...] = SEEDS
) -> Result:
    """Train on few sentences, which a small model can memorize; test on new ones."""
    changed = {
        name: {
            "shape": {"dropout": dropout if is_changed else 0.0},
            "recipe": {"label_smoothing": smoothing if is_changed else 0.0},
        }
        for name, (dropout, smoothing) in VARIANTS.items()
    }
    evaluations = train_each(lab, changed, seeds, n_pairs=n_pairs)
    exact = {name: exact_accuracies(each) for name, each in evaluations.items()}
    plain, smooth = losses(evaluations["neither"]), losses(evaluations["smoothing 0.1"])
    found = {
        "dropout lowers the loss": any(
            is_clearly_lower(losses(evaluations[name]), plain)
            for name in ("dropout 0.1", "dropout 0.3")
        ),
        "smoothing raises perplexity": is_clearly_lower(plain, smooth),
        "smoothing gives more exact sentences": is_clearly_lower(
            exact["neither"], exact["smoothing 0.1"]
        ),
    }
    against = {
        "dropout raises the loss": is_clearly_lower(plain, losses(evaluations["dropout 0.1"])),
        "smoothing lowers perplexity": is_clearly_lower(smooth, plain),
        "smoothing gives fewer exact sentences": is_clearly_lower(
            exact["smoothing 0.1"], exact["neither"]
        ),
    }
    clear = [name for name, holds in (found | against).items() if holds]
    missing = [name for name, holds in found.items() if not holds]
    numbers = [
        f"{name}: {math.exp(mean(losses(each))):.2f} and {mean(exact[name]):.1%}"
        for name, each in evaluations.items()
    ]
    return report(
        judge_variants(
            any(map(has_learned, evaluations.values())),
            list(found.values()),
            list(against.values()),
        ),
        f"Clear in every seed: {'; '.join(clear) or 'nothing'}. Claimed but not shown: "
        f"{'; '.join(missing) or 'nothing'}. "
        f"Perplexity and exact sentences with {', '.join(numbers)}.",
        evaluations,
        bars(
            "Share of exact sentences, mean of the seeds",
            evaluations,
            {"": [mean(each) for each in exact.values()]},
        ),
    )
