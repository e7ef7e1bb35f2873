"""Restore translations: put back what a reading has changed in a sentence.

Links and other protected parts take the place of their masks, or stand where the model's attention
says. Capitals are put on the words that translate those which had them.
"""

from collections.abc import Sequence
from typing import NamedTuple

from transduce.decode.alignment import find_units
from transduce.decode.insertion import AlignedText, find_place, insert
from transduce.decode.readings import Reading
from transduce.text.case import UPPER, Casing, restore_word
from transduce.text.edits import Edit, EditedText, edit, overlaps_any


class Restored(NamedTuple):
    """The translation of a reading with everything put back."""

    target: EditedText  # what the model wrote, and the translation of the sentence
    is_complete: bool  # each protected part is there as often as in the source, and in order


def restore(
    reading: Reading, text: str, aligned: AlignedText | None, substitutions: Sequence[Edit] = ()
) -> Restored | None:
    """Put back what a reading has changed, and apply the substitutions of terms.

    `text` is what the model wrote. Return None if a mask is not in it exactly once.
    """
    if reading.masks:
        edits = _unmask(reading, text)
        if edits is None:
            return None
    elif reading.protected:
        assert aligned is not None, "removed parts need attention"
        edits = _put_back(reading, text, aligned)
    else:
        edits = []
    free = [each for each in substitutions if not overlaps_any(each, edits)]
    if reading.casing is not None and reading.casing.is_upper:
        free = [each._replace(replacement=each.replacement.upper()) for each in free]
    edits = [*edits, *free]
    if reading.casing is not None:
        edits += _recase(reading.casing, reading, text, aligned, edits)
    target = edit(text, edits)
    return Restored(target, _is_complete(reading, target.text))


def _is_complete(reading: Reading, text: str) -> bool:
    """Return whether each part is in the text, in order, as often as in the source."""
    place = 0
    for part in reading.protected:
        place = text.find(part.text, place)
        if place < 0 or text.count(part.text) != reading.source.original.count(part.text):
            return False
        place += len(part.text)
    return all(
        text.count(part.text) == reading.source.original.count(part.text) for part in reading.kept
    )


def _unmask(reading: Reading, text: str) -> list[Edit] | None:
    """Return the edits that replace the masks by their parts, or None if they are not all there.

    They must be there once each, in order, as whole words.
    """
    words = [(start, end, text[start:end]) for start, end in find_units(text)]
    edits = []
    for mask, part in zip(reading.masks, reading.protected, strict=True):
        found = [(start, end) for start, end, word in words if word == mask]
        if len(found) != 1:
            return None
        edits.append(Edit(*found[0], part.text))
    if sorted(edits) != edits:
        return None
    return edits


def _put_back(reading: Reading, text: str, aligned: AlignedText) -> list[Edit]:
    """Return the edits that insert the removed parts; they stay in order."""
    edits = []
    place = 0
    for part in reading.protected:
        place = find_place(reading, text, aligned, part.start, first=place)
        edits.append(insert(reading, text, aligned, part, place))
    return edits


def _recase(
    casing: Casing,
    reading: Reading,
    text: str,
    aligned: AlignedText | None,
    edits: Sequence[Edit],
) -> list[Edit]:
    """Return the edits that put the capitals of the source on the words of the translation."""
    if casing.is_upper:
        units = find_units(text)
        styles = [UPPER] * len(units)
    else:
        assert aligned is not None, "capitals of single words need attention"
        units = aligned.target_units
        styles = _aligned_styles(casing, reading, aligned)
    recased = []
    for (start, end), style in zip(units, styles, strict=True):
        word = text[start:end]
        replacement = restore_word(word, style)
        each = Edit(start, end, replacement)
        if replacement != word and not overlaps_any(each, edits):
            recased.append(each)
    return recased


def _aligned_styles(casing: Casing, reading: Reading, aligned: AlignedText) -> list[str]:
    """Return the style of the source word that each target unit attended to most."""
    style_at = {reading.source.to_edited(start): style for start, style in casing.styles.items()}
    styles = []
    for row in aligned.weights:
        start = aligned.source_units[int(row.argmax())][0] if row.any() else -1
        styles.append(style_at.get(start, ""))
    return styles
