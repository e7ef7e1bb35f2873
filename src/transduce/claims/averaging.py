"""Averaging the last checkpoints helps (section 6.1)."""

import copy

from torch import Tensor

from transduce.claims.claim import Result, bars, conclude, judge
from transduce.claims.lab import Lab, evaluate, held_out_set, mean
from transduce.claims.variants import SEEDS
from transduce.model.weights import average

LAST, EVERY = 5, 10
RECIPE = {"schedule": "inverse_sqrt", "learning_rate": 0.006, "steps": 240}


def run(lab: Lab, *, averaged: bool = True, seeds: tuple[int, ...] = SEEDS) -> Result:
    """Evaluate the last five checkpoints, while the rate is high, and their average.

    The control averages checkpoints of different trainings.
    """
    trained = [lab.train(recipe=RECIPE, seed=seed, keep_every=EVERY) for seed in seeds]
    model = copy.deepcopy(trained[0].translator.model)

    def loss(*weights: dict[str, Tensor]) -> float:
        # Not strict, because the weights contain a shared matrix only once.
        model.load_state_dict(average(weights) if averaged else weights[-1], strict=False)
        return evaluate(model, held_out_set()).loss

    singles = [[loss(weights) for weights in each.checkpoints[-LAST:]] for each in trained]
    together = [loss(*each.checkpoints[-LAST:]) for each in trained]
    mixed = loss(*(each.checkpoints[-1] for each in trained))
    beats_mean = sum(merged < mean(each) for merged, each in zip(together, singles, strict=True))
    beats_last = sum(merged < each[-1] for merged, each in zip(together, singles, strict=True))
    means = [mean(each) for each in singles]
    rows = [
        (f"seed {seed}", *each, merged)
        for seed, each, merged in zip(seeds, singles, together, strict=True)
    ]
    losses = {"mean loss of the five": means, "loss of their averaged weights": together}
    return conclude(
        judge(mixed > 2 * mean(together), beats_mean == len(seeds), beats_last == len(seeds)),
        f"The averaged weights of the last {LAST} checkpoints have a lower loss than the last one "
        f"in {beats_last} of {len(seeds)} trainings, and lower than the mean of the {LAST} in "
        f"{beats_mean}: {mean(together):.3f} against "
        f"{mean([each[-1] for each in singles]):.3f} and {mean(means):.3f}; the best single "
        f"checkpoint has {mean([min(each) for each in singles]):.3f} on average.",
        f"Averaging models of different trainings gives {mixed:.2f}: averaging by itself does not "
        "help; it needs checkpoints of one training, which are close together.",
        ("training", *(f"checkpoint {i + 1}" for i in range(LAST)), "their averaged weights"),
        [*rows, ("different seeds (control)", *[""] * LAST, mixed)],
        bars("Loss on unseen sentences", [f"seed {seed}" for seed in seeds], losses),
    )
