"""Are learned positions as good as sinusoids (Table 3, E), and which generalize to longer text?"""

from transduce.claims import toy
from transduce.claims.claim import Result, bars, conclude, judge
from transduce.claims.lab import TEST_SEED, Lab, evaluate, held_out_set, is_clearly_lower, mean
from transduce.claims.variants import SEEDS, Variants, has_learned, losses, train_each
from transduce.inspection.record import remove_positions
from transduce.model import Transformer

STEPS = 420  # enough for both to learn
SAME = 0.1  # relative difference of losses that counts as equal
NESTED = ((0, 1), (2, 2), (3, 3))  # phrases within each phrase: as trained, longer, much longer


def no_positions(model: Transformer) -> None:
    """Remove the positions of a model, in place."""
    remove_positions(model)


def run(lab: Lab, *, sinusoidal: bool = True, seeds: tuple[int, ...] = SEEDS[:2]) -> Result:
    """Train with sinusoids, learned positions and none; test on longer sentences too."""
    without = {"change": no_positions}
    variants: Variants = {
        "sinusoids": {} if sinusoidal else without,
        "learned": {"shape": {"positions": "learned", "max_positions": 64}},
        "none (control)": without,
    }
    variants = {name: {"recipe": {"steps": STEPS}, **changes} for name, changes in variants.items()}
    evaluations = train_each(lab, variants, seeds)
    sines, learned, none = (losses(each) for each in evaluations.values())
    models = {
        name: lab.train(**changes, seed=seeds[0]).translator.model
        for name, changes in variants.items()
    }
    shares = {
        name: [evaluate(model, held_out_set(150, nested)).token_accuracy for nested in NESTED]
        for name, model in models.items()
    }
    equal = abs(mean(sines) - mean(learned)) < SAME * mean(sines)
    extrapolates = shares["sinusoids"][1] > 0.9 * shares["sinusoids"][0]
    needed = is_clearly_lower(sines, none) or is_clearly_lower(learned, none)
    names = ("as long as in training", "longer", "much longer")
    words = [
        [len(pair.source.split()) for pair in toy.sentences(150, TEST_SEED, "held-out", nested)]
        for nested in NESTED
    ]
    lengths = [
        f"{name} ({min(each)} to {max(each)} words)"
        for name, each in zip(names, words, strict=True)
    ]
    beyond = [
        f"{name.split(' (')[0]} {each[1]:.0%} and {each[2]:.0%}" for name, each in shares.items()
    ]
    others = [name for name in shares if name != "sinusoids"]
    leads = all(shares["sinusoids"][i] > max(shares[name][i] for name in others) for i in (1, 2))
    return conclude(
        judge(needed and has_learned(evaluations["learned"]), equal, extrapolates),
        f"On sentences {lengths[0]} sinusoids have a loss of {mean(sines):.3f}, learned positions "
        f"{mean(learned):.3f}: {'nearly the same' if equal else 'not the same'}. Correct tokens "
        f"on sentences that are {lengths[1]} and {lengths[2]}: {'; '.join(beyond)}. Beyond the "
        f"trained lengths sinusoids are {'ahead of both' if leads else 'not ahead of both'}, "
        f"{'and keep their accuracy' if extrapolates else 'but far worse than within them'}. "
        "(Rows of the learned table for positions never seen in training are still random.)",
        f"Without any positions the loss is {mean(none):.2f}.",
        (
            "positions",
            "loss, mean of the seeds",
            "from",
            "to",
            *(f"correct tokens, {name}" for name in names),
        ),
        [
            (name, mean(losses(each)), min(losses(each)), max(losses(each)), *shares[name])
            for name, each in evaluations.items()
        ],
        bars("Share of correct tokens, by length of the sentences", names, shares),
    )
