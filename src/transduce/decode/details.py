"""Details of a translation: its tokens, their scores, and the word alignment."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from transduce.decode.alignment import Link, align, pharaoh
from transduce.decode.scoring import ScoredTarget
from transduce.decode.translation import Translation
from transduce.text.vocabulary import Vocabulary


class ScoredPart(NamedTuple):
    """A part of a text that was translated, with the scores of its translation."""

    source: Sequence[int]
    target: Sequence[int]
    scored: ScoredTarget  # with attention


def add_details(
    translation: Translation,
    parts: Sequence[ScoredPart | str],
    source_vocabulary: Vocabulary,
    target_vocabulary: Vocabulary,
) -> Translation:
    """Return the translation with `pieces`, `token_scores` and `alignment`.

    A part that is a string was copied. Its words count in the numbering of the alignment, but it
    has no tokens and no scores.
    """
    links: list[Link] = []
    pieces: list[str] = []
    token_scores: list[float] = []
    n_source_words = n_target_words = 0  # of the parts before
    for part in parts:
        if isinstance(part, str):
            n_source_words += len(part.split())
            n_target_words += len(part.split())
            continue
        attention = part.scored.attention
        assert attention is not None, "scored with attention"
        aligned = align(attention, part.source, part.target, (source_vocabulary, target_vocabulary))
        links += [(i + n_source_words, j + n_target_words) for i, j in aligned]
        pieces += [target_vocabulary.token(i) for i in part.target]
        token_scores += part.scored.log_probs
        n_source_words += len(source_vocabulary.decode(part.source).split())
        n_target_words += len(target_vocabulary.decode(part.target).split())
    return replace(
        translation,
        pieces=tuple(pieces),
        token_scores=tuple(token_scores),
        alignment=pharaoh(links),
    )
