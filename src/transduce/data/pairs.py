"""The sentence pairs of a prepared corpus as `Examples`."""

from collections.abc import Sequence

import numpy as np

from transduce.data.batch import Example
from transduce.data.order import BLOCK, Examples
from transduce.data.resampling import Sampler
from transduce.data.shards import Shards


class EncodedPairs(Examples):
    """Sentence pairs with their stored segmentation."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    def __len__(self) -> int:
        return len(self._shards)

    def block(self, number: int, epoch: int) -> Sequence[Example]:
        """Return the pairs of a block, the same in each epoch."""
        start, stop = block_bounds(number, len(self))
        sides = (self._shards.read(start, stop, name) for name in ("source", "target"))
        return [Example(source, target) for source, target in zip(*sides, strict=True)]


class SampledPairs(EncodedPairs):
    """Sentence pairs that another process segments anew in each epoch (text.dropout).

    It works one pool ahead of the training.
    """

    def __init__(self, shards: Shards, sampler: Sampler, seed: int) -> None:
        super().__init__(shards)
        self._sampler, self._seed = sampler, seed

    def prefetch(self, blocks: Sequence[int], epoch: int) -> None:
        """Request the segmentation of blocks that will be read soon."""
        for number in blocks:
            self._sampler.request(*block_bounds(number, len(self)), self._seed_of(number, epoch))

    def block(self, number: int, epoch: int) -> Sequence[Example]:
        """Return the pairs of a block, segmented anew.

        The result depends only on the seed, the epoch and the block.
        """
        start, stop = block_bounds(number, len(self))
        source, target = self._sampler.columns(start, stop, self._seed_of(number, epoch))
        return [Example(source.row(i), target.row(i)) for i in range(stop - start)]

    def _seed_of(self, number: int, epoch: int) -> int:
        return int(np.random.SeedSequence((self._seed, epoch, number)).generate_state(1)[0])


def block_bounds(number: int, n_rows: int) -> tuple[int, int]:
    """Return the first row of a block and the row after its last."""
    return number * BLOCK, min((number + 1) * BLOCK, n_rows)
