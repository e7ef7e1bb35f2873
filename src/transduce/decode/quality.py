"""What is doubtful about a translation, told from the translation alone: no reference is needed."""

import math
from collections.abc import Sequence

from transduce.text.terms import PHRASE_WORD

LOWEST = math.log(0.2)  # the mean log-probability of a piece, below which a translation is a guess
MOST_RATIO, SLACK = (
    3,
    10,
)  # pieces: longer than three times the other side and ten more is far too long
LONGEST_LOOP = 12  # pieces that are repeated on end
FEWEST_TIMES, FEWEST_PIECES = 4, 8  # so often, and so much in all, is a loop
FEWEST_REPEATED = 6  # pieces that have stood before, at least, in any loop: two pieces four times


def is_unsure(log_prob: float, n_pieces: int) -> bool:
    """Whether the model gave its own words little probability."""
    return log_prob / max(1, n_pieces) < LOWEST


def wrong_length(source: Sequence[int], target: Sequence[int]) -> str | None:
    """`too_short` or `too_long`, if it is far from the length of its source."""
    if len(source) > MOST_RATIO * len(target) + SLACK or (source and not target):
        return "too_short"
    return "too_long" if len(target) > MOST_RATIO * len(source) + SLACK else None


def has_repetition(ids: Sequence[int]) -> bool:
    """Whether the same few pieces are repeated on end."""
    if len(ids) - len(set(ids)) < FEWEST_REPEATED:
        return False
    for period in range(1, LONGEST_LOOP + 1):
        run = 0
        for i in range(period, len(ids)):
            run = run + 1 if ids[i] == ids[i - period] else 0
            if run + period >= max(FEWEST_TIMES * period, FEWEST_PIECES):
                return True
    return False


def is_copy(source: str, text: str) -> bool:
    """Whether the source was written down instead of being translated; a single word may be a name."""
    source, text = source.casefold(), text.casefold()
    first, written = PHRASE_WORD.search(source), PHRASE_WORD.search(text)
    if first is None or written is None or first[0] != written[0]:  # nearly always
        return False
    words = PHRASE_WORD.findall(source)
    return words == PHRASE_WORD.findall(text) and sum(word.isalpha() for word in words) > 1
