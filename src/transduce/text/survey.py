"""One pass over a corpus: its size, a sample to learn a vocabulary from, and a validation set."""

import heapq
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from transduce.text.corpus import Pair
from transduce.text.normalize import Normalization, normalize
from transduce.text.reservoir import Reservoir

SAMPLE_SIZE = 250_000  # pairs, or lines of running text, that a vocabulary is learned from
# If the number of validation pairs is not given: a twentieth of the corpus, at most 1000.
MAX_VALID = 1000
PAIRS_PER_VALID = 20
SPARE_CANDIDATES = 4  # sources kept per validation pair; some have too many translations to fit


@dataclass(frozen=True, slots=True)
class Survey:
    """The size of a corpus, a sample of it, and its validation pairs.

    `n_pairs` counts all pairs that are not blank, validation pairs included. `n_sources` counts the
    different sources among the candidates for validation; None if there were more than were kept.
    """

    n_pairs: int
    n_blank: int
    n_sources: int | None
    sample: Sequence[Pair]
    valid: Sequence[Pair]


def normalize_pairs(pairs: Iterable[Pair], form: Normalization) -> Iterator[Pair]:
    """Yield the pairs with both sides normalized."""
    for pair in pairs:
        source, target = normalize(pair.source, form), normalize(pair.target, form)
        is_unchanged = source is pair.source and target is pair.target
        yield pair if is_unchanged else Pair(source, target)


def survey_pairs(pairs: Iterable[Pair], n_valid: int | None) -> Survey:
    """Read all pairs once and keep a bounded number of them.

    Up to `n_valid` pairs are set aside for validation; None means a twentieth, at most 1000. They
    are those whose sources have the smallest checksums, so the choice is independent of the order
    of the corpus. Pairs with the same source stay together: no source is both in the sample and in
    the validation set.
    """
    max_valid = MAX_VALID if n_valid is None else n_valid
    candidates = ValidationCandidates(SPARE_CANDIDATES * max_valid)
    sample: Reservoir[Pair] = Reservoir(SAMPLE_SIZE)
    n_blank = 0
    for pair in pairs:
        if pair.is_blank:
            n_blank += 1
            continue
        candidates.add(pair)
        sample.add(pair)

    n_pairs = sample.n_added
    if n_valid is None:
        n_valid = max(1, min(MAX_VALID, n_pairs // PAIRS_PER_VALID))
    valid = candidates.choose(n_valid)
    held_out = {pair.source for pair in valid}
    kept = [pair for pair in sample.items if pair.source not in held_out]
    return Survey(n_pairs, n_blank, candidates.n_sources, kept, valid)


class ValidationCandidates:
    """The pairs of the `max_sources` sources with the smallest checksums."""

    def __init__(self, max_sources: int) -> None:
        self._max_sources = max_sources
        self._pairs: dict[str, list[Pair]] = {}
        self._counts: dict[str, int] = {}
        self._largest: list[tuple[int, str]] = []  # heap of (-checksum, source): the largest on top
        self._is_full = False

    @property
    def n_sources(self) -> int | None:
        """Return the number of different sources; None if there were more than could be kept."""
        return None if self._is_full else len(self._counts)

    def add(self, pair: Pair) -> None:
        """Add a pair if its checksum is small enough, dropping the largest if there is no room."""
        if not self._max_sources:
            return
        source = pair.source
        if source in self._counts:
            self._counts[source] += 1
            if len(self._pairs[source]) < self._max_sources:
                self._pairs[source].append(pair)
            return

        entry = -zlib.crc32(source.encode(errors="surrogatepass")), source
        if len(self._counts) < self._max_sources:
            heapq.heappush(self._largest, entry)
        else:
            self._is_full = True
            if entry <= self._largest[0]:
                return
            _, dropped = heapq.heapreplace(self._largest, entry)
            del self._counts[dropped], self._pairs[dropped]
        self._counts[source] = 1
        self._pairs[source] = [pair]

    def choose(self, n: int) -> list[Pair]:
        """Return at most `n` pairs by increasing checksum of their sources.

        A source with more pairs than there is room for is skipped.
        """
        chosen: list[Pair] = []
        for _, source in sorted(self._largest, reverse=True):
            if self._counts[source] <= n - len(chosen):
                chosen += self._pairs[source]
        return chosen
