"""Which source words a target word came from, read off the cross-attention."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from transduce.text.vocabulary import Vocabulary

WEAKEST = (
    0.05  # share of a target word's attention that links a source word nobody else is linked to
)

Link = tuple[int, int]  # word of the source, word of the target, from 0, as `str.split` counts them


def align(
    attention: Float[Tensor, "target source"],
    source: Sequence[int],
    target: Sequence[int],
    vocabularies: Sequence[Vocabulary],
) -> list[Link]:
    """The links between the words of a pair of pieces: each target word to the source word it attended to most, and a source
    word that nobody chose to the target word that attended to it most, if that did so at all."""
    from_words, to_words = (
        word_indices(ids, v) for ids, v in zip((source, target), vocabularies, strict=True)
    )
    return link_words(attention, from_words, to_words)


def link_words(
    attention: Float[Tensor, "target source"], from_words: Sequence[int], to_words: Sequence[int]
) -> list[Link]:
    """The same, given the number of the word that each piece belongs to."""
    if not from_words or not to_words:
        return []
    weights = torch.zeros(to_words[-1] + 1, from_words[-1] + 1)
    rows = torch.zeros(len(to_words), from_words[-1] + 1).index_add_(
        1, torch.tensor(from_words), attention[: len(to_words), : len(from_words)].float()
    )
    weights.index_add_(0, torch.tensor(to_words), rows)
    weights = weights / weights.sum(dim=1, keepdim=True).clamp(min=1e-9)
    links = {(int(i), j) for j, i in enumerate(weights.argmax(dim=1))}
    linked = {i for i, _ in links}
    best = weights.max(dim=0)
    links |= {
        (i, int(best.indices[i]))
        for i in range(weights.shape[1])
        if i not in linked and best.values[i] > WEAKEST
    }
    return sorted(links)


def word_indices(ids: Sequence[int], vocabulary: Vocabulary) -> list[int]:
    """The number of the word that each piece belongs to."""
    numbers: list[int] = []
    number, is_between = -1, True
    for i in ids:
        surface = vocabulary.surface(i)
        if is_between or surface[:1].isspace():
            number += bool(surface.strip())
        is_between = surface[-1:].isspace() or (is_between and not surface.strip())
        numbers.append(max(number, 0))
    return numbers


def pharaoh(links: Sequence[Link]) -> str:
    """`0-0 1-2`: the form that alignments are exchanged in."""
    return " ".join(f"{i}-{j}" for i, j in links)


def alignment_layer(n_layers: int) -> int:
    """Return the index of the decoder layer whose cross-attention aligns words best.

    That is the last but one, or the last of up to three layers. Garg et al. 2019 found the last
    but one of six; of the two layers of the built-in model it is the last (docs/decisions.md).
    """
    return n_layers - 2 if n_layers > 3 else n_layers - 1
