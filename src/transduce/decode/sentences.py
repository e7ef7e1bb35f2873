"""Sentences that are searched for and the hypotheses that are found, whichever engine does it. Knows nothing of tensors."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from transduce.config import DecodeConfig, ModelConfig
from transduce.data.budget import cut_batches
from transduce.decode.options import How
from transduce.decode.words import Pieces, Wanted

EXTRA_LENGTH = 50  # a translation may be this much longer than its source (section 6.1)
MOST_ROWS = 8192  # pieces of sources in a batch, beams counted
NOT_NUMBERS = (
    "the model's scores are not numbers: its weights are damaged, or its training diverged"
)

Penalty = Callable[[int], float]


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A finished target: its pieces without [EOS], the sum of their log-probabilities with [EOS], and the score it is ranked by."""

    ids: tuple[int, ...]
    log_prob: float
    score: float
    truncated: bool = False  # ended because it reached the maximum length, not because it chose to


def power_penalty(alpha: float) -> Penalty:
    """length^alpha, which every engine has. Alpha 1 is the mean log-probability."""
    return lambda length: float(length**alpha)


def paper_penalty(alpha: float) -> Penalty:
    """((5 + length) / 6)^alpha: Wu et al. 2016, Eq. 14, which section 6.1 uses with alpha 0.6."""
    return lambda length: float(((5 + length) / 6) ** alpha)


class Sentence(NamedTuple):
    """A source to be searched for: its pieces, how its translation begins, the terms it must hold, and its number among all."""

    ids: Pieces
    prefix: Pieces = ()
    terms: tuple[Wanted, ...] = ()
    number: int = 0
    part: int = 0  # of a text that was split


def limit(sentence: Sentence, how: How, model: ModelConfig) -> int:
    """Pieces a translation may have, [EOS] counted: input + 50 (section 6.1), and room for its prefix and terms."""
    n_terms = sum(min(map(len, term.spellings)) for term in sentence.terms)
    most = (how.config.max_length or len(sentence.ids) + EXTRA_LENGTH + n_terms) + 1
    most = max(most, len(sentence.prefix) + 1)
    return min(most, model.max_positions) if model.positions == "learned" else most


def make_penalty(config: DecodeConfig) -> Penalty:
    """The length penalty of the settings."""
    return (
        paper_penalty(config.alpha)
        if config.length_penalty == "paper"
        else power_penalty(config.alpha)
    )


def schedule(
    sentences: Sequence[Sentence], width: int, n_workers: int, most: int
) -> list[list[int]]:
    """Sentences of like length together, at most so many in a batch, as many in each and for each worker; the longest first."""
    order = sorted(range(len(sentences)), key=lambda i: len(sentences[i].ids))
    rounds = math.ceil(len(order) / (n_workers * most)) or 1
    each = math.ceil(len(order) / (n_workers * rounds)) or 1
    parts = [order[i : i + each] for i in range(0, len(order), each)]
    costs = [[(len(sentences[i].ids) + 1) * width for i in part] for part in parts]
    cuts = zip(parts, (cut_batches(cost, MOST_ROWS) for cost in costs), strict=True)
    return [[part[i] for i in cut] for part, batches in cuts for cut in batches][::-1]
