"""The order of the training examples: shuffled per epoch, bucketed by length, in token budgets.

The corpus is divided into blocks of neighbours. An epoch reads the blocks in random order, one pool
of blocks at a time, and shuffles, sorts by length and forms batches inside the pool. So memory does
not grow with the corpus, and the disk is read sequentially inside a block. The order is a function
of (seed, epoch) and the same for any number of ranks, so a `Position` of three integers is enough
to resume.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from transduce.data.batch import Batch, Example, collate
from transduce.data.budget import cut_batches

BLOCK = 1024  # examples per block
POOL = 32  # blocks per pool
T = TypeVar("T")


class Position(NamedTuple):
    """The next batch to read: index of its epoch, of its pool in the epoch, of it in the pool."""

    epoch: int = 0
    pool: int = 0
    batch: int = 0


@runtime_checkable
class Examples(Protocol):
    """Training examples, read in blocks. Their segmentation may depend on the epoch."""

    def __len__(self) -> int:
        """Return the number of examples."""

    def prefetch(self, blocks: Sequence[int], epoch: int) -> None:
        """Prepare blocks that will be read soon. By default there is nothing to prepare."""
        return

    def block(self, number: int, epoch: int) -> Sequence[Example]:
        """Return the examples of a block."""


class ExampleList(Examples):
    """Examples in memory."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self._examples = examples

    def __len__(self) -> int:
        return len(self._examples)

    def block(self, number: int, epoch: int) -> Sequence[Example]:
        """Return the examples of a block, the same in each epoch."""
        return self._examples[number * BLOCK : (number + 1) * BLOCK]


def length(example: Example) -> int:
    """Return the number of tokens of the longer side, as the token budget counts it."""
    return max(len(example.source), len(example.target) - 1)


def sort_by_length(examples: Sequence[Example], order: Sequence[int]) -> list[int]:
    """Sort the indices `order` by the length of the examples (section 5.1: approximate length).

    The sort is stable: examples of equal lengths stay in the given order.
    """
    return sorted(order, key=lambda i: (len(examples[i].target), len(examples[i].source)))


def pools(n_examples: int, seed: int, epoch: int) -> list[list[int]]:
    """Return the block numbers of each pool of an epoch."""
    n_blocks = math.ceil(n_examples / BLOCK)
    order = np.random.Generator(np.random.PCG64([seed, epoch])).permutation(n_blocks).tolist()
    return [order[i : i + POOL] for i in range(0, n_blocks, POOL)]


def plan_pool(
    examples: Sequence[Example], budget: int, seed: int, epoch: int, pool: int
) -> list[list[int]]:
    """Return the batches of a pool in training order, as indices into `examples`."""
    random = np.random.Generator(np.random.PCG64([seed, epoch, pool]))
    order = sort_by_length(examples, random.permutation(len(examples)).tolist())
    batches = cut_batches([length(examples[i]) for i in order], budget)
    return [[order[i] for i in batches[b]] for b in random.permutation(len(batches))]


def batches_of_examples(
    examples: Examples, budget: int, seed: int, start: Position
) -> Iterator[tuple[list[Example], Position]]:
    """Yield the examples of each batch endlessly, with the position after the batch."""
    assert len(examples), "there are examples to read"
    position = start
    while True:
        epoch, pool, first = position
        blocks = pools(len(examples), seed, epoch)
        pool_examples = [
            example for block in blocks[pool] for example in examples.block(block, epoch)
        ]

        position = Position(epoch, pool + 1) if pool + 1 < len(blocks) else Position(epoch + 1)
        next_pools = pools(len(examples), seed, position.epoch)
        examples.prefetch(next_pools[position.pool], position.epoch)

        plan = plan_pool(pool_examples, budget, seed, epoch, pool)
        for i in range(first, len(plan)):
            after = Position(epoch, pool, i + 1) if i + 1 < len(plan) else position
            yield [pool_examples[j] for j in plan[i]], after


def batches_of_rank(
    batches: Iterator[tuple[T, Position]], rank: int, n_ranks: int
) -> Iterator[tuple[T, Position]]:
    """Yield the batches of one rank: one of every `n_ranks` batches.

    The position is the one after all `n_ranks` batches, the same on every rank.
    """
    while True:
        group = list(islice(batches, n_ranks))
        yield group[rank][0], group[-1][1]


def stream(
    examples: Examples, budget: int, seed: int, start: Position, rank: int = 0, n_ranks: int = 1
) -> Iterator[tuple[Batch, Position]]:
    """Yield the batches of a rank endlessly from a position on, each with the position after it."""
    batches = batches_of_examples(examples, budget, seed, start)
    for batch, after in batches_of_rank(batches, rank, n_ranks):
        yield collate(batch), after


def in_order(examples: Sequence[Example], budget: int) -> Iterator[Batch]:
    """Yield every example once, shortest first: for evaluation, where the order does not matter."""
    order = sort_by_length(examples, range(len(examples)))
    for batch in cut_batches([length(examples[i]) for i in order], budget):
        yield collate([examples[order[i]] for i in batch])
