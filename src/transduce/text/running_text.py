"""Running text: documents, read a line at a time, for a language model."""

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from transduce.errors import DataError
from transduce.text.files import Fingerprint, display_name, fingerprint_of, read_lines
from transduce.text.normalize import Normalization, normalize
from transduce.text.survey import SAMPLE

# What stands before a line: nothing, the end of another document, or the end of the line before it.
FIRST, NEXT_DOCUMENT, NEXT_LINE = "first", "next document", "next line"


@dataclass(frozen=True, slots=True)
class TextFiles:
    """Files, each a document."""

    paths: tuple[Path, ...]

    def read(self) -> Iterator[Iterator[str]]:
        """The files, each as its lines."""
        return (read_document(path) for path in self.paths)

    def fingerprint(self) -> Fingerprint:
        """Of each file, as it lies there."""
        return fingerprint_of("text", self.paths)


@dataclass(frozen=True, slots=True)
class TextList:
    """Documents that are in memory already."""

    documents: Sequence[str]
    name: str = "the text"

    def read(self) -> Iterator[Iterator[str]]:
        """The documents, each as its lines."""
        return (iter(document.split("\n")) for document in self.documents)

    def fingerprint(self) -> Fingerprint:
        """Of all documents together."""
        digest = hashlib.sha256("\0".join(self.documents).encode(errors="surrogatepass"))
        return [["text", self.name, digest.hexdigest()]]


TextSource = TextFiles | TextList  # where documents come from


def read_document(path: Path) -> Iterator[str]:
    """The lines of a file that must hold some text."""
    is_blank = True
    for line in read_lines(path):
        is_blank = is_blank and not line.strip()
        yield line
    if is_blank:
        raise DataError(f"{display_name(path)} holds no text to learn from")


def read_normalized_lines(source: TextSource, form: Normalization) -> Iterator[tuple[str, str]]:
    """All lines in their normal form, each with what stands before it."""
    before = FIRST
    for document in source.read():
        for line in document:
            yield before, normalize(line, form)
            before = NEXT_LINE
        before = NEXT_DOCUMENT


@dataclass(frozen=True, slots=True)
class TextSurvey:
    """What was found in a running text."""

    n_documents: int
    n_characters: int
    n_lines: int
    sample: Sequence[str]  # lines to learn a vocabulary from


def survey_text(source: TextSource, form: Normalization) -> TextSurvey:
    """Read all documents once, keeping a bounded number of lines."""
    chooser = random.Random(0)
    sample: list[str] = []
    n_documents = n_characters = n_lines = 0
    for before, line in read_normalized_lines(source, form):
        n_documents += before != NEXT_LINE
        n_characters += len(line) + (before == NEXT_LINE)
        n_lines += 1
        if len(sample) < SAMPLE:
            sample.append(line)
        elif (place := int(chooser.random() * n_lines)) < SAMPLE:
            sample[place] = line
    return TextSurvey(n_documents, n_characters, n_lines, sample)
