"""The sentence pairs of an encoded corpus, as the stream of batches takes them."""

from collections.abc import Sequence

import numpy as np

from transduce.data.batch import Example
from transduce.data.encoder import fits
from transduce.data.shards import Shards
from transduce.data.stream import BLOCK
from transduce.text.vocabulary import EOS, SOS, Vocabulary


class EncodedPairs:
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


class SampledPairs:
    """Pairs whose words are cut into pieces anew in each epoch (`text.dropout`): a function of seed, epoch and block."""

    def __init__(
        self, shards: Shards, vocabularies: tuple[Vocabulary, Vocabulary], dropout: float, max_length: int, seed: int
    ) -> None:
        self._shards, self._vocabularies = shards, vocabularies
        self._dropout, self._max_length, self._seed = dropout, max_length, seed
        self._encoded = EncodedPairs(shards)

    def __len__(self) -> int:
        return len(self._shards)

    def block(self, number: int, epoch: int) -> Sequence[Example]:
        """The pairs of a block, cut afresh; one that this makes too long is taken as it was encoded."""
        start, stop = block_bounds(number, len(self))
        sides = []
        for side, (name, vocabulary) in enumerate(zip(("source_text", "target_text"), self._vocabularies, strict=True)):
            lines = [row.tobytes().decode() for row in self._shards.read(start, stop, name)]
            sides.append(vocabulary.sample_batch(lines, self._dropout, seed_of(self._seed, epoch, number, side)))
        return [
            Example(np.array([*source, EOS], dtype=np.int32), np.array([SOS, *target, EOS], dtype=np.int32))
            if fits(source, target, self._max_length)
            else encoded
            for source, target, encoded in zip(*sides, self._encoded.block(number, epoch), strict=True)
        ]


def block_bounds(number: int, n_rows: int) -> tuple[int, int]:
    """The first row of a block and the row after its last."""
    return number * BLOCK, min((number + 1) * BLOCK, n_rows)


def seed_of(*numbers: int) -> int:
    """One 32-bit seed from several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])
