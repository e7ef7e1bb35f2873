"""Text from elsewhere made safe to show in a message."""

import re
import unicodedata
from collections.abc import Sequence

MAX_WORDS = 10  # words of a list that are shown
MAX_WORD_LENGTH = 40  # characters of such a word
LONG_NUMBER = re.compile(rf"([0-9]{{{MAX_WORD_LENGTH}}})[0-9]{{{MAX_WORD_LENGTH},}}")


def shorten(text: str) -> str:
    """Return a message with `...` for the rest of each number of 80 digits or more."""
    return LONG_NUMBER.sub(r"\1...", text)


def printable(text: str) -> str:
    """Return the text on one line, with each unprintable character as its code: `U+202E`.

    Line breaks, control characters and marks that change the writing direction are unprintable.
    Spaces of any width are printable.
    """
    if text.isprintable():
        return text
    return "".join(c if _is_printable(c) else f"U+{ord(c):04X}" for c in text)


def printable_lines(text: str) -> str:
    """Return the text with each line printable; only a line feed ends a line."""
    return "\n".join(map(printable, text.split("\n")))


def _is_printable(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) == "Zs"


def list_words(words: Sequence[str]) -> str:
    """Return the words separated by commas, printable and of limited length, then `and N more`."""
    shown = []
    for word in words[:MAX_WORDS]:
        ellipsis = "..." if len(word) > MAX_WORD_LENGTH else ""
        shown.append(printable(word[:MAX_WORD_LENGTH]) + ellipsis)
    n_hidden = len(words) - len(shown)
    return ", ".join(shown) + (f" and {n_hidden:,} more" if n_hidden else "")
