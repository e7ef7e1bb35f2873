"""Batches within a token budget. Independent of tensors."""

from collections.abc import Sequence


def cut_batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Group consecutive examples into batches of at most `budget` tokens, including padding.

    Return the indices of each batch. A batch has at least one example, even if that is too long.
    """
    batches: list[list[int]] = []
    batch: list[int] = []
    longest = 0
    for i, length in enumerate(lengths):
        longest = max(longest, length)
        if batch and longest * (len(batch) + 1) > budget:
            batches.append(batch)
            batch, longest = [], length
        batch.append(i)
    return [*batches, batch] if batch else batches
