"""Capitals: how words are written, and how their style is put on other words."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
UPPER, TITLE = "upper", "title"
MIN_TITLE_WORDS = 3  # with a capital; a sentence with fewer may just have names
MIN_TITLE_SHARE = 0.75  # of the long words
MIN_TITLE_LENGTH = 4  # characters; shorter words (of, the) are often small in a title


@dataclass(frozen=True, slots=True)
class Casing:
    """Capitals of a sentence that the model does not read, and that are put back."""

    is_upper: bool  # the whole sentence is in capitals
    styles: Mapping[int, str] = field(default_factory=dict)  # of the words that begin at an offset

    @property
    def is_title(self) -> bool:
        """Return whether the sentence is in title case: TITLE is put back on its words."""
        return TITLE in self.styles.values()


def word_style(word: str) -> str:
    """Return UPPER for a word of several capitals, TITLE for one that begins with one, or ""."""
    if word.isupper() and sum(map(str.isalpha, word)) > 1:
        return UPPER
    if word[:1].isupper() and not any(map(str.isupper, word[1:])):
        return TITLE
    return ""


def restore_word(word: str, style: str) -> str:
    """Return a word in a style."""
    if style == UPPER:
        return word.upper()
    if style == TITLE:
        return capitalize(word)
    return word


def restore_words(text: str, style: str) -> str:
    """Return a text with each of its words in a style. In a title iPod stays as it is."""

    def restore(match: re.Match[str]) -> str:
        word = match[0]
        return word if style == TITLE and not word.islower() else restore_word(word, style)

    return WORD.sub(restore, text)


def capitalize(word: str) -> str:
    """Return a word with a capital first letter, the rest as it is."""
    return word[:1].upper() + word[1:]


def is_upper_sentence(words: Sequence[str]) -> bool:
    """Return whether all words with a case are in capitals, at least one of them a real word."""
    cased = [word for word in words if word.upper() != word.lower()]
    return any(len(word) > 1 for word in cased) and all(word.isupper() for word in cased)


def is_title_sentence(words: Sequence[str]) -> bool:
    """Return whether most words begin with a capital, as in a heading."""
    capitals = [word for word in words if word[0].isupper()]
    long = [word for word in words if len(word) >= MIN_TITLE_LENGTH and word.isalpha()]
    n_capitals = sum(word[0].isupper() for word in long)
    return len(capitals) >= MIN_TITLE_WORDS and n_capitals >= MIN_TITLE_SHARE * len(long)
