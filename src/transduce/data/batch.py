"""Examples and padded batches of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from transduce.data.shards import Ids
from transduce.text.corpus import Pair
from transduce.text.vocabulary import EOS, PAD, SOS, Vocabulary


class Example(NamedTuple):
    """A sentence pair as ids."""

    source: Ids  # the source, then [EOS]
    target: Ids  # [SOS], the target, then [EOS]


@dataclass(frozen=True, slots=True)
class Batch:
    """Examples, padded to the same length.

    `target_in` is the target without its last token, `target_out` without its first. A batch for a
    language model has no source.
    """

    source: Int[Tensor, "batch source"] | None
    source_mask: Bool[Tensor, "batch source"] | None
    target_in: Int[Tensor, "batch target"]
    target_out: Int[Tensor, "batch target"]
    n_tokens: int  # target tokens to predict, without padding

    def map_tensors(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        """Apply a function to every tensor and count the tokens again."""
        target_in, target_out = change(self.target_in), change(self.target_out)
        source = None if self.source is None else change(self.source)
        source_mask = None if self.source_mask is None else change(self.source_mask)
        return Batch(source, source_mask, target_in, target_out, n_tokens=count_tokens(target_out))


def count_tokens(target_out: Int[Tensor, "batch target"]) -> int:
    """Return the number of tokens to predict, without padding."""
    return int((target_out != PAD).sum())


def encode_source(ids: Sequence[int]) -> Ids:
    """Return the ids of a source sentence with [EOS] appended."""
    return np.array([*ids, EOS], dtype=np.int32)


def encode_example(source: Sequence[int], target: Sequence[int]) -> Example:
    """Return the ids of a pair as an example, with [SOS] and [EOS] added."""
    return Example(encode_source(source), np.array([SOS, *target, EOS], dtype=np.int32))


def encode_pairs(pairs: Sequence[Pair], source: Vocabulary, target: Vocabulary) -> list[Example]:
    """Encode text pairs as examples."""
    sources = source.encode_batch([pair.source for pair in pairs])
    targets = target.encode_batch([pair.target for pair in pairs])
    return [encode_example(*ids) for ids in zip(sources, targets, strict=True)]


def pad(rows: Sequence[Ids]) -> Int[Tensor, "batch position"]:
    """Pad rows with [PAD] on the right to the length of the longest."""
    rectangle = np.full((len(rows), max(len(row) for row in rows)), PAD, dtype=np.int64)
    for i, row in enumerate(rows):
        rectangle[i, : len(row)] = row
    return torch.from_numpy(rectangle)


def collate(examples: Sequence[Example]) -> Batch:
    """Pad examples into a batch."""
    source = pad([example.source for example in examples])
    target = pad([example.target for example in examples])
    target_out = target[:, 1:]
    return Batch(
        source,
        source != PAD,
        target_in=target[:, :-1],
        target_out=target_out,
        n_tokens=count_tokens(target_out),
    )
