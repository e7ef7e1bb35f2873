"""Is the diagonal of self-attention the highest: does each word attend most to itself?"""

from torch import Tensor

from transduce.claims.claim import Result, bars, conclude, judge
from transduce.claims.lab import Lab, mean, record_each
from transduce.model.attention import attention_weights

HALF = 0.5


def run(lab: Lab, *, trained: bool = True, n_sentences: int = 60) -> Result:
    """Measure the share of words that attend most to themselves, by head.

    `trained=False` uses attention without matrices instead of the trained heads.
    """
    heads: dict[str, list[float]] = {}
    bare: list[float] = []
    for found in record_each(lab.translator.model, lab.own_translations(n_sentences)):
        x = found["enc.0.self.in"][None, None]
        plain = attention_weights(x, x)[0, 0]
        bare.append(on_diagonal(plain))
        for at in (
            name for name in found if name.startswith("enc") and name.endswith(".self.weights")
        ):
            for head, weights in enumerate(found[at]):
                name = f"layer {int(at.split('.')[1]) + 1}, head {head + 1}"
                heads.setdefault(name, []).append(on_diagonal(weights if trained else plain))
    shares, control = {name: mean(values) for name, values in heads.items()}, mean(bare)
    n_high = sum(share > HALF for share in shares.values())
    return conclude(
        judge(control > 1 - HALF / 2, n_high == len(shares), n_high > HALF * len(shares)),
        f"In {n_high} of {len(shares)} heads of the encoder most words attend most to themselves. "
        f"Over all heads {mean(list(shares.values())):.0%} of words do, from "
        f"{min(shares.values()):.0%} to {max(shares.values()):.0%}.",
        "Where queries and keys are the word vectors themselves, without trained matrices, "
        f"{control:.0%} of words do. That is the case the text describes.",
        ("head", "words that attend most to themselves"),
        [*shares.items(), ("no matrices (control)", control)],
        bars(
            "Share of words that attend most to themselves (layer.head; none: no matrices, the "
            "control)",
            [name.replace("layer ", "").replace(", head ", ".") for name in shares] + ["none"],
            {"": [*shares.values(), control]},
        ),
    )


def on_diagonal(weights: Tensor) -> float:
    """Return the share of rows whose largest weight is on the diagonal."""
    rows = weights.argmax(dim=-1)
    return (rows == rows.new_tensor(range(len(rows)))).float().mean().item()
