"""A budget of pieces for each batch. Knows nothing of tensors."""

from collections.abc import Sequence


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
