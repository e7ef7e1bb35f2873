"""BPE-dropout: a different segmentation of words at each encoding (Provilkov et al. 2020).

Merging works as usual, best merge first, but at every step each possible merge is dropped with
probability `dropout`. A word is finished when no merge remains.

SentencePiece has BPE-dropout too, but its random numbers differ from process to process whatever
the seed, and a resumed training must see the same tokens (docs/decisions.md).
"""

import re
from random import Random

from transduce.text.vocabulary import SPACE, Vocabulary

SPACED_WORD = re.compile(f"{SPACE}?[^{SPACE}]+|{SPACE}")
MAX_CACHED_WORDS = 200_000
MAX_CACHED_LENGTH = 30  # characters; languages without spaces have "words" as long as sentences

Symbols = tuple[str, ...]


class BpeDropout:
    """An encoder for a BPE vocabulary that drops merges at random."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._ranks = vocabulary.merge_ranks()
        self._paths: dict[str, list[Symbols]] = {}

    def encode(self, text: str, dropout: float, random: Random) -> list[int]:
        """Return the ids of a text. A text that contains U+2581 is encoded without dropout."""
        if SPACE in text:
            return self._vocabulary.encode(text)
        if not text:
            return []
        ids: list[int] = []
        for word in SPACED_WORD.findall(SPACE + text.replace(" ", SPACE)):
            for symbol in self._segment(word, dropout, random):
                ids += self._vocabulary.encode_piece(symbol)
        return ids

    def _segment(self, word: str, dropout: float, random: Random) -> Symbols:
        path = self._paths.get(word)
        if path is None:
            path = self._merge_path(word)
            if len(word) <= MAX_CACHED_LENGTH and len(self._paths) < MAX_CACHED_WORDS:
                self._paths[word] = path
        # As long as the best merge is not dropped, the word follows its usual path.
        for symbols in path[:-1]:
            if random.random() < dropout:
                return self._leave_path(symbols, dropout, random)
        return path[-1]

    def _merge_path(self, word: str) -> list[Symbols]:
        """Return the states of a word, from characters to final symbols, without dropout."""
        path = [tuple(word)]
        while merges := self._possible_merges(path[-1]):
            _, best_place = merges[0]
            path.append(merge(path[-1], best_place))
        return path

    def _leave_path(self, symbols: Symbols, dropout: float, random: Random) -> Symbols:
        """Continue merging from a state in which the best merge was dropped."""
        merges = self._possible_merges(symbols)[1:]
        while True:
            place = next((place for _, place in merges if random.random() >= dropout), None)
            if place is None:
                return symbols
            symbols = merge(symbols, place)
            merges = self._possible_merges(symbols)

    def _possible_merges(self, symbols: Symbols) -> list[tuple[int, int]]:
        """Return the possible merges as (rank, place), best first."""
        ranks = self._ranks
        found = [
            (ranks[merged], i)
            for i in range(len(symbols) - 1)
            if (merged := symbols[i] + symbols[i + 1]) in ranks
        ]
        return sorted(found)


def merge(symbols: Symbols, place: int) -> Symbols:
    """Join the symbols at `place` and `place + 1`."""
    joined = symbols[place] + symbols[place + 1]
    return (*symbols[:place], joined, *symbols[place + 2 :])
