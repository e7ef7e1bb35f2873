"""Hypotheses of a search and the length penalties that rank them. Independent of torch."""

from collections.abc import Callable
from dataclasses import dataclass

from transduce.config import DecodeConfig

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
