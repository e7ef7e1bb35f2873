"""The sentence pairs of an encoded corpus, as the stream of batches takes them."""

from collections.abc import Sequence

import numpy as np

from transduce.data.batch import Example
from transduce.data.order import BLOCK, Examples
from transduce.data.resampling import Sampler
from transduce.data.shards import Shards


class EncodedPairs(Examples):
    """Pairs as they were encoded once."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    def __len__(self) -> int:
        return len(self._shards)

    def block(self, number: int, epoch: int) -> Sequence[Example]:
        """The pairs of a block, the same in each epoch."""
        start, stop = block_bounds(number, len(self))
        sides = (self._shards.read(start, stop, name) for name in ("source", "target"))
        return [Example(source, target) for source, target in zip(*sides, strict=True)]


class SampledPairs(EncodedPairs):
    """Pairs whose words are cut into pieces anew in each epoch (`text.dropout`), in another process, a pool ahead."""

    def __init__(self, shards: Shards, sampler: Sampler, seed: int) -> None:
        super().__init__(shards)
        self._sampler, self._seed = sampler, seed

    def expect(self, blocks: Sequence[int], epoch: int) -> None:
        """Let the other process begin with blocks that will be asked for."""
        for number in blocks:
            self._sampler.ask(*block_bounds(number, len(self)), self._seed_of(number, epoch))

    def block(self, number: int, epoch: int) -> Sequence[Example]:
        """The pairs of a block, cut afresh: a function of seed, epoch and block."""
        start, stop = block_bounds(number, len(self))
        source, target = self._sampler.columns(start, stop, self._seed_of(number, epoch))
        return [Example(source.row(i), target.row(i)) for i in range(stop - start)]

    def _seed_of(self, number: int, epoch: int) -> int:
        return int(np.random.SeedSequence((self._seed, epoch, number)).generate_state(1)[0])


def block_bounds(number: int, n_rows: int) -> tuple[int, int]:
    """The first row of a block and the row after its last."""
    return number * BLOCK, min((number + 1) * BLOCK, n_rows)
