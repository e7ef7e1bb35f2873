"""What a decoder remembers between two steps: keys and values, as values that are passed in and returned."""

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
        """These, then `new`."""
        return KeyValues(torch.cat((self.k, new.k), dim=2), torch.cat((self.v, new.v), dim=2))

    def select(self, rows: Int[Tensor, " rows"]) -> "KeyValues":
        """The keys and values of some rows of the batch, in that order, repeats allowed."""
        return KeyValues(self.k.index_select(0, rows), self.v.index_select(0, rows))

    def contiguous(self) -> "KeyValues":
        """The same, each head's numbers side by side in memory."""
        return KeyValues(self.k.contiguous(), self.v.contiguous())


@dataclass(frozen=True, slots=True)
class LayerCache:
    """One decoder layer's memory: of the target so far, a row each hypothesis, and of the source, a row each sentence."""

    target: KeyValues | None = None
    source: KeyValues | None = None


@dataclass(frozen=True, slots=True)
class Cache:
    """A decoder's memory after `length` target pieces, and which source positions may be attended to.

    The target has a row for each hypothesis; the source one for each sentence, which all its hypotheses share.
    """

    layers: tuple[LayerCache, ...]
    length: int = 0
    source_mask: Bool[Tensor, "sentence source"] | None = None

    def contiguous(self) -> "Cache":
        """The same, as is best for many steps: else each would gather the source's keys and values by head anew."""
        layers = (
            replace(layer, source=layer.source and layer.source.contiguous())
            for layer in self.layers
        )
        return replace(self, layers=tuple(layers))

    def select(
        self, rows: Int[Tensor, " rows"], sentences: Int[Tensor, " sentences"] | None = None
    ) -> "Cache":
        """The cache of some hypotheses, in that order, repeats allowed: how a beam keeps its survivors.

        `sentences` are those that are still searched; left out, all of them are.
        """
        layers = []
        for layer in self.layers:
            source = (
                layer.source
                if sentences is None
                else layer.source and layer.source.select(sentences)
            )
            layers.append(LayerCache(layer.target and layer.target.select(rows), source))
        mask = self.source_mask
        if mask is not None and sentences is not None:
            mask = mask[sentences]
        return replace(self, layers=tuple(layers), source_mask=mask)
