"""Words in the pieces of a vocabulary: where they begin and end, and how a phrase is spelled."""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from transduce.text.terms import is_word_character
from transduce.text.vocabulary import Vocabulary

Pieces = tuple[int, ...]


class RequiredTerm(NamedTuple):
    """A term that a translation must hold: as which text, how that is spelled, and which pieces of the source it translates."""

    targets: tuple[str, ...]
    first: tuple[str, ...]  # what else it may be at the beginning of a sentence
    spellings: tuple[Pieces, ...]
    start: int
    end: int


# These begin the spelling of a phrase that stands behind a sign, without a space before it, and of one that begins a sentence.
INSIDE, FIRST = -1, -2


class Words:
    """Where words begin and end in the pieces of a vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    @cached_property
    def surfaces(self) -> list[str]:
        """What each piece adds to a text."""
        return [self.vocabulary.surface(i) for i in range(len(self.vocabulary))]

    @cached_property
    def goes_on(self) -> list[bool]:
        """Pieces that would lengthen the word before them."""
        return [bool(text) and is_word_character(text[0]) for text in self.surfaces]

    def wanted(
        self, phrases: Sequence[str], start: int, end: int, is_verbatim: bool = False
    ) -> RequiredTerm:
        """Phrases one of which must be written, for pieces of the source.

        A sentence may begin one with a large letter, unless it is to stand there verbatim.
        """
        large = [] if is_verbatim else [phrase[:1].upper() + phrase[1:] for phrase in phrases]
        first = tuple(form for form in dict.fromkeys(large) if form not in phrases)
        spellings = [spelling for phrase in phrases for spelling in self.spellings(phrase)]
        spellings += [(FIRST, *self.vocabulary.encode(form)) for form in first]
        return RequiredTerm(tuple(phrases), first, tuple(spellings), start, end)

    def spellings(self, phrase: str) -> list[Pieces]:
        """A phrase as pieces: as words of their own, and behind a sign."""
        found = [tuple(self.vocabulary.encode(phrase))]
        sign, *rest = self.vocabulary.encode("(" + phrase)
        if (
            self.vocabulary.decode([sign]) == "("
            and self.vocabulary.decode(rest) == phrase
            and tuple(rest) != found[0]
        ):
            found.append((INSIDE, *rest))
        return found
