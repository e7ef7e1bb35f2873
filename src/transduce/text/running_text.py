"""Running text for language models: documents, read one line at a time."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from transduce.errors import DataError
from transduce.text.files import Fingerprint, display_name, fingerprint_files, read_lines
from transduce.text.normalize import Normalization, normalize
from transduce.text.reservoir import Reservoir
from transduce.text.survey import SAMPLE_SIZE

# What precedes a line: nothing, the end of another document, or the previous line of its document.
FIRST, NEXT_DOCUMENT, NEXT_LINE = "first", "next document", "next line"


@dataclass(frozen=True, slots=True)
class TextFiles:
    """Text files, each of them a document."""

    paths: tuple[Path, ...]

    def read(self) -> Iterator[Iterator[str]]:
        """Yield the documents, each as an iterator of lines."""
        return (read_document(path) for path in self.paths)

    def fingerprint(self) -> Fingerprint:
        """Return the fingerprint of all files."""
        return fingerprint_files("text", self.paths)


@dataclass(frozen=True, slots=True)
class TextList:
    """Documents in memory."""

    documents: Sequence[str]
    name: str = "the text"

    def read(self) -> Iterator[Iterator[str]]:
        """Yield the documents, each as an iterator of lines."""
        return (iter(document.split("\n")) for document in self.documents)

    def fingerprint(self) -> Fingerprint:
        """Return one fingerprint of all documents."""
        digest = hashlib.sha256("\0".join(self.documents).encode(errors="surrogatepass"))
        return [["text", self.name, digest.hexdigest()]]


TextSource = TextFiles | TextList


def read_document(path: Path) -> Iterator[str]:
    """Yield the lines of a file; raise DataError at the end if all were blank."""
    is_blank = True
    for line in read_lines(path):
        is_blank = is_blank and not line.strip()
        yield line
    if is_blank:
        raise DataError(f"{display_name(path)} has no text to learn from; give a file with text")


def read_normalized_lines(source: TextSource, form: Normalization) -> Iterator[tuple[str, str]]:
    """Yield all lines, normalized, each with what precedes it.

    That is FIRST, NEXT_DOCUMENT or NEXT_LINE.
    """
    precedes = FIRST
    for document in source.read():
        for line in document:
            yield precedes, normalize(line, form)
            precedes = NEXT_LINE
        precedes = NEXT_DOCUMENT


@dataclass(frozen=True, slots=True)
class TextSurvey:
    """The size of a running text, and a sample of its lines to learn a vocabulary from."""

    n_documents: int
    n_characters: int  # line feeds inside documents included
    n_lines: int
    sample: Sequence[str]


def survey_text(source: TextSource, form: Normalization) -> TextSurvey:
    """Read all documents once, and keep a reservoir sample of their lines."""
    sample: Reservoir[str] = Reservoir(SAMPLE_SIZE)
    n_documents = n_characters = 0
    for precedes, line in read_normalized_lines(source, form):
        n_characters += len(line)
        if precedes == NEXT_LINE:
            n_characters += 1  # the line feed before it
        else:
            n_documents += 1
        sample.add(line)
    return TextSurvey(n_documents, n_characters, sample.n_added, sample.items)
