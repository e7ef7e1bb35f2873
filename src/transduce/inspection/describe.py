"""Describe a trace in JSON: tokens, steps with candidates, similar tokens, neurons, model."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from transduce.config import StackShape
from transduce.decode.alignment import word_indices
from transduce.model_folder import ModelFolder
from transduce.text.vocabulary import EOS, SOS, Vocabulary

N_TOP = 20  # candidates listed for each step
N_NEAR = 5  # similar tokens listed for each token
N_NEURONS = 3  # strongest neurons listed for each step, and tokens that each of them promotes


def describe(
    folder: ModelFolder,
    text: str,
    source: list[int],
    target: list[int],
    chosen: Sequence[int],
    tensors: Mapping[str, Tensor],
) -> dict[str, Any]:
    """Return the part of `Trace.meta` that follows from the tokens and the tensors.

    `chosen` is the id written at each step.
    """
    vocabulary, config, decode = folder.target_vocabulary, folder.config.model, folder.config.decode
    shape = {
        "kind": config.kind,
        "d_model": config.d_model,
        **stack_sizes(config.encoder),
        "decoder": stack_sizes(config.decoder),
        "activation": config.activation,
        "embedding_scale": config.embedding_scale,
        "norm": config.norm,
        "norm_epsilon": config.norm_epsilon,
        "positions": config.positions,
        "vocab_size": len(vocabulary),
        "alignment_layer": config.alignment_layer,
        "fingerprint": folder.fingerprint,
        "alpha": decode.alpha,
        "length_penalty": decode.length_penalty,
    }
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


def stack_sizes(stack: StackShape) -> dict[str, int]:
    """Return the sizes of a stack, with the names of the paper."""
    return {
        "n_layers": stack.n_layers,
        "n_heads": stack.n_heads,
        "d_k": stack.key_size,
        "d_v": stack.value_size,
        "d_ff": stack.d_ff,
    }


def describe_steps(
    logits: Tensor, chosen: Sequence[int], vocabulary: Vocabulary, n_top: int
) -> list[dict[str, Any]]:
    """Describe each step: token written, most probable candidates, entropy in nats, rank.

    The rank is the number of tokens that were more probable than the one written.
    """
    described = []
    for row, probs, written in zip(logits, torch.softmax(logits, dim=-1), chosen, strict=True):
        top = probs.topk(min(n_top, len(probs)))
        listed = zip(
            top.indices.tolist(), row[top.indices].tolist(), top.values.tolist(), strict=True
        )
        described.append(
            {
                "chosen": written,
                "top": [[i, vocabulary.token(i), logit, p] for i, logit, p in listed],
                "entropy": float(-(probs * probs.clamp(min=1e-12).log()).sum()),
                "rank": int((probs > probs[written]).sum()),
            }
        )
    return described


def _side(ids: list[int], vocabulary: Vocabulary) -> dict[str, Any]:
    words = iter(word_indices([i for i in ids if i not in (SOS, EOS)], vocabulary))
    numbers = [None if i in (SOS, EOS) else next(words) for i in ids]
    return {"ids": ids, "pieces": [vocabulary.token(i) for i in ids], "words": numbers}


def _near(ids: list[int], vocabulary: Vocabulary, model: Any) -> list[list[list[Any]]]:
    """Return the most similar tokens of each token, by the cosine of their embeddings."""
    unit = torch.nn.functional.normalize(model.source_embedding.weight.detach().float(), dim=1)
    near = (unit[ids] @ unit.T).topk(min(N_NEAR + 1, len(unit)), dim=1)
    return [
        [
            [vocabulary.token(j), cosine]
            for j, cosine in zip(row.tolist(), cosines.tolist(), strict=True)
            if j != i
        ][:N_NEAR]
        for i, row, cosines in zip(ids, near.indices, near.values, strict=True)
    ]


def _neurons(
    model: Any, vocabulary: Vocabulary, tensors: Mapping[str, Tensor]
) -> dict[str, list[list[list[Any]]]]:
    """Return the strongest neurons of each decoder layer and step.

    A neuron is [index, activation, tokens whose logits its output vector raises most].
    """
    found: dict[str, list[list[list[Any]]]] = {}
    for i, layer in enumerate(model.decoder.layers):
        hidden = tensors[f"dec.{i}.ff.hidden"]
        top = hidden.topk(min(N_NEURONS, hidden.shape[1]), dim=1)
        columns = layer.feed_forward.w_2.weight.detach()[:, top.indices.flatten()]
        promoted = iter(
            (model.logit_weight.detach() @ columns).T.topk(N_NEURONS, dim=1).indices.tolist()
        )
        found[f"dec.{i}.ff"] = [
            [
                [index, activation, [vocabulary.token(token) for token in next(promoted)]]
                for index, activation in zip(row.tolist(), values.tolist(), strict=True)
            ]
            for row, values in zip(top.indices, top.values, strict=True)
        ]
    return found
