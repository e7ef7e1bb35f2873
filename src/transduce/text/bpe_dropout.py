"""BPE-dropout: words cut into pieces in another way each time (Provilkov et al. 2020).

Merging goes as always, the best merge first, but at every step each possible merge is left out with probability `dropout`; a word
is done when none is left. SentencePiece has this too, but what it draws differs from process to process whatever the seed
(docs/decisions.md), and a training that is taken up again must see the same pieces.
"""

import re
from random import Random

from transduce.text.vocabulary import SPACE, Vocabulary

WORD = re.compile(f"{SPACE}?[^{SPACE}]+|{SPACE}")
MOST_REMEMBERED, LONGEST_REMEMBERED = (
    200_000,
    30,
)  # words; characters, where a language has no spaces between words

Symbols = tuple[str, ...]


class BpeDropout:
    """The merges of a BPE vocabulary, some of them left out at random."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._ranks = vocabulary.merge_ranks()
        self._paths: dict[str, list[Symbols]] = {}

    def encode(self, text: str, dropout: float, random: Random) -> list[int]:
        """The ids of a text. A text that holds U+2581 itself is cut as always."""
        if SPACE in text:
            return self._vocabulary.encode(text)
        ids: list[int] = []
        for word in WORD.findall(SPACE + text.replace(" ", SPACE)) if text else ():
            for symbol in self._cut(word, dropout, random):
                ids += self._vocabulary.encode_piece(symbol)
        return ids

    def _cut(self, word: str, dropout: float, random: Random) -> Symbols:
        path = self._paths.get(word)
        if path is None:
            path = self._path(word)
            if len(word) <= LONGEST_REMEMBERED and len(self._paths) < MOST_REMEMBERED:
                self._paths[word] = path
        # As long as the best merge is not left out, the word takes the path it always takes.
        for symbols in path[:-1]:
            if random.random() < dropout:
                return self._leave_path(symbols, dropout, random)
        return path[-1]

    def _path(self, word: str) -> list[Symbols]:
        """A word from its characters to its pieces, merge by merge, when nothing is left out."""
        path = [tuple(word)]
        while merges := self._merges(path[-1]):
            path.append(merge(path[-1], merges[0][1]))
        return path

    def _leave_path(self, symbols: Symbols, dropout: float, random: Random) -> Symbols:
        """Go on from where the best merge was left out."""
        merges = self._merges(symbols)[1:]
        while True:
            place = next((place for _, place in merges if random.random() >= dropout), None)
            if place is None:
                return symbols
            symbols = merge(symbols, place)
            merges = self._merges(symbols)

    def _merges(self, symbols: Symbols) -> list[tuple[int, int]]:
        """The possible merges as (rank, place), best first."""
        ranks = self._ranks
        found = [
            (ranks[together], i)
            for i in range(len(symbols) - 1)
            if (together := symbols[i] + symbols[i + 1]) in ranks
        ]
        return sorted(found)


def merge(symbols: Symbols, place: int) -> Symbols:
    """Symbols with the one at a place and the one after it made one."""
    return (*symbols[:place], symbols[place] + symbols[place + 1], *symbols[place + 2 :])
