"""Insert a part of a sentence into its translation, at the place that the model's attention says.

It stands after the translation of what was before it in the source, and before that of what was
after it, as far as the order of words allows.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from transduce.decode.alignment import Span, find_units, unit_weights
from transduce.decode.hypotheses import Hypothesis
from transduce.decode.readings import Reading
from transduce.text.edits import Edit
from transduce.text.protected import SENTENCE_PUNCTUATION, ProtectedPart
from transduce.text.terms import UNSPACED_CHARACTER, is_word_character
from transduce.text.vocabulary import Vocabulary

OPENING = "([{«“‘\"'¿¡"
CLOSING = f"{SENTENCE_PUNCTUATION})]}}»”’\"'"
ENTITY = re.compile(r"&#?\w{1,32};")  # tokenized text has &quot; and &apos;


class AlignedText(NamedTuple):
    """What a model read and wrote, in words and punctuation marks, and how they are aligned."""

    source_units: list[Span]
    target_units: list[Span]
    weights: Float[np.ndarray, "target_unit source_unit"]  # the attention of each target unit


def align_text(
    reading: Reading,
    hypothesis: Hypothesis,
    text: str,
    vocabularies: tuple[Vocabulary, Vocabulary],
) -> AlignedText:
    """Return the units of what a model read and wrote, with their attention."""
    source_vocabulary, target_vocabulary = vocabularies
    assert hypothesis.attention is not None, "it was requested"
    source_units, target_units = find_units(reading.source.text), find_units(text)
    weights = unit_weights(
        hypothesis.attention,
        source_vocabulary.spans(reading.search_input.ids),
        target_vocabulary.spans(hypothesis.ids),
        source_units,
        target_units,
    )
    return AlignedText(source_units, target_units, weights)


def find_place(
    reading: Reading, text: str, aligned: AlignedText, start: int, first: int = 0
) -> int:
    """Return before which target unit to insert what stands at an offset of the sentence.

    It is the place, not before `first`, where the fewest alignments are crossed. What was before
    the punctuation at the end of the source stays before that of the translation.
    """
    units, weights = aligned.target_units, aligned.weights
    source, offset = reading.source.text, reading.source.to_edited(start)
    places = [place for place in _places(text, units) if place >= first]
    target_end = _end(text)
    if offset <= _end(source) < len(source):
        before_end = [i for i in places if i == 0 or units[i - 1][1] <= target_end]
        places = before_end or places
    n_before = sum(unit_start < offset for unit_start, _ in aligned.source_units)
    before = weights[:, :n_before].sum(axis=1)  # attention of each target unit to what precedes
    after = weights[:, n_before:].sum(axis=1)
    share = n_before / max(1, len(aligned.source_units))

    def cost(place: int) -> tuple[float, float]:
        crossed = float(after[:place].sum() + before[place:].sum())
        # At equal cost, as near to the place in the source as possible.
        return round(crossed, 3), abs(place / max(1, len(units)) - share)

    return min(places, key=cost, default=first)


def insert(
    reading: Reading, text: str, aligned: AlignedText, part: ProtectedPart, place: int
) -> Edit:
    """Return the edit that inserts a part of the sentence before a target unit.

    There is a space on either side, unless the part adjoins a word on that side of its sentence, as
    a tag does.
    """
    units, sentence = aligned.target_units, reading.source.original
    adjoins_before = is_word_character(sentence[: part.start][-1:])
    adjoins_after = is_word_character(sentence[part.end :][:1])
    if not units:
        offset = len(text)
    elif place == 0 or (adjoins_after and place < len(units)):
        offset = units[place][0]
    else:
        offset = units[place - 1][1]
    before, after = text[:offset][-1:], text[offset:][:1]
    is_attached = before == "" or before.isspace() or before in OPENING or adjoins_before
    space_before = "" if is_attached or UNSPACED_CHARACTER.match(before) else " "
    is_followed = after == "" or after.isspace() or after in CLOSING or adjoins_after
    space_after = "" if is_followed or UNSPACED_CHARACTER.match(after) else " "
    return Edit(offset, offset, f"{space_before}{part.text}{space_after}")


def _places(text: str, units: Sequence[Span]) -> list[int]:
    """Return before which units something may be inserted: not inside l'eau or &quot;."""
    inside = {
        offset
        for entity in ENTITY.finditer(text)
        for offset in range(entity.start() + 1, entity.end())
    }
    places = [0]
    for i in range(1, len(units)):
        end, start = units[i - 1][1], units[i][0]
        if start in inside:
            continue
        is_unspaced = UNSPACED_CHARACTER.match(text[start]) or UNSPACED_CHARACTER.match(
            text[end - 1]
        )
        if end < start or is_unspaced or text[start] in SENTENCE_PUNCTUATION:
            places.append(i)
    if units:
        places.append(len(units))
    return places


def _end(text: str) -> int:
    """Return where the punctuation at the end of a text begins."""
    return len(text.rstrip(f"{CLOSING} "))
