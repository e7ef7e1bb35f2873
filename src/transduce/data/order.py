"""The order in which examples are seen: buckets by length, a budget in tokens, a shuffle for each epoch.

The corpus is cut into blocks of neighbours; an epoch reads the blocks in a random order, a pool of them at a time, and shuffles,
sorts by length and cuts inside the pool. So memory does not grow with the corpus and a disk is read in stretches. The order is a
function of (seed, epoch), so a `Position` of three integers says where a training stands; it is the same for any number of ranks.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from transduce.data.batch import Batch, Example, collate
from transduce.data.budget import cut_batches

BLOCK = 1024  # neighbours that stay together until they are shuffled inside a pool
POOL = 32  # blocks
T = TypeVar("T")


class Position(NamedTuple):
    """The next batch to be read: batch number `batch` of pool number `pool` of epoch `epoch`, from 0."""

    epoch: int = 0
    pool: int = 0
    batch: int = 0


@runtime_checkable
class Examples(Protocol):
    """Examples in blocks; how they are cut into pieces may depend on the epoch."""

    def __len__(self) -> int:
        """How many there are."""

    def expect(self, blocks: Sequence[int], epoch: int) -> None:
        """Blocks that will be asked for soon, for whoever makes them; most have them already."""
        return

    def block(self, number: int, epoch: int) -> Sequence[Example]:
        """The examples of a block."""


class ExampleList(Examples):
    """Examples that are in memory."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self._examples = examples

    def __len__(self) -> int:
        return len(self._examples)

    def block(self, number: int, epoch: int) -> Sequence[Example]:
        """The examples of a block, the same in each epoch."""
        return self._examples[number * BLOCK : (number + 1) * BLOCK]


def length(example: Example) -> int:
    """Pieces of the longer side, as the budget counts them."""
    return max(len(example.source), len(example.target) - 1)


def by_length(examples: Sequence[Example], order: Sequence[int]) -> list[int]:
    """Examples from short to long (section 5.1: by approximate length); those of equal lengths stay in the given order."""
    return sorted(order, key=lambda i: (len(examples[i].target), len(examples[i].source)))


def pools(n_examples: int, seed: int, epoch: int) -> list[list[int]]:
    """The numbers of the blocks of each pool of an epoch."""
    n_blocks = -(-n_examples // BLOCK)
    order = np.random.Generator(np.random.PCG64([seed, epoch])).permutation(n_blocks).tolist()
    return [order[i : i + POOL] for i in range(0, n_blocks, POOL)]


def plan_pool(
    examples: Sequence[Example], budget: int, seed: int, epoch: int, pool: int
) -> list[list[int]]:
    """Which examples of a pool stand together, and in which order the batches come."""
    random = np.random.Generator(np.random.PCG64([seed, epoch, pool]))
    order = by_length(examples, random.permutation(len(examples)).tolist())
    batches = cut_batches([length(examples[i]) for i in order], budget)
    return [[order[i] for i in batches[b]] for b in random.permutation(len(batches))]


def batches_of_examples(
    examples: Examples, budget: int, seed: int, start: Position
) -> Iterator[tuple[list[Example], Position]]:
    """The examples of each batch, for ever, from a position on, with the position after it."""
    position = start
    assert len(examples), "there is something to read"
    while True:
        epoch, pool, first = position
        blocks = pools(len(examples), seed, epoch)
        found = [example for block in blocks[pool] for example in examples.block(block, epoch)]
        position = Position(epoch, pool + 1) if pool + 1 < len(blocks) else Position(epoch + 1)
        examples.expect(pools(len(examples), seed, position.epoch)[position.pool], position.epoch)
        plan = plan_pool(found, budget, seed, epoch, pool)
        for i in range(first, len(plan)):
            yield (
                [found[j] for j in plan[i]],
                Position(epoch, pool, i + 1) if i + 1 < len(plan) else position,
            )


def share(
    batches: Iterator[tuple[T, Position]], rank: int, n_ranks: int
) -> Iterator[tuple[T, Position]]:
    """Of every `n_ranks` batches the one of this rank; the position is the one after all of them, the same on every rank."""
    while True:
        together = list(islice(batches, n_ranks))
        yield together[rank][0], together[-1][1]


def stream(
    examples: Examples, budget: int, seed: int, start: Position, rank: int = 0, n_ranks: int = 1
) -> Iterator[tuple[Batch, Position]]:
    """A rank's batches for ever, from a position on, each with the position after it."""
    for found, after in share(batches_of_examples(examples, budget, seed, start), rank, n_ranks):
        yield collate(found), after


def in_order(examples: Sequence[Example], budget: int) -> Iterator[Batch]:
    """Every example once, shortest first: for measuring, where order does not matter."""
    order = by_length(examples, range(len(examples)))
    for batch in cut_batches([length(examples[i]) for i in order], budget):
        yield collate([examples[order[i]] for i in batch])
