"""Targets that are given, not searched: how likely each of their pieces is, and which source words it looked at."""

import copy
import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transduce.data.batch import Batch, collate, encode_example
from transduce.data.budget import cut_batches
from transduce.decode.sentences import NOT_NUMBERS
from transduce.errors import ModelError
from transduce.model import Transformer
from transduce.model.attention import Mask, attention_weights

TOKENS = 2048  # pieces of a batch


@dataclass(frozen=True, slots=True)
class Forced:
    """A pair that was scored: the log-probability of each target piece, [EOS] last, and what it attended to."""

    log_probs: tuple[float, ...]
    attention: Float[Tensor, "target source"] | None = None  # [EOS] is the last on both sides


ModelT = TypeVar("ModelT", bound=nn.Module)


def twin(model: ModelT) -> ModelT:
    """A model that shares its weights with another, and may be hooked and bent without anybody else noticing."""
    return copy.deepcopy(model, {id(parameter): parameter for parameter in model.parameters()})


class Watched:
    """A model, sharing its weights with the one it was made of, that leaves behind what its alignment layer attended to.

    Attention is spelled out there (Eq. 1); each thread sees its own.
    """

    def __init__(self, model: Transformer) -> None:
        self.model = twin(model)
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


def force(
    models: Sequence[Transformer],
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    *,
    with_attention: bool = False,
) -> list[Forced]:
    """Score pairs of pieces in one pass each, all positions at once; of an ensemble the probabilities are averaged.

    The attention is that of the first model: the cross-attention of the layer that aligns best, averaged over its heads.
    """
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]) + len(targets[i]))
    lengths = [max(len(sources[i]), len(targets[i])) + 1 for i in order]
    found: dict[int, Forced] = {}
    watched = Watched(models[0]) if with_attention else None
    for numbers in cut_batches(lengths, TOKENS):
        chosen = [order[i] for i in numbers]
        batch = collate([encode_example(sources[i], targets[i]) for i in chosen])
        log_probs = _read([watched.model, *models[1:]] if watched else models, batch)
        if log_probs.isnan().any():
            raise ModelError(NOT_NUMBERS)
        attention = watched.attention if watched else None
        for row, i in enumerate(chosen):
            n = len(targets[i]) + 1
            seen = attention[row, :n, : len(sources[i]) + 1] if attention is not None else None
            found[i] = Forced(tuple(log_probs[row, :n].tolist()), seen)
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


def alignment_layer(n_layers: int) -> int:
    """The layer whose cross-attention shows best which word was translated: the last but one, of few layers the last.

    Garg et al. 2019 found the last but one of six; of the two layers of the built-in model it is the last (docs/decisions.md).
    """
    return n_layers - 2 if n_layers > 3 else n_layers - 1
