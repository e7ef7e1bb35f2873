"""Substitute terms: the wanted term, or number, takes the place of the model's own word.

The place is found by the model's attention, and by what the model writes for the term alone. Where
the model has written nothing for a term, there is no place.
"""

from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from transduce.decode.alignment import Span
from transduce.decode.insertion import AlignedText
from transduce.decode.readings import Reading
from transduce.text.case import capitalize, restore_words, word_style
from transduce.text.edits import Edit
from transduce.text.numbers import DIGITS, NUMBER
from transduce.text.terms import UNSPACED_CHARACTER, TermMatch, count_phrase

MIN_MASS = 0.15  # attention to a term's words below which a word is not its translation
OWN_WORD_BONUS = 1.0  # for a word that the model also writes for the term alone
MIN_COMMON = 4  # characters that inflected forms of a word have in common, at least
MIN_COMMON_SHARE = 0.6
MAX_COMBINATIONS = 16  # of the forms of the terms of a sentence


class Substitution(NamedTuple):
    """Where a term goes, and the forms of it that may stand there, the preferred one first."""

    start: int
    end: int
    forms: tuple[str, ...]


def find_substitutions(
    reading: Reading,
    text: str,
    aligned: AlignedText,
    own_words: Sequence[str],
    allowed_forms: Sequence[Sequence[str]],
) -> list[Substitution]:
    """Return how the terms and numbers of a reading get into the text that the model wrote.

    `own_words` is the model's translation of each term alone. A term that is there already, or has
    no place or no allowed form, is left out. A number takes the place of another number only.
    """
    found: list[Substitution] = []
    taken: set[int] = set()  # target units of earlier terms
    n_met: dict[str, int] = {}  # occurrences of a form in the text that belong to earlier terms
    for match, own, forms in zip(reading.substituted, own_words, allowed_forms, strict=True):
        there = next(
            (form for form in forms if count_phrase(text, form) > n_met.get(form, 0)), None
        )
        if there is not None:
            n_met[there] = n_met.get(there, 0) + 1
            continue
        mass = _attention_share(reading, match, aligned)
        if match in reading.numbers:
            mass[_other_words(text, aligned.target_units, own)] = 0.0
        span = _find_place(text, aligned.target_units, mass, own, taken)
        if span is None or not forms:
            continue
        first, last = span
        taken.update(range(first, last + 1))
        start, end = aligned.target_units[first][0], aligned.target_units[last][1]
        is_capital = first == 0 and text[start].isupper() and not match.term.is_verbatim
        style = _style(reading, match)
        fitted = tuple(
            restore_words(capitalize(form) if is_capital else form, style) for form in forms
        )
        found.append(Substitution(start, end, fitted))
    return found


def _style(reading: Reading, match: TermMatch) -> str:
    """Return the style of a term's words in the sentence, if it is to be put back on them."""
    casing = reading.casing
    if casing is None or match.term.is_verbatim:
        return ""
    if casing.is_title:
        return word_style(reading.source.original[match.start : match.end].split()[0])
    styles = (casing.styles.get(offset, "") for offset in range(match.start, match.end))
    return next(filter(None, styles), "")


def choose_forms(substitutions: Sequence[Substitution]) -> Iterator[list[Edit]]:
    """Yield the edits for each combination of forms, the preferred one first, up to a limit."""
    for forms in islice(product(*(each.forms for each in substitutions)), MAX_COMBINATIONS):
        yield [
            Edit(each.start, each.end, form)
            for each, form in zip(substitutions, forms, strict=True)
        ]


def _attention_share(
    reading: Reading, match: TermMatch, aligned: AlignedText
) -> Float[np.ndarray, " target_unit"]:
    """Return the share of each target unit's attention that went to the words of a term."""
    start, end = reading.source.to_edited(match.start), reading.source.to_edited(match.end)
    own = [
        i
        for i, (unit_start, unit_end) in enumerate(aligned.source_units)
        if unit_start < end and start < unit_end
    ]
    mass: np.ndarray = aligned.weights[:, own].sum(axis=1)
    return mass


def _other_words(text: str, units: Sequence[Span], own: str) -> list[int]:
    """Return the units that are no number: without a digit, and not what the model writes for it.

    Beside an apostrophe, as in l'eau, no number can stand.
    """
    own_words = set(own.casefold().split())
    return [
        i
        for i, (start, end) in enumerate(units)
        if not (DIGITS.search(text, start, end) or text[start:end].casefold() in own_words)
        or {text[start - 1 : start], text[end : end + 1]} & {"'", "’"}
    ]


def _find_place(
    text: str,
    units: Sequence[Span],
    mass: Float[np.ndarray, " target_unit"],
    own: str,
    taken: set[int],
) -> tuple[int, int] | None:
    """Return the first and last target unit that translate a term, or None."""
    own_words = [word.casefold() for word in own.split()]
    best, best_score = None, MIN_MASS
    for i, (start, end) in enumerate(units):
        word = text[start:end]
        if i in taken or not word[0].isalnum():
            continue
        score = float(mass[i])
        if score > MIN_MASS / 2 and any(_is_same_word(word.casefold(), each) for each in own_words):
            score += OWN_WORD_BONUS + 0.01 * len(word)  # of several, the noun, not its article
        if score > best_score:
            best, best_score = i, score
    if best is None:
        return None
    first = last = best
    while first > 0 and first - 1 not in taken and _is_joined(text, units, first - 1, mass):
        first -= 1
    while last + 1 < len(units) and last + 1 not in taken and _is_joined(text, units, last, mass):
        last += 1
    while first < best and text[units[first][0]] == "-":
        first += 1
    while last > best and text[units[last][0]] == "-":
        last -= 1
    return _whole_number(text, units, first, last)


def _is_joined(
    text: str, units: Sequence[Span], i: int, mass: Float[np.ndarray, " target_unit"]
) -> bool:
    """Return whether unit i and the next are parts of one word: with a hyphen between them.

    In a script without spaces each character is a unit; both must attend to the term.
    """
    (start, end), (next_start, _) = units[i], units[i + 1]
    if end < next_start:
        return False
    if "-" in (text[start], text[next_start]):
        return text[start] in "-" or text[start].isalnum()
    is_unspaced = UNSPACED_CHARACTER.match(text[start]) and UNSPACED_CHARACTER.match(
        text[next_start]
    )
    return bool(is_unspaced) and bool(min(mass[i], mass[i + 1]) > MIN_MASS)


def _whole_number(text: str, units: Sequence[Span], first: int, last: int) -> tuple[int, int]:
    """Return the first and last unit, extended to all of a number such as 1,234.56."""
    for match in NUMBER.finditer(text):
        start, end = match.span()
        if start < units[last][1] and units[first][0] < end:
            first = min(i for i, unit in enumerate(units) if unit[1] > start)
            last = max(i for i, unit in enumerate(units) if unit[0] < end)
    return first, last


def _is_same_word(one: str, other: str) -> bool:
    """Return whether two words are equal, or may be forms of one word."""
    if one == other:
        return True
    common = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        common += 1
    return common >= max(MIN_COMMON, MIN_COMMON_SHARE * max(len(one), len(other)))
