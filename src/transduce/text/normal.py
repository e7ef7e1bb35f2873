"""One spelling for what looks the same, and the words of a text: the same for training and for translation."""

import re
import unicodedata
from typing import Literal

Normalization = Literal["nfc", "nfkc", "none"]
# Never part of a text; tab, vertical tab, form feed, carriage return and U+0085 may be, and stay.
WORD = re.compile(r"\w+|[^\w\s]")
CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f]")


def normalise(text: str, form: Normalization) -> str:
    """A text in Unicode's normal form C or KC, without control characters; `none` leaves it as it is."""
    if form == "none":
        return text
    if text.isascii():
        return text if text.isprintable() else CONTROL.sub("", text)
    return unicodedata.normalize("NFC" if form == "nfc" else "NFKC", CONTROL.sub("", text))


def words_of(text: str) -> list[str]:
    """The words and signs of a text: how a translator tells which of them its training text did not have."""
    return WORD.findall(text)
