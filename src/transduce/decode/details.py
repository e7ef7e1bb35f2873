"""Details of a translation: its tokens, their scores, and the word alignment."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace

from transduce.decode.alignment import Link, align, pharaoh
from transduce.decode.composition import ComposedPart, gaps_of
from transduce.decode.scoring import ScoredTarget
from transduce.decode.translation import Translation
from transduce.decode.words import Ids
from transduce.text.edits import EditedText
from transduce.text.vocabulary import Vocabulary

ScoredPairs = Mapping[tuple[Ids, Ids], ScoredTarget]  # by source and target, with attention


def add_details(
    translation: Translation,
    parts: Sequence[ComposedPart],
    scored: ScoredPairs,
    vocabularies: tuple[Vocabulary, Vocabulary],
) -> Translation:
    """Return the translation with `pieces`, `token_scores` and `alignment`.

    Tokens and scores are those of the model's output: what was put back later has none. The
    alignment links the words of the source and of the translation. A copied part has no tokens, but
    its words count in the alignment.
    """
    links: list[Link] = []
    pieces: list[str] = []
    token_scores: list[float] = []
    n_source_words = n_target_words = 0  # of the parts before
    for part, target_gap in zip(parts, gaps_of(parts), strict=True):
        if part.reading is not None and part.hypothesis is not None and part.target is not None:
            source, target = part.reading.search_input.ids, part.hypothesis.ids
            of_pair = scored[source, target]
            assert of_pair.attention is not None, "scored with attention"
            aligned = align(of_pair.attention, source, target, vocabularies)
            if not part.reading.is_plain:
                aligned = _original_links(aligned, part)
            links += [(i + n_source_words, j + n_target_words) for i, j in aligned]
            pieces += [vocabularies[1].token(i) for i in target]
            token_scores += of_pair.log_probs
        n_source_words += _n_complete_words(part.part.text, part.part.gap)
        n_target_words += _n_complete_words(part.text, target_gap)
    return replace(
        translation,
        pieces=tuple(pieces),
        token_scores=tuple(token_scores),
        alignment=pharaoh(links),
    )


def _n_complete_words(text: str, gap: str) -> int:
    """Return how many words of a part have ended: without a gap the last one goes on."""
    n_words = len(text.split())
    return n_words if gap or not n_words else n_words - 1


def score_details(
    source: str,
    target: str,
    ids: tuple[Ids, Ids],
    scored: ScoredTarget,
    score: float,
    vocabularies: tuple[Vocabulary, Vocabulary],
) -> Translation:
    """Return a given translation with its score and details."""
    assert scored.attention is not None, "scored with attention"
    return Translation(
        source=source,
        text=target,
        score=score,
        pieces=tuple(vocabularies[1].token(i) for i in ids[1]),
        token_scores=scored.log_probs,
        alignment=pharaoh(align(scored.attention, ids[0], ids[1], vocabularies)),
    )


def _original_links(links: Sequence[Link], part: ComposedPart) -> list[Link]:
    """Return links between what the model read and wrote as links of the sentence and the text.

    What was removed and put back is linked too.
    """
    assert part.reading is not None, "a translated part"
    assert part.target is not None, "a translated part"
    source, target = part.reading.source, part.target
    from_read = _to_original_words(source)
    to_text = _to_edited_words(target)
    found = {(from_read[i], to_text[j]) for i, j in links if i in from_read and j in to_text}
    source_starts, target_starts = _word_starts(source.original), _word_starts(target.text)
    place = 0
    for protected in part.reading.protected:
        place = target.text.find(protected.text, place)
        if place < 0:
            break
        found.add((_word_at(source_starts, protected.start), _word_at(target_starts, place)))
    return sorted(found)


def _to_original_words(edited: EditedText) -> dict[int, int]:
    """Return for each word of an edited text the word of the original that it came from."""
    starts = _word_starts(edited.original)
    return {
        number: _word_at(starts, edited.to_original(start))
        for number, start in enumerate(_word_starts(edited.text))
    }


def _to_edited_words(edited: EditedText) -> dict[int, int]:
    """Return for each word of the original the word of the edited text that it became."""
    starts = _word_starts(edited.text)
    return {
        number: _word_at(starts, edited.to_edited(start))
        for number, start in enumerate(_word_starts(edited.original))
    }


def _word_starts(text: str) -> list[int]:
    """Return where the words of a text begin, as `str.split` finds them."""
    return [
        i
        for i, character in enumerate(text)
        if not character.isspace() and (i == 0 or text[i - 1].isspace())
    ]


def _word_at(starts: Sequence[int], offset: int) -> int:
    """Return the number of the word at an offset."""
    return max(0, bisect_right(starts, offset) - 1)
