"""Sentence pairs: the type, and reading them from files.

Only a line feed ends a line; everything else, U+2028 and its kin too, stays inside it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from transduce.errors import DataError, MissingInputError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Pair:
    """A sentence and its translation, with gold word alignments where they are known.

    `alignment` holds (i, j): word i of the source corresponds to word j of the target, words being what `str.split` gives, from 0.
    """

    source: str
    target: str
    alignment: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Corpus:
    """Pairs that can be learnt from, and how many were left out because a side was blank."""

    pairs: list[Pair]
    n_blank: int = 0

    def __len__(self) -> int:
        return len(self.pairs)


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file, without their ends and without a byte order mark."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if number == 1:
                    line = line.removeprefix(BYTE_ORDER_MARK)
                try:
                    yield line.removesuffix(b"\n").removesuffix(b"\r").decode()
                except UnicodeDecodeError as error:
                    raise DataError(
                        f"{path}, line {number}: byte {error.start + 1} of the line (0x{line[error.start]:02x}) is not UTF-8; "
                        f"convert the file, for example: iconv -f latin1 -t utf-8 {path}"
                    ) from None
    except FileNotFoundError:
        raise MissingInputError(f"no file {path}") from None
    except IsADirectoryError:
        raise MissingInputError(f"{path} is a folder, wanted a text file") from None
    except PermissionError:
        raise MissingInputError(f"{path} may not be read: permission denied") from None


def read_text(path: Path) -> str:
    """A UTF-8 file as one text, lines ended by line feeds."""
    text = "\n".join(read_lines(path))
    if not text.strip():
        raise DataError(f"{path} holds no text to learn from")
    return text


def read_pairs(source: Path, target: Path) -> Corpus:
    """The pairs of two parallel files: line n of one is the translation of line n of the other."""
    source_lines, target_lines = list(read_lines(source)), list(read_lines(target))
    if len(source_lines) != len(target_lines):
        raise DataError(
            f"{source} has {len(source_lines)} lines, {target} has {len(target_lines)}: "
            "line n of one must be the translation of line n of the other"
        )
    pairs = [
        Pair(source_line, target_line)
        for source_line, target_line in zip(source_lines, target_lines, strict=True)
        if source_line.strip() and target_line.strip()
    ]
    if not pairs:
        raise DataError(
            f"{source} and {target} hold no pair to learn from: {len(source_lines)} lines, all blank on a side"
        )
    return Corpus(pairs, n_blank=len(source_lines) - len(pairs))
