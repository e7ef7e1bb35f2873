"""Early and late layers predict differently."""

import torch
from torch import Tensor

from transduce.claims.claim import Result, bars, conclude, judge
from transduce.claims.lab import Lab, evaluate, record_each
from transduce.model.weights import shared_copy


def run(lab: Lab, *, early: bool = True, exchanged: bool = True, n_sentences: int = 60) -> Result:
    """Predict from every layer of the decoder; then swap its first and last layer."""
    model, examples = lab.translator.model, lab.own_translations(n_sentences)
    n_layers = model.config.decoder.n_layers
    hits: list[list[Tensor]] = [[] for _ in range(n_layers)]
    with torch.inference_mode():
        for example, found in zip(examples, record_each(model, examples), strict=True):
            written = torch.from_numpy(example.target[1:])
            for i in range(n_layers):
                hidden = found[f"dec.{i if early else n_layers - 1}.ff.norm"]
                hits[i].append(model.logits(model.decoder.norm(hidden)).argmax(dim=-1) == written)
    shares = [torch.cat(each).float().mean().item() for each in hits]
    swapped = shared_copy(model)
    if exchanged:
        stack = swapped.decoder.layers
        stack[0], stack[n_layers - 1] = stack[n_layers - 1], stack[0]
    original, other = evaluate(model, examples), evaluate(swapped, examples)
    names = [f"layer {i + 1}" for i in range(n_layers)]
    return conclude(
        judge(
            shares[-1] > 0.5,
            shares[0] < shares[-1] - 0.2,
            other.token_accuracy < original.token_accuracy - 0.2,
        ),
        f"After layer 1, {shares[0]:.0%} of the model's own tokens are predicted; after layer "
        f"{n_layers}, {shares[-1]:.0%} (by definition: that is the model's output).",
        "If layers were alike their order would not matter. With the first and the last swapped, "
        f"{other.token_accuracy:.0%} of tokens are predicted instead of "
        f"{original.token_accuracy:.0%}.",
        ("prediction", "own tokens predicted"),
        [
            *((f"after {name}", share) for name, share in zip(names, shares, strict=True)),
            ("first and last layer swapped (control)", other.token_accuracy),
        ],
        bars(
            "Share of the model's own tokens predicted",
            [*names, "swapped"],
            {"": [*shares, other.token_accuracy]},
        ),
    )
