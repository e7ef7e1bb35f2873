"""One spelling for what looks the same, and the words of a text: the same for training and for translation."""

import re
import unicodedata
from collections.abc import Iterator
from typing import Literal

Normalization = Literal["nfc", "nfkc", "none"]
WORD = re.compile(r"\w+|[^\w\s]")
LONE_SURROGATE = re.compile("[\ud800-\udfff]")
MOST_MARKS = 1000  # combining marks on one letter that are put in order together
# Never part of a text; tab, vertical tab, form feed, carriage return and U+0085 may be, and stay.
CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0e-\x1f\x7f]")


def normalize(text: str, form: Normalization) -> str:
    """A text in Unicode's normal form C or KC, without control characters; `none` leaves it as it is."""
    if form == "none":
        return text
    if not text.isprintable():
        text = CONTROL_CHARACTERS.sub("", text)
    if text.isascii():
        return text
    name: Literal["NFC", "NFKC"] = "NFC" if form == "nfc" else "NFKC"
    if len(text) <= MOST_MARKS:
        return unicodedata.normalize(name, text)
    return "".join(unicodedata.normalize(name, block) for block in _blocks(text))


def _blocks(text: str) -> Iterator[str]:
    """The text as a whole; only thousands of combining marks on end, which take time by the square to sort, are parted."""
    start = n_marks = 0
    for i, character in enumerate(text):
        n_marks = n_marks + 1 if unicodedata.combining(character) else 0
        if n_marks > MOST_MARKS:
            yield text[start:i]
            start, n_marks = i, 1
    yield text[start:]


def split_words(text: str) -> list[str]:
    """The words and signs of a text: how a translator tells which of them its training text did not have."""
    return WORD.findall(text)
