"""What people read of a trace: pieces, steps with their likeliest candidates, near pieces, neurons, the shape of the model."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from transduce.decode.alignment import alignment_layer, word_indices
from transduce.model_folder import ModelFolder
from transduce.text.vocabulary import EOS, SOS, Vocabulary

N_TOP = 20  # candidates that are listed for each step
N_NEAR = 5  # pieces that are near another
N_NEURONS = 3  # that are listed for each step, and pieces that each of them pushes


def describe(
    folder: ModelFolder,
    text: str,
    source: list[int],
    target: list[int],
    chosen: Sequence[int],
    tensors: Mapping[str, Tensor],
) -> dict[str, Any]:
    """The part of `Trace.meta` that follows from what was read, written and computed."""
    vocabulary, config, decode = folder.target_vocabulary, folder.config.model, folder.config.decode
    shape = {
        "kind": config.kind, "n_layers": config.n_layers, "n_heads": config.n_heads, "d_model": config.d_model,
        "d_k": config.key_size, "d_v": config.value_size, "d_ff": config.d_ff, "norm": config.norm,
        "positions": config.positions, "vocab_size": len(vocabulary), "alignment_layer": alignment_layer(config.n_layers),
        "fingerprint": folder.fingerprint, "alpha": decode.alpha, "length_penalty": decode.length_penalty,
    }  # fmt: skip
    sides: dict[str, Any] = {
        "target": _side(target, vocabulary) | {"text": vocabulary.decode(target)}
    }
    if source:
        near = _near(source, folder.source_vocabulary, folder.model)
        sides["source"] = _side(source, folder.source_vocabulary) | {"text": text, "near": near}
    return {
        **sides,
        "model": shape,
        "steps": describe_steps(tensors["logits"].float(), chosen, vocabulary, N_TOP),
        "vocabulary": [vocabulary.token(i) for i in range(len(vocabulary))],
        "neurons": _neurons(folder.model, vocabulary, tensors),
    }


def describe_steps(
    logits: Tensor, chosen: Sequence[int], vocabulary: Vocabulary, n_top: int
) -> list[dict[str, Any]]:
    """Each time step: what was written, the likeliest candidates, how unsure the model was, and the rank of what was written."""
    found = []
    for row, probs, piece in zip(logits, torch.softmax(logits, dim=-1), chosen, strict=True):
        top = probs.topk(min(n_top, len(probs)))
        listed = zip(
            top.indices.tolist(), row[top.indices].tolist(), top.values.tolist(), strict=True
        )
        found.append(
            {
                "chosen": piece,
                "top": [[i, vocabulary.token(i), logit, p] for i, logit, p in listed],
                "entropy": float(-(probs * probs.clamp(min=1e-12).log()).sum()),
                "rank": int((probs > probs[piece]).sum()),
            }
        )
    return found


def _side(ids: list[int], vocabulary: Vocabulary) -> dict[str, Any]:
    words = iter(word_indices([i for i in ids if i not in (SOS, EOS)], vocabulary))
    numbers = [None if i in (SOS, EOS) else next(words) for i in ids]
    return {"ids": ids, "pieces": [vocabulary.token(i) for i in ids], "words": numbers}


def _near(ids: list[int], vocabulary: Vocabulary, model: Any) -> list[list[list[Any]]]:
    """For each piece those whose vectors point most nearly in its direction, with the cosine."""
    unit = torch.nn.functional.normalize(model.source_embedding.weight.detach().float(), dim=1)
    near = (unit[ids] @ unit.T).topk(min(N_NEAR + 1, len(unit)), dim=1)
    return [
        [
            [vocabulary.token(j), c]
            for j, c in zip(row.tolist(), cosines.tolist(), strict=True)
            if j != i
        ][:N_NEAR]
        for i, row, cosines in zip(ids, near.indices, near.values, strict=True)
    ]


def _neurons(
    model: Any, vocabulary: Vocabulary, tensors: Mapping[str, Tensor]
) -> dict[str, list[list[list[Any]]]]:
    """For each decoder layer and step the strongest neurons: number, activation, and the pieces they push most."""
    found: dict[str, list[list[list[Any]]]] = {}
    for i, layer in enumerate(model.decoder.layers):
        hidden = tensors[f"dec.{i}.ff.hidden"]
        top = hidden.topk(min(N_NEURONS, hidden.shape[1]), dim=1)
        columns = layer.feed_forward.w_2.weight.detach()[:, top.indices.flatten()]
        pushed = iter(
            (model.logit_weight.detach() @ columns).T.topk(N_NEURONS, dim=1).indices.tolist()
        )
        found[f"dec.{i}.ff"] = [
            [
                [n, a, [vocabulary.token(w) for w in next(pushed)]]
                for n, a in zip(row.tolist(), values.tolist(), strict=True)
            ]
            for row, values in zip(top.indices, top.values, strict=True)
        ]
    return found
