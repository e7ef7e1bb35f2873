"""The order in which examples are seen: buckets by length, a budget in tokens, a shuffle for each epoch.

The order is a function of (seed, epoch), so a `Position` of two integers says where a training stands.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from transduce.data.batch import Batch, Example, collate


class Position(NamedTuple):
    """The next batch to be read: batch number `batch` of epoch `epoch`, from 0."""

    epoch: int = 0
    batch: int = 0


def length(example: Example) -> int:
    """Pieces of the longer side, as the budget counts them."""
    return max(len(example.source), len(example.target) - 1)


def cut_batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Cut a sequence of examples into batches of at most `budget` pieces each, padding counted; at least one example each."""
    batches: list[list[int]] = []
    batch: list[int] = []
    longest = 0
    for i, n in enumerate(lengths):
        longest = max(longest, n)
        if batch and longest * (len(batch) + 1) > budget:
            batches.append(batch)
            batch, longest = [], n
        batch.append(i)
    return [*batches, batch] if batch else batches


def plan_epoch(examples: Sequence[Example], budget: int, seed: int, epoch: int) -> list[list[int]]:
    """Which examples stand together, and in which order the batches come (section 5.1: by approximate length)."""
    random = np.random.Generator(np.random.PCG64([seed, epoch]))
    order = random.permutation(len(examples))
    by_length = sorted(
        order.tolist(), key=lambda i: (len(examples[i].target), len(examples[i].source))
    )  # stable: ties stay shuffled
    batches = cut_batches([length(examples[i]) for i in by_length], budget)
    return [[by_length[i] for i in batches[b]] for b in random.permutation(len(batches))]


def stream(examples: Sequence[Example], budget: int, seed: int, start: Position) -> Iterator[tuple[Batch, Position]]:
    """Batches for ever, from a position on, each with the position after it."""
    epoch, first = start
    while True:
        plan = plan_epoch(examples, budget, seed, epoch)
        for i in range(first, len(plan)):
            after = Position(epoch, i + 1) if i + 1 < len(plan) else Position(epoch + 1, 0)
            yield collate([examples[j] for j in plan[i]]), after
        epoch, first = epoch + 1, 0


def in_order(examples: Sequence[Example], budget: int) -> Iterator[Batch]:
    """Every example once, shortest first: for measuring, where order does not matter."""
    by_length = sorted(range(len(examples)), key=lambda i: (len(examples[i].target), len(examples[i].source)))
    for batch in cut_batches([length(examples[i]) for i in by_length], budget):
        yield collate([examples[by_length[i]] for i in batch])
