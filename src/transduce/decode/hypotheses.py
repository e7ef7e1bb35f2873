"""Hypotheses of a search, when a search ends, and what ranks them. Independent of torch.

The stop rule of all engines: beam search for a sentence ends when ENDS_PER_BEAM times the beam
hypotheses have ended, greedy search with its first. If the best hypothesis is then less likely
than MIN_CERTAINTY a token, greedy search is run too, and its hypothesis is ranked with the others.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from transduce.config import DecodeConfig
from transduce.decode.alignment import Attention

ENDS_PER_BEAM = 2
MIN_CERTAINTY = -0.5  # mean log-probability of a token

NAN_SCORES = (
    "the model's scores are NaN (damaged weights, or a training that diverged); "
    "use another checkpoint"
)

# From the length in tokens, [EOS] included, to the divisor of the log-probability.
Penalty = Callable[[int], float]


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A finished target sequence."""

    ids: tuple[int, ...]  # without [EOS]
    log_prob: float  # sum over all tokens, [EOS] included
    score: float  # log_prob after the length penalty: hypotheses are ranked by it
    truncated: bool = False  # ended by the maximum length, not by the model's own [EOS]
    # Cross-attention of the alignment layer, a row for each id and a column for each source token,
    # perhaps with one more for [EOS]; only if it was requested.
    attention: Attention | None = field(default=None, compare=False)


def ends_needed(width: int) -> int:
    """Return after how many ended hypotheses the search for a sentence ends."""
    return 1 if width == 1 else ENDS_PER_BEAM * width


def needs_greedy(hypotheses: Sequence[Hypothesis]) -> bool:
    """Return whether beam search may have pruned a better hypothesis, so that greedy is run too."""
    if not hypotheses:
        return False
    best = hypotheses[0]
    return best.log_prob < MIN_CERTAINTY * (len(best.ids) + 1)


def add_hypothesis(hypotheses: Sequence[Hypothesis], other: Hypothesis, n: int) -> list[Hypothesis]:
    """Return the n best, at most, of ranked hypotheses and another one."""
    if any(each.ids == other.ids for each in hypotheses):
        return list(hypotheses)[:n]
    ranked = sorted((*hypotheses, other), key=lambda hypothesis: -hypothesis.score)
    return ranked[:n]


def power_penalty(alpha: float) -> Penalty:
    """Return the penalty length^alpha. Alpha 1 gives the mean log-probability."""
    return lambda length: float(length**alpha)


def paper_penalty(alpha: float) -> Penalty:
    """Return the penalty ((5 + length) / 6)^alpha: Wu et al. 2016, Eq. 14.

    Section 6.1 uses it with alpha 0.6.
    """
    return lambda length: float(((5 + length) / 6) ** alpha)


def make_penalty(config: DecodeConfig) -> Penalty:
    """Return the length penalty that the settings select."""
    if config.length_penalty == "paper":
        return paper_penalty(config.alpha)
    return power_penalty(config.alpha)
