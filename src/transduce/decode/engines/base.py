"""What the search engines share: their input, its length limit and its batches."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from transduce.config import ModelConfig
from transduce.data.budget import cut_batches
from transduce.decode.options import TranslateOptions
from transduce.decode.words import Pieces, RequiredTerm

EXTRA_LENGTH = 50  # a translation may have this many tokens more than its source (section 6.1)
MOST_ROWS = 8192  # source tokens in a batch, times the beam


class SearchInput(NamedTuple):
    """A source sentence to translate."""

    ids: Pieces
    prefix: Pieces = ()  # the translation begins with these tokens
    terms: tuple[RequiredTerm, ...] = ()  # the translation contains these terms
    number: int = 0  # of its text, for sampling: draws depend on it
    part: int = 0  # of that text, if it was split


def limit(sentence: SearchInput, options: TranslateOptions, model: ModelConfig) -> int:
    """Return the maximum length of a translation in tokens, [EOS] included.

    It is source length + 50 (section 6.1) or the setting, with room for the prefix and the terms.
    """
    n_terms = sum(min(map(len, term.spellings)) for term in sentence.terms)
    most = (options.config.max_length or len(sentence.ids) + EXTRA_LENGTH + n_terms) + 1
    most = max(most, len(sentence.prefix) + 1)
    return min(most, model.max_positions) if model.positions == "learned" else most


def schedule(
    sentences: Sequence[SearchInput], width: int, n_workers: int, most: int
) -> list[list[int]]:
    """Cut sentences into batches of similar length, the longest first, and return their indices.

    A batch has at most `most` sentences; the batches are of equal size and as many for each worker.
    """
    order = sorted(range(len(sentences)), key=lambda i: len(sentences[i].ids))
    rounds = math.ceil(len(order) / (n_workers * most)) or 1
    each = math.ceil(len(order) / (n_workers * rounds)) or 1
    parts = [order[i : i + each] for i in range(0, len(order), each)]
    costs = [[(len(sentences[i].ids) + 1) * width for i in part] for part in parts]
    cuts = zip(parts, (cut_batches(cost, MOST_ROWS) for cost in costs), strict=True)
    return [[part[i] for i in cut] for part, batches in cuts for cut in batches][::-1]
