"""Unicode normalization and word splitting, the same for training and translation."""

import re
import unicodedata
from collections.abc import Iterator
from typing import Literal

Normalization = Literal["nfc", "nfkc", "none"]

WORD = re.compile(r"\w+|[^\w\s]")
LONE_SURROGATE = re.compile("[\ud800-\udfff]")
MAX_MARKS = 1000  # consecutive combining marks that are normalized together
# Never part of a text, C1 controls such as U+009B (CSI) included. Tab, vertical tab, form feed,
# carriage return and U+0085 may be, and stay.
CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]")
# As in str.splitlines; neighbors are one.
LINE_BREAKS = re.compile("[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")


def normalize(text: str, form: Normalization) -> str:
    """Return a text in Unicode's normal form C or KC, without control characters.

    The form "none" returns the text unchanged.
    """
    if form == "none":
        return text
    if not text.isprintable():
        text = CONTROL_CHARACTERS.sub("", text)
    if text.isascii():
        return text
    name: Literal["NFC", "NFKC"] = "NFC" if form == "nfc" else "NFKC"
    if len(text) <= MAX_MARKS:
        return unicodedata.normalize(name, text)
    return "".join(unicodedata.normalize(name, block) for block in _blocks(text))


def clean(text: str, form: Normalization) -> str:
    """Return a text as a model reads it: normalized, with U+FFFD for lone surrogates."""
    return LONE_SURROGATE.sub("\ufffd", normalize(text, form))


def one_line(text: str) -> str:
    """Return the text with every line break of any kind replaced by a space."""
    return LINE_BREAKS.sub(" ", text)


def _blocks(text: str) -> Iterator[str]:
    """Split a text inside runs of more than MAX_MARKS combining marks, and nowhere else.

    Sorting such a run takes quadratic time.
    """
    start = n_marks = 0
    for i, character in enumerate(text):
        n_marks = n_marks + 1 if unicodedata.combining(character) else 0
        if n_marks > MAX_MARKS:
            yield text[start:i]
            start, n_marks = i, 1
    yield text[start:]


def split_words(text: str) -> list[str]:
    """Split a text into words and single punctuation marks, for lists of words seen in training."""
    return WORD.findall(text)
