"""Word alignment from cross-attention: which source words a target word came from.

Independent of torch, like the engines that return attention without it.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from transduce.text.terms import PHRASE_WORD
from transduce.text.vocabulary import Vocabulary

# Share of a target word's attention that links it to a source word without any other link.
MIN_SHARE = 0.05

Attention = Float[np.ndarray, "target source"]  # of the tokens of a pair
Link = tuple[int, int]  # index of the source word, index of the target word, as in `str.split`
Span = tuple[int, int]  # where something begins and ends in a text


def align(
    attention: Attention,
    source: Sequence[int],
    target: Sequence[int],
    vocabularies: tuple[Vocabulary, Vocabulary],
) -> list[Link]:
    """Return the links between the words of two token sequences, sorted.

    Each target word is linked to the source word it attended to most. A source word without a
    link is then linked to the target word that attended to it most, if its share is enough.
    """
    source_vocabulary, target_vocabulary = vocabularies
    return link_words(
        attention,
        word_indices(source, source_vocabulary),
        word_indices(target, target_vocabulary),
    )


def link_words(
    attention: Attention, source_words: Sequence[int], target_words: Sequence[int]
) -> list[Link]:
    """Return the links of `align`, given the index of the word that each token belongs to."""
    if not source_words or not target_words:
        return []
    of_tokens = attention[: len(target_words), : len(source_words)]
    source_share = np.eye(source_words[-1] + 1, dtype=np.float32)[list(source_words)]
    target_share = np.eye(target_words[-1] + 1, dtype=np.float32)[list(target_words)]
    weights = _normalize_rows(target_share.T @ of_tokens @ source_share)

    links = {(int(i), j) for j, i in enumerate(weights.argmax(axis=1))}
    linked = {i for i, _ in links}
    best, where = weights.max(axis=0), weights.argmax(axis=0)
    for i in range(weights.shape[1]):
        if i not in linked and best[i] > MIN_SHARE:
            links.add((i, int(where[i])))
    return sorted(links)


def find_units(text: str) -> list[Span]:
    """Return where the words and punctuation marks of a text are."""
    return [match.span() for match in PHRASE_WORD.finditer(text)]


def unit_weights(
    attention: Attention,
    source_tokens: Sequence[Span],
    target_tokens: Sequence[Span],
    source_units: Sequence[Span],
    target_units: Sequence[Span],
) -> Float[np.ndarray, "target_unit source_unit"]:
    """Return how much of the attention of each target unit went to each source unit.

    The spans of tokens and units are in the same texts. Each row sums to 1, or is zero if the
    target unit attended to no source unit.
    """
    of_tokens = attention[: len(target_tokens), : len(source_tokens)]
    from_tokens = _membership(source_tokens, source_units)
    to_tokens = _membership(target_tokens, target_units)
    return _normalize_rows(to_tokens.T @ of_tokens @ from_tokens)


def word_indices(ids: Sequence[int], vocabulary: Vocabulary) -> list[int]:
    """Return the index of the word that each token belongs to."""
    indices: list[int] = []
    index, is_between_words = -1, True
    for i in ids:
        surface = vocabulary.surface(i)
        has_text = bool(surface.strip())
        if has_text and (is_between_words or surface[:1].isspace()):
            index += 1
        is_between_words = surface[-1:].isspace() or (is_between_words and not has_text)
        indices.append(max(index, 0))
    return indices


def pharaoh(links: Sequence[Link]) -> str:
    """Return links in Pharaoh format, the usual one for alignments: `0-0 1-2`."""
    return " ".join(f"{i}-{j}" for i, j in links)


def _membership(tokens: Sequence[Span], units: Sequence[Span]) -> Float[np.ndarray, "token unit"]:
    """Return the share of each token's characters that is in each unit."""
    shares = np.zeros((len(tokens), len(units)), dtype=np.float32)
    first = 0  # units that end before the token are passed over
    for row, (start, end) in enumerate(tokens):
        while first < len(units) and units[first][1] <= start:
            first += 1
        for column in range(first, len(units)):
            overlap = min(end, units[column][1]) - max(start, units[column][0])
            if overlap <= 0:
                break
            shares[row, column] = overlap
    return _normalize_rows(shares)


def _normalize_rows(weights: Float[np.ndarray, "row column"]) -> Float[np.ndarray, "row column"]:
    total: np.ndarray = weights.sum(axis=1, keepdims=True)
    normalized: np.ndarray = weights / np.maximum(total, 1e-9)
    return normalized
