"""One look at a whole corpus, a pair at a time: how much there is, a sample to learn pieces from, and what to validate on."""

import heapq
import random
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from transduce.text.corpus import Pair
from transduce.text.normalize import Normalization, normalize

SAMPLE = 250_000  # pairs, or lines of running text, that a vocabulary is learnt from
MOST_VALID = 1000  # pairs split off for validation when nobody says how many
SPARE = 4  # candidates kept for each pair to be split off, since some may not fit


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found in a corpus."""

    n_pairs: int  # that can be learnt from, the ones to validate on counted
    n_blank: int
    n_sources: int | None  # different ones among the candidates; None: more than were kept
    sample: Sequence[Pair]
    valid: Sequence[Pair]


def normalize_pairs(pairs: Iterable[Pair], form: Normalization) -> Iterator[Pair]:
    """Pairs in their normal form."""
    for pair in pairs:
        source, target = normalize(pair.source, form), normalize(pair.target, form)
        yield pair if source is pair.source and target is pair.target else Pair(source, target)


def survey_pairs(pairs: Iterable[Pair], n_valid: int | None) -> Survey:
    """Read all pairs once, keeping a bounded number of them.

    Up to `n_valid` pairs (0: none; None: a twentieth, at most 1000) are chosen to validate on: those whose source has the smallest
    checksum, so that the choice does not depend on the order of the corpus. Pairs with one source stay together, so nothing is
    on both sides.
    """
    candidates = ValidationCandidates(SPARE * (MOST_VALID if n_valid is None else n_valid))
    chooser = random.Random(0)
    sample: list[Pair] = []
    n_pairs = n_blank = 0
    for pair in pairs:
        if pair.is_blank:
            n_blank += 1
            continue
        n_pairs += 1
        candidates.add(pair)
        if len(sample) < SAMPLE:
            sample.append(pair)
        elif (
            place := int(chooser.random() * n_pairs)
        ) < SAMPLE:  # a reservoir: every pair has the same chance
            sample[place] = pair
    wanted = max(1, min(MOST_VALID, n_pairs // 20)) if n_valid is None else n_valid
    valid = candidates.choose(wanted)
    held_out = {pair.source for pair in valid}
    kept = [pair for pair in sample if pair.source not in held_out]
    return Survey(n_pairs, n_blank, candidates.n_sources, kept, valid)


class ValidationCandidates:
    """The pairs whose sources have the smallest checksums, so many sources and no more."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._pairs: dict[str, list[Pair]] = {}
        self._counts: dict[str, int] = {}
        self._largest: list[tuple[int, str]] = []  # a heap of negated checksums: the largest on top
        self._is_full = False

    @property
    def n_sources(self) -> int | None:
        """How many different sources were seen; None: more than could be kept."""
        return None if self._is_full else len(self._counts)

    def add(self, pair: Pair) -> None:
        """Look at a pair."""
        if not self._most:
            return
        source = pair.source
        if source in self._counts:
            self._counts[source] += 1
            if len(self._pairs[source]) < self._most:
                self._pairs[source].append(pair)
            return
        checksum = -zlib.crc32(source.encode(errors="surrogatepass"))
        if len(self._counts) == self._most:
            self._is_full = True
            if (checksum, source) <= self._largest[0]:
                return
            _, dropped = heapq.heapreplace(self._largest, (checksum, source))
            del self._counts[dropped], self._pairs[dropped]
        else:
            heapq.heappush(self._largest, (checksum, source))
        self._counts[source], self._pairs[source] = 1, [pair]

    def choose(self, wanted: int) -> list[Pair]:
        """At most so many pairs, by checksum; a source with more pairs than are left to choose is passed over."""
        chosen: list[Pair] = []
        for _, source in sorted(self._largest, reverse=True):
            if self._counts[source] <= wanted - len(chosen):
                chosen += self._pairs[source]
        return chosen
