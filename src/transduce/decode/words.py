"""Words in the tokens of a vocabulary: where they begin and end, and how a phrase is spelled."""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from transduce.text.terms import is_word_character
from transduce.text.vocabulary import Vocabulary

Ids = tuple[int, ...]

# Markers before the first token of a spelling. They say where the spelling may be used:
INSIDE = -1  # after punctuation, without a space, as in "(phrase"
FIRST = -2  # at the beginning of a sentence


class RequiredTerm(NamedTuple):
    """A term that a translation must contain in one of several forms."""

    targets: tuple[str, ...]  # the forms
    first: tuple[str, ...]  # capitalised forms, allowed at the beginning of a sentence
    spellings: tuple[Ids, ...]  # the forms as tokens; INSIDE or FIRST may precede the tokens
    start: int  # it translates the source tokens from start to end (exclusive)
    end: int


class Words:
    """Where words begin and end in the tokens of a vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    @cached_property
    def surfaces(self) -> list[str]:
        """The text that each token adds."""
        return [self.vocabulary.surface(i) for i in range(len(self.vocabulary))]

    @cached_property
    def continues_word(self) -> list[bool]:
        """Whether each token would lengthen the word before it."""
        return [bool(text) and is_word_character(text[0]) for text in self.surfaces]

    def require(
        self, phrases: Sequence[str], start: int, end: int, is_verbatim: bool = False
    ) -> RequiredTerm:
        """Return a term that any of the phrases fulfils, for the source tokens start to end.

        A phrase may be capitalised at the beginning of a sentence, unless `is_verbatim`.
        """
        capitalised: list[str] = []
        if not is_verbatim:
            capitalised = [phrase[:1].upper() + phrase[1:] for phrase in phrases]
        first = tuple(form for form in dict.fromkeys(capitalised) if form not in phrases)
        spellings = [spelling for phrase in phrases for spelling in self.spell(phrase)]
        spellings += [(FIRST, *self.vocabulary.encode(form)) for form in first]
        return RequiredTerm(tuple(phrases), first, tuple(spellings), start, end)

    def spell(self, phrase: str) -> list[Ids]:
        """Return a phrase as tokens: after a space, and after punctuation if that differs."""
        after_space = tuple(self.vocabulary.encode(phrase))
        parenthesis, *rest = self.vocabulary.encode("(" + phrase)
        is_separate = self.vocabulary.decode([parenthesis]) == "("
        is_whole = self.vocabulary.decode(rest) == phrase
        if is_separate and is_whole and tuple(rest) != after_space:
            return [after_space, (INSIDE, *rest)]
        return [after_space]
