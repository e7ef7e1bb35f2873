"""Find duplicates in a corpus, and pairs it shares with held-out sets.

Texts are compared by 64-bit fingerprints, in bounded memory.
"""

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

INITIAL_SLOTS = 1 << 12
MAX_SLOTS = 1 << 24  # 134 MB
EXTRA_SLOTS = 1024  # after the last slot that a number can hash to
COPY_BLOCK = 1 << 16  # numbers moved at once when the table grows
MAX_LOAD = 0.75  # share of used slots
EXACT_BITS = 20  # of a pair's fingerprint; the other 44 bits are of its near key
HASH_STEP = 0x9E3779B97F4A7C15  # spreads numbers derived from one fingerprint (2^64 / golden ratio)
MAX_OTHER_TARGETS = 4  # different translations of a source before a further one is reported
MAX_HELD_OUT = 500_000  # pairs of a held-out set

Note = tuple[Fault, str]  # a fault of a pair, and a short explanation


class Fingerprints:
    """A set of 64-bit numbers in one array of 8-byte slots.

    A number takes 11 to 21 bytes, so that a corpus of ten million pairs stays within the memory
    bound of docs/data.md. The array grows to at most
    `max_slots` slots. After that, nothing is added and `is_full` is true.

    The table uses open addressing with linear probing. The leading bits of a number select its
    slot; the lookup continues to the right until it finds the number or a free slot (0).
    """

    def __init__(self, max_slots: int | None = None) -> None:
        self.max_slots = max_slots or MAX_SLOTS
        self.n = 0
        self.is_full = False
        self._allocate(min(INITIAL_SLOTS, self.max_slots))

    @property
    def n_bytes(self) -> int:
        """Return the size of the array in bytes."""
        return int(self._slots.nbytes)

    def add(self, number: int, ignored_bits: int = 0) -> int | None:
        """Return the equal number in the set; if there is none, add this one and return None.

        Numbers are equal if they differ in the last `ignored_bits` bits only.
        """
        number = number or 1  # 0 marks a free slot
        slots = self._slots_view
        slot = number >> self._shift
        prefix = number >> ignored_bits
        while found := slots[slot]:
            if found >> ignored_bits == prefix:
                return found
            slot += 1

        if not self.is_full:
            slots[slot] = number
            self.n += 1
            # The last slot stays free: it ends every lookup.
            if self.n > MAX_LOAD * self._n_slots or slot == len(slots) - 2:
                self._grow()
        return None

    def _allocate(self, n_slots: int) -> None:
        self._n_slots = n_slots
        self._shift = 64 - (n_slots - 1).bit_length()
        self._slots: NDArray[np.uint64] = np.zeros(n_slots + EXTRA_SLOTS, dtype=np.uint64)
        self._slots_view = self._slots.data  # indexing a memoryview is faster

    def _grow(self) -> None:
        if self._n_slots * 2 > self.max_slots:
            self.is_full = True
            return
        numbers = self._slots[self._slots != 0]
        numbers.sort()
        del self._slots_view, self._slots  # free the memory before allocating more
        self._allocate(self._n_slots * 2)

        # Sorted numbers also have sorted slots. Each goes to its own slot, or if that is taken, to
        # the slot after its predecessor.
        next_free = 0
        for start in range(0, len(numbers), COPY_BLOCK):
            block = numbers[start : start + COPY_BLOCK]
            order = np.arange(len(block))
            own_slots = (block >> np.uint64(self._shift)).astype(np.int64)
            places = np.maximum.accumulate(np.maximum(own_slots - order, next_free)) + order
            self._slots[places] = block
            next_free = int(places[-1]) + 1


class DuplicateDetector:
    """Find pairs that repeat an earlier pair of the corpus."""

    def __init__(self) -> None:
        self._pairs = Fingerprints()
        self._sources = Fingerprints()

    @property
    def remarks(self) -> list[str]:
        """Return a remark if there was no room for all pairs."""
        if not (self._pairs.is_full or self._sources.is_full):
            return []
        return [f"duplicates: only the first {self._pairs.n:,} distinct pairs were compared"]

    def notes(self, pair: Pair, keys: tuple[int, int]) -> list[Note]:
        """Return the fault of a pair that is a duplicate, or whose source occurred before.

        `keys` are those of `near_fingerprints`.
        """
        pair_key, source_key = keys
        exact_key = fingerprint(f"{pair.source}\t{pair.target}")

        # The first pair with a near key is stored as 44 bits of that key and 20 bits of the exact
        # fingerprint; further pairs with the same near key are stored by the exact fingerprint.
        exact_part = exact_key & ((1 << EXACT_BITS) - 1)
        near_part = (pair_key >> EXACT_BITS) << EXACT_BITS
        stored = near_part | exact_part
        found = self._pairs.add(stored, ignored_bits=EXACT_BITS)
        if found is not None:
            is_exact = found == stored or self._pairs.add(exact_key) is not None
            return [(DUPLICATE if is_exact else NEAR_DUPLICATE, "")]

        # The n-th translation of a source is stored as a number made of its fingerprint and n.
        n_others = 0
        while n_others < MAX_OTHER_TARGETS:
            numbered_source = (source_key + n_others * HASH_STEP) % (1 << 64)
            if not self._sources.add(numbered_source):
                return []
            n_others += 1
        return [(MANY_TARGETS, f"{MAX_OTHER_TARGETS} other translations or more")]


class HeldOutIndex:
    """The pairs and sources of a held-out set, with their line numbers, by near key."""

    def __init__(self, pairs: PairSource) -> None:
        self.name = pairs.sources[0].name if isinstance(pairs, PairFiles) else pairs.name
        self._pairs: dict[int, int] = {}
        self._sources: dict[int, int] = {}
        read = pairs.read("replace")
        for line, pair in enumerate(islice(read, MAX_HELD_OUT), start=1):
            if not pair.is_blank:
                pair_key, source_key = near_fingerprints(pair)
                self._pairs.setdefault(pair_key, line)
                self._sources.setdefault(source_key, line)

        self.remarks: list[str] = []
        if next(read, None) is not None:
            self.remarks.append(f"{self.name}: only the first {MAX_HELD_OUT:,} pairs were compared")

    def note(self, keys: tuple[int, int]) -> Note | None:
        """Return where the set has the pair with these keys, or its source."""
        pair_key, source_key = keys
        if (line := self._pairs.get(pair_key)) is not None:
            return LEAKED, f"line {line} of {self.name}"
        if (line := self._sources.get(source_key)) is not None:
            return LEAKED_SOURCE, f"line {line} of {self.name}"
        return None


def near_fingerprints(pair: Pair) -> tuple[int, int]:
    """Return the fingerprints of the near keys of a pair and of its source."""
    source = near_key(pair.source)
    return fingerprint(f"{source}\t{near_key(pair.target)}"), fingerprint(source)


def near_key(text: str) -> str:
    """Return a text without case, digits, punctuation and spaces; the text if nothing is left."""
    return text.casefold().translate(_LETTERS) or text.strip()


def fingerprint(text: str) -> int:
    """Return a 64-bit hash of a text, the same on every machine."""
    digest = blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


class _LetterTable(dict[int, int | None]):
    """A table for `str.translate` that keeps letters and their marks; filled on demand."""

    def __missing__(self, code: int) -> int | None:
        is_letter = unicodedata.category(chr(code))[0] in "LM"
        self[code] = code if is_letter else None
        return self[code]


_LETTERS = _LetterTable()
