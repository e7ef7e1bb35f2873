"""Targets that are given, not searched: how likely each of their pieces is, and which source words it looked at."""

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from transduce.data.batch import Batch, collate, encode_example
from transduce.data.budget import cut_batches
from transduce.decode.alignment import alignment_layer
from transduce.decode.hypotheses import NAN_SCORES
from transduce.errors import ModelError
from transduce.model import Transformer
from transduce.model.attention import Mask, attention_weights
from transduce.model.weights import shared_copy

TOKENS = 2048  # pieces of a batch


@dataclass(frozen=True, slots=True)
class ScoredTarget:
    """A pair that was scored: the log-probability of each target piece, [EOS] last, and what it attended to."""

    log_probs: tuple[float, ...]
    attention: Float[Tensor, "target source"] | None = None  # [EOS] is the last on both sides


class Watched:
    """A model, sharing its weights with the one it was made of, that leaves behind what its alignment layer attended to.

    Attention is spelled out there (Eq. 1); each thread sees its own.
    """

    def __init__(self, model: Transformer) -> None:
        self.model = shared_copy(model)
        self._here = threading.local()
        layer: Any = self.model.decoder.layers[alignment_layer(model.config.n_layers)]
        layer.cross_attention.attend = self._attend

    @property
    def attention(self) -> Float[Tensor, "sentence query source"]:
        """The weights of the last call, averaged over heads."""
        return self._here.weights.mean(dim=1)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = None) -> Tensor:
        self._here.weights = attention_weights(q, k, mask)
        return self._here.weights @ v


def score_targets(
    models: Sequence[Transformer],
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    *,
    with_attention: bool = False,
) -> list[ScoredTarget]:
    """Score pairs of pieces in one pass each, all positions at once; of an ensemble the probabilities are averaged.

    The attention is that of the first model: the cross-attention of the layer that aligns best, averaged over its heads.
    """
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]) + len(targets[i]))
    lengths = [max(len(sources[i]), len(targets[i])) + 1 for i in order]
    found: dict[int, ScoredTarget] = {}
    watched = Watched(models[0]) if with_attention else None
    for numbers in cut_batches(lengths, TOKENS):
        chosen = [order[i] for i in numbers]
        batch = collate([encode_example(sources[i], targets[i]) for i in chosen])
        log_probs = _read([watched.model, *models[1:]] if watched else models, batch)
        if log_probs.isnan().any():
            raise ModelError(NAN_SCORES)
        attention = watched.attention if watched else None
        for row, i in enumerate(chosen):
            n = len(targets[i]) + 1
            seen = attention[row, :n, : len(sources[i]) + 1] if attention is not None else None
            found[i] = ScoredTarget(tuple(log_probs[row, :n].tolist()), seen)
    return [found[i] for i in range(len(sources))]


def _read(models: Sequence[Transformer], batch: Batch) -> Float[Tensor, "batch target"]:
    """The log-probability of each target piece."""
    own: list[Tensor] = []
    for model in models:
        with torch.inference_mode():
            logits = model(batch.source, batch.source_mask, batch.target_in).float()
            own.append(
                logits.gather(2, batch.target_out[:, :, None])[:, :, 0] - logits.logsumexp(dim=2)
            )
    return torch.stack(own).logsumexp(dim=0) - math.log(len(models))
