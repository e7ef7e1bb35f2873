"""Mix pairs of a second corpus into a training corpus, so that a fine-tuned model forgets less."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import cycle

from transduce.text.corpus import Pair
from transduce.text.reservoir import Reservoir

# How many pairs of the second corpus are used: for each own pair, at least, and at most.
PER_OWN_PAIR, MIN_MIXED, MAX_MIXED = 10, 20_000, 200_000


@dataclass(frozen=True)
class Mixture:
    """Pairs of a second corpus, of which one follows each own pair.

    The own pairs are read `n_times`, so that all of the others get their turn.
    """

    others: tuple[Pair, ...] = ()
    n_times: int = 1

    def mix_into(self, own: Iterable[Pair]) -> Iterator[Pair]:
        """Yield the own pairs, each followed by one of the others; without others, only the own."""
        if not self.others:
            yield from own
            return
        others = cycle(self.others)
        kept = []
        for pair in own:
            yield pair
            yield next(others)
            if self.n_times > 1:
                kept.append(pair)
        for _ in range(self.n_times - 1):
            for pair in kept:
                yield pair
                yield next(others)


def choose_mixture(others: Iterable[Pair], n_own: int, held_out: Collection[str]) -> Mixture:
    """Sample the pairs to mix into `n_own` pairs; none with a source that is held out, or blank.

    Every pair has the same chance, and the choice depends on the pairs only.
    """
    size = min(MAX_MIXED, max(MIN_MIXED, PER_OWN_PAIR * n_own))
    sample: Reservoir[Pair] = Reservoir(size)
    for pair in others:
        if not pair.is_blank and pair.source not in held_out:
            sample.add(pair)
    sample.rng.shuffle(sample.items)
    return Mixture(tuple(sample.items), n_times=max(1, round(len(sample.items) / n_own)))
