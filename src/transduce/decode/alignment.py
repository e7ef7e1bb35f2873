"""Word alignment from cross-attention: which source words a target word came from."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from transduce.text.vocabulary import Vocabulary

# Share of a target word's attention that links it to a source word without any other link.
MIN_SHARE = 0.05

Link = tuple[int, int]  # index of the source word, index of the target word, as in `str.split`


def align(
    attention: Float[Tensor, "target source"],
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
    attention: Float[Tensor, "target source"],
    source_words: Sequence[int],
    target_words: Sequence[int],
) -> list[Link]:
    """Return the links of `align`, given the index of the word that each token belongs to."""
    if not source_words or not target_words:
        return []
    n_source, n_target = source_words[-1] + 1, target_words[-1] + 1
    of_tokens = attention[: len(target_words), : len(source_words)].float()
    by_source_word = torch.zeros(len(target_words), n_source).index_add_(
        1, torch.tensor(source_words), of_tokens
    )
    weights = torch.zeros(n_target, n_source)
    weights.index_add_(0, torch.tensor(target_words), by_source_word)
    weights = weights / weights.sum(dim=1, keepdim=True).clamp(min=1e-9)  # target word, source word

    links = {(int(i), j) for j, i in enumerate(weights.argmax(dim=1))}
    linked = {i for i, _ in links}
    best = weights.max(dim=0)
    for i in range(n_source):
        if i not in linked and best.values[i] > MIN_SHARE:
            links.add((i, int(best.indices[i])))
    return sorted(links)


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


def alignment_layer(n_layers: int) -> int:
    """Return the index of the decoder layer whose cross-attention aligns words best.

    That is the last but one, or the last of up to three layers. Garg et al. 2019 found the last
    but one of six; of the two layers of the built-in model it is the last (docs/decisions.md).
    """
    return n_layers - 2 if n_layers > 3 else n_layers - 1
