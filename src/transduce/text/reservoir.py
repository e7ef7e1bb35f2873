"""A sample of a stream of unknown length, in bounded memory."""

import random
from typing import Generic, TypeVar

T = TypeVar("T")


class Reservoir(Generic[T]):
    """Keep `size` of the items that are added; every item has the same chance to be kept.

    The choice depends only on how many are added: the random seed is fixed.
    """

    def __init__(self, size: int) -> None:
        self.items: list[T] = []
        self.n_added = 0
        self.rng = random.Random(0)
        self._size = size

    def add(self, item: T) -> None:
        """Add an item; once the reservoir is full, it may replace another one."""
        self.n_added += 1
        if len(self.items) < self._size:
            self.items.append(item)
        elif (place := int(self.rng.random() * self.n_added)) < self._size:
            self.items[place] = item
