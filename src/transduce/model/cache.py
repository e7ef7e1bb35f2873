"""The decoder's cache: keys and values of earlier positions. Each step returns a new one."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class KeyValues(NamedTuple):
    """The keys and values of one attention, all heads."""

    k: Float[Tensor, "batch head key d_k"]
    v: Float[Tensor, "batch head key d_v"]

    def append(self, new: "KeyValues") -> "KeyValues":
        """Return these keys and values followed by `new`."""
        return KeyValues(torch.cat((self.k, new.k), dim=2), torch.cat((self.v, new.v), dim=2))

    def select(self, rows: Int[Tensor, " rows"]) -> "KeyValues":
        """Return the given rows of the batch, in that order; a row may be repeated."""
        return KeyValues(self.k.index_select(0, rows), self.v.index_select(0, rows))

    def contiguous(self) -> "KeyValues":
        """Return the same values with the numbers of each head contiguous in memory."""
        return KeyValues(self.k.contiguous(), self.v.contiguous())


@dataclass(frozen=True, slots=True)
class LayerCache:
    """The cache of one decoder layer: target keys by hypothesis, source keys by sentence."""

    target: KeyValues | None = None
    source: KeyValues | None = None


@dataclass(frozen=True, slots=True)
class Cache:
    """The cache of a decoder after `length` target tokens, with the padding mask of the source.

    The target has one row for each hypothesis. The source has one row for each sentence, shared by
    all its hypotheses.
    """

    layers: tuple[LayerCache, ...]
    length: int = 0
    source_mask: Bool[Tensor, "sentence source"] | None = None

    def contiguous(self) -> "Cache":
        """Return the same cache with contiguous source keys and values.

        Worth its copy before a search: otherwise every step would gather them by head again.
        """
        layers = (
            replace(layer, source=layer.source and layer.source.contiguous())
            for layer in self.layers
        )
        return replace(self, layers=tuple(layers))

    def select(
        self, rows: Int[Tensor, " rows"], sentences: Int[Tensor, " sentences"] | None = None
    ) -> "Cache":
        """Return the cache of the given hypotheses, in that order; a row may be repeated.

        Beam search calls this to keep the surviving hypotheses. `sentences` are the sentences that
        are not finished yet; None means all.
        """
        layers = []
        for layer in self.layers:
            target, source = layer.target, layer.source
            if target is not None:
                target = target.select(rows)
            if source is not None and sentences is not None:
                source = source.select(sentences)
            layers.append(LayerCache(target, source))
        mask = self.source_mask
        if mask is not None and sentences is not None:
            mask = mask[sentences]
        return replace(self, layers=tuple(layers), source_mask=mask)
