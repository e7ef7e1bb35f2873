"""Capitals that a model hardly knows: find them, and the form of each word that it knows.

`WHERE IS THE STATION?` is nothing that a model has seen if its training text was not in capitals.
It reads `Where is the station?` instead, and its translation gets the capitals.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from transduce.decode.alignment import Span, find_units
from transduce.model_folder import ModelFolder
from transduce.text.case import (
    UPPER,
    Casing,
    capitalize,
    is_title_sentence,
    is_upper_sentence,
    word_style,
)
from transduce.text.edits import Edit
from transduce.text.protected import ProtectedPart

MIN_UNFAMILIAR = 0.5  # share of the words that the model knows better in another form
N_CACHED_WORDS = 1 << 16


class Recased(NamedTuple):
    """How to write a sentence for the model, and what to put back into its translation."""

    edits: list[Edit]
    casing: Casing | None


UNCHANGED = Recased([], None)


class WordForms:
    """Knows in which form - small, capitalized, all capitals - a model has seen a word."""

    def __init__(self, folder: ModelFolder) -> None:
        self._vocabulary = folder.source_vocabulary
        self._words = folder.words
        self._rarity = lru_cache(maxsize=N_CACHED_WORDS)(self._find_rarity)

    def recase(self, sentence: str, protected: Sequence[ProtectedPart]) -> Recased:
        """Find capitals that the model hardly knows outside of the protected parts."""
        if sentence[1:].islower() or sentence.islower():
            return UNCHANGED  # nearly always
        units = [
            unit
            for unit in find_units(sentence)
            if not any(unit[0] < part.end and part.start < unit[1] for part in protected)
        ]
        words = [sentence[start:end] for start, end in units]
        if is_upper_sentence(words):
            return self._recase_upper(units, words)
        if is_title_sentence(words):
            return self._recase_title(units, words)
        return self._recase_single(units, words)

    def _recase_upper(self, units: Sequence[Span], words: Sequence[str]) -> Recased:
        """Recase a sentence in capitals, if the model knows most of its words better otherwise."""
        first = _first_word(words)
        forms = [self._known_form(word, is_first=i == first) for i, word in enumerate(words)]
        pairs = [(word, form) for word, form in zip(words, forms, strict=True) if len(word) > 1]
        cased = [(word, form) for word, form in pairs if word.lower() != word]
        n_unfamiliar = sum(form != word for word, form in cased)
        if not cased or n_unfamiliar < MIN_UNFAMILIAR * len(cased):
            return UNCHANGED
        return Recased(list(_edits(units, words, forms)), Casing(is_upper=True))

    def _recase_title(self, units: Sequence[Span], words: Sequence[str]) -> Recased:
        """Recase a heading, if the model knows most of its words better with small letters."""
        first = _first_word(words)
        forms = [
            self._known_form(word, is_first=i == first) if word_style(word) else word
            for i, word in enumerate(words)
        ]
        styled = [i for i, word in enumerate(words) if word_style(word) and i != first]
        changed = [i for i in styled if forms[i] != words[i]]
        if not changed or len(changed) < MIN_UNFAMILIAR * len(styled):
            return UNCHANGED
        styles = {units[i][0]: word_style(words[i]) for i in changed}
        return Recased(list(_edits(units, words, forms)), Casing(is_upper=False, styles=styles))

    def _recase_single(self, units: Sequence[Span], words: Sequence[str]) -> Recased:
        """Recase words that stand in capitals for emphasis, if the model knows them otherwise."""
        first = _first_word(words)
        styles = {}
        forms = list(words)
        for i, word in enumerate(words):
            if word_style(word) != UPPER or self._is_known(word):
                continue
            form = self._known_form(word, is_first=i == first)
            if form != word and self._is_known(form):
                forms[i] = form
                styles[units[i][0]] = UPPER
        if not styles:
            return UNCHANGED
        return Recased(list(_edits(units, words, forms)), Casing(is_upper=False, styles=styles))

    def _known_form(self, word: str, is_first: bool) -> str:
        """Return the form of a word that the model knows best; the word itself if all are alike."""
        lower = word.lower()
        title = capitalize(lower)
        forms = list(dict.fromkeys((word, title, lower)))
        known = [form for form in forms if self._words is not None and form in self._words]
        if is_first and title in known:
            return title
        best = min(known or forms, key=self._rarity)
        has_same_length = self._rarity(title)[0] <= self._rarity(best)[0]
        return title if is_first and not known and has_same_length else best

    def _is_known(self, word: str) -> bool:
        if self._words is not None:
            return word in self._words
        return self._rarity(word)[0] == 1

    def _find_rarity(self, word: str) -> tuple[int, int]:
        """Return a measure of how rare a word was in the training text, larger for rarer words.

        Frequent words are one token, and frequent tokens have low ids.
        """
        ids = self._vocabulary.encode(word)
        return len(ids), max(ids, default=0)


def _first_word(words: Sequence[str]) -> int:
    return next((i for i, word in enumerate(words) if word[0].isalpha()), 0)


def _edits(units: Sequence[Span], words: Sequence[str], forms: Sequence[str]) -> Iterator[Edit]:
    for (start, end), word, form in zip(units, words, forms, strict=True):
        if form != word:
            yield Edit(start, end, form)
