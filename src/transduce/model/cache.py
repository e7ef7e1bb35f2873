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
        return KeyValues(self.k[rows], self.v[rows])


@dataclass(frozen=True, slots=True)
class LayerCache:
    """One decoder layer's memory: of the target so far, and of the source."""

    target: KeyValues | None = None
    source: KeyValues | None = None

    def select(self, rows: Int[Tensor, " rows"]) -> "LayerCache":
        """The cache of some rows of the batch."""
        return replace(
            self,
            target=self.target.select(rows) if self.target is not None else None,
            source=self.source.select(rows) if self.source is not None else None,
        )


@dataclass(frozen=True, slots=True)
class Cache:
    """A decoder's memory after `length` target pieces, and which source positions may be attended to."""

    layers: tuple[LayerCache, ...]
    length: int = 0
    source_mask: Bool[Tensor, "batch source"] | None = None

    def select(self, rows: Int[Tensor, " rows"]) -> "Cache":
        """The cache of some rows of the batch: how a beam keeps its survivors."""
        mask = self.source_mask[rows] if self.source_mask is not None else None
        return replace(self, layers=tuple(layer.select(rows) for layer in self.layers), source_mask=mask)
