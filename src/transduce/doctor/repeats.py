"""What a corpus says more than once, and what it shares with held-out sets: by 64-bit fingerprints, in bounded memory."""

import unicodedata
from hashlib import blake2b
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from transduce.doctor.faults import (
    DUPLICATE,
    LEAKED,
    LEAKED_SOURCE,
    MANY_TARGETS,
    NEAR_DUPLICATE,
    Fault,
)
from transduce.text.corpus import Pair, PairFiles, PairSource

FIRST_SLOTS = 1 << 12
MOST_SLOTS = 1 << 24  # 134 MB
OVERHANG = 1024  # slots behind the last that a number can name
BLOCK = 1 << 16  # numbers that are moved at once
FULLEST = 0.75  # share of the slots that are taken, at most
EXACT_BITS = 20  # of a pair's fingerprint that tell it from its near duplicates; the other 44 are of its near key
SPREAD = 0x9E3779B97F4A7C15  # so that numbers made of one fingerprint lie far from each other
MANY = 4  # other translations of a source; one more is one too many
MOST_HELD_OUT = 500_000  # pairs of a held-out set

Note = tuple[Fault, str]


class Fingerprints:
    """A set of 64-bit numbers in one array: eight bytes a slot, at most `most_slots` of them, whatever is added.

    Open addressing: a number lies in the slot its first bits name, or in the next free one. When it is full and may not grow,
    nothing more is added and `is_full` is true.
    """

    def __init__(self, most_slots: int | None = None) -> None:
        self.most_slots = most_slots or MOST_SLOTS
        self.n = 0
        self.is_full = False
        self._room_for(min(FIRST_SLOTS, self.most_slots))

    @property
    def n_bytes(self) -> int:
        """Memory of the array."""
        return int(self._slots.nbytes)

    def add(self, number: int, ignored_bits: int = 0) -> int | None:
        """The number that was there and is the same but for the last bits; or else None, and this one is there now."""
        number = number or 1  # zero is a free slot
        view, slot, wanted = self._view, number >> self._shift, number >> ignored_bits
        while found := view[slot]:
            if found >> ignored_bits == wanted:
                return found
            slot += 1
        if not self.is_full:
            view[slot] = number
            self.n += 1
            # The last slot stays free: it ends every search.
            if self.n > FULLEST * self._n_slots or slot == len(view) - 2:
                self._grow()
        return None

    def _room_for(self, n_slots: int) -> None:
        self._n_slots = n_slots
        self._shift = 64 - (n_slots - 1).bit_length()
        self._slots: NDArray[np.uint64] = np.zeros(n_slots + OVERHANG, dtype=np.uint64)
        self._view = self._slots.data  # a third of the time of indexing the array

    def _grow(self) -> None:
        if self._n_slots * 2 > self.most_slots:
            self.is_full = True
            return
        numbers = self._slots[self._slots != 0]
        numbers.sort()
        del self._view, self._slots  # before there is a larger one
        self._room_for(self._n_slots * 2)
        next_free = 0
        for start in range(0, len(numbers), BLOCK):
            block = numbers[start : start + BLOCK]
            order = np.arange(len(block))
            # In order of their first bits: each into its own slot, or behind the one before it.
            behind = (block >> np.uint64(self._shift)).astype(np.int64) - order
            places = np.maximum.accumulate(np.maximum(behind, next_free)) + order
            self._slots[places] = block
            next_free = int(places[-1]) + 1


class Repeats:
    """Remembers the pairs it was shown."""

    def __init__(self) -> None:
        self._pairs = Fingerprints()
        self._sources = Fingerprints()

    @property
    def remarks(self) -> list[str]:
        """How many different pairs there was room for, if not for all."""
        if not (self._pairs.is_full or self._sources.is_full):
            return []
        return [
            f"repetitions: only the first {self._pairs.n:,} different pairs were remembered and compared"
        ]

    def notes(self, pair: Pair, keys: tuple[int, int]) -> list[Note]:
        """What was there before: this pair, nearly this pair, or its source with many other translations."""
        pair_key, source_key = keys
        exact_key = fingerprint(f"{pair.source}\t{pair.target}")
        # The first pair of a near key is remembered by 44 bits of that key and 20 of itself, the others by themselves.
        first = pair_key >> EXACT_BITS << EXACT_BITS | exact_key & ((1 << EXACT_BITS) - 1)
        found = self._pairs.add(first, EXACT_BITS)
        if found is not None:
            is_known = found == first or self._pairs.add(exact_key) is not None
            return [(DUPLICATE if is_known else NEAR_DUPLICATE, "")]
        # The n-th translation of a source is remembered as the source's fingerprint and n.
        n_others = 0
        while n_others < MANY and self._sources.add((source_key + n_others * SPREAD) % (1 << 64)):
            n_others += 1
        return [(MANY_TARGETS, f"{MANY} other translations or more")] if n_others == MANY else []


class HeldOut:
    """A set that training must not have seen: its pairs and sources by their near keys, with their lines."""

    def __init__(self, pairs: PairSource) -> None:
        self.name = pairs.sources[0].name if isinstance(pairs, PairFiles) else pairs.name
        self._pairs: dict[int, int] = {}
        self._sources: dict[int, int] = {}
        read = pairs.read("replace")
        for line, pair in enumerate(islice(read, MOST_HELD_OUT), start=1):
            if not pair.is_blank:
                pair_key, source_key = keys_of(pair)
                self._pairs.setdefault(pair_key, line)
                self._sources.setdefault(source_key, line)
        is_cut = next(read, None) is not None
        self.remarks = (
            [f"{self.name}: only the first {MOST_HELD_OUT:,} pairs were compared"] if is_cut else []
        )

    def note(self, keys: tuple[int, int]) -> Note | None:
        """Where the set has this pair, or its source."""
        if (line := self._pairs.get(keys[0])) is not None:
            return LEAKED, f"line {line} of {self.name}"
        if (line := self._sources.get(keys[1])) is not None:
            return LEAKED_SOURCE, f"line {line} of {self.name}"
        return None


def keys_of(pair: Pair) -> tuple[int, int]:
    """Fingerprints of the pair's and of its source's near key."""
    source = near_key(pair.source)
    return fingerprint(f"{source}\t{near_key(pair.target)}"), fingerprint(source)


def near_key(text: str) -> str:
    """A text without case, digits, punctuation and space; what has nothing else stays as it is."""
    return text.casefold().translate(_LETTERS) or text.strip()


def fingerprint(text: str) -> int:
    """64 bits of a text, the same on every machine."""
    return int.from_bytes(
        blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "big"
    )


class _Letters(dict[int, int | None]):
    """For str.translate: letters and their marks stay, all else goes. Filled as characters come."""

    def __missing__(self, code: int) -> int | None:
        self[code] = code if unicodedata.category(chr(code))[0] in "LM" else None
        return self[code]


_LETTERS = _Letters()
