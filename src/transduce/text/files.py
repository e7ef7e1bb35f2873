"""Files of text as lines, whatever they are packed in.

Only a line feed ends a line; everything else, U+2028 and its kin too, stays inside it. A carriage return at the end of a line and a
byte order mark at the beginning of a file are taken away. `.gz`, `.xz` and `.zst` are unpacked on the way; `-` is standard input.
What is no text at all (UTF-16, an archive) is refused by name.
"""

import atexit
import contextlib
import glob
import gzip
import hashlib
import lzma
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from transduce.errors import DataError, MissingInputError, UsageError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

STDIN = Path("-")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
UTF_32_MARKS = (b"\xff\xfe\0\0", b"\0\0\xfe\xff")
SAMPLE = 64  # bytes that tell UTF-16 without a mark: every other one is zero
ARCHIVES = {
    b"\x1f\x8b\x08": "gzip",
    b"\xfd7zXZ\0": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"BZh91AY&SY": "bzip2",
}
TAR_MARK, TAR_PLACE = b"ustar", 257
COMPRESSED_SUFFIXES = (".gz", ".xz", ".zst")
LONGEST_LINE = 1 << 24  # bytes; a longer "line" is not text, and must not fill the memory
REPLACEMENT_CHARACTER = "�"

Errors = Literal["strict", "replace"]
Fingerprint = list[list[str]]  # side, name, SHA-256 of each file that is read
_KEPT: dict[Path, str] = {}  # what the temporary copies are copies of


def find_files(patterns: Iterable[str | Path]) -> tuple[Path, ...]:
    """The files meant by paths and patterns like `corpus-*.en`, each pattern's in the order of their names."""
    found: list[Path] = []
    for pattern in patterns:
        path = Path(pattern)
        if path == STDIN:
            found.append(spool_stdin())
        elif path.is_fifo():  # such as bash makes of <(command)
            found.append(spool_pipe(path))
        elif not path.exists() and glob.has_magic(str(pattern)):
            matches = sorted(glob.glob(str(pattern), recursive=True))
            if not matches:
                raise MissingInputError(f"no file matches {pattern}")
            found += map(Path, matches)
        else:
            found.append(path)
    return tuple(found)


@cache
def spool_stdin() -> Path:
    """Standard input as a temporary file, for what must be read more than once; removed when the program ends."""
    return _keep(sys.stdin.buffer, "stdin", "standard input")


@cache
def spool_pipe(path: Path) -> Path:
    """A named pipe as a temporary file: what comes out of it comes once."""
    with path.open("rb") as pipe:
        return _keep(pipe, path.name, str(path))


def _keep(file: BinaryIO, file_name: str, name: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="transduce-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with (folder / file_name).open("wb") as copy:
        shutil.copyfileobj(file, copy)
    _KEPT[folder / file_name] = name
    return folder / file_name


def display_name(path: Path) -> str:
    """What people call a file: by its path, or by where its content came from. Bytes that are not UTF-8 become their escapes."""
    return _KEPT.get(path) or os.fsencode(path).decode(errors="backslashreplace")


def content_suffixes(path: Path) -> list[str]:
    """The suffixes of a file without that of its packing: `train.de.gz` has `.de`."""
    suffixes = path.suffixes
    return suffixes[:-1] if suffixes and suffixes[-1] in COMPRESSED_SUFFIXES else suffixes


def read_lines(path: Path, errors: Errors = "strict") -> Iterator[str]:
    """The lines of a UTF-8 file. Bytes that are not UTF-8 are an error that says where, or become U+FFFD."""
    for number, line in enumerate(read_raw_lines(path), start=1):
        try:
            yield line.decode()
        except UnicodeDecodeError as error:
            if errors == "replace":
                yield line.decode(errors="replace")
                continue
            raise DataError(
                f"{display_name(path)}, line {number}: byte {error.start + 1} of the line (0x{line[error.start]:02x}) is not "
                "UTF-8; convert the file, for example: iconv -f latin1 -t utf-8; or leave such lines out: transduce doctor --write"
            ) from None


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """A file that cannot be opened is an error that names it."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise MissingInputError(f"no file {path}") from None
    except IsADirectoryError:
        raise MissingInputError(f"{path} is a folder, wanted a text file") from None
    except PermissionError:
        raise MissingInputError(f"{path} may not be read: permission denied") from None


def read_raw_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file as bytes."""
    try:
        with naming(path), unpack(path) as file:
            number = 0
            while line := file.readline(LONGEST_LINE + 1):
                number += 1
                if number == 1 and (what := detect_binary(line)):
                    raise DataError(f"{display_name(path)} {what}")
                if len(line) > LONGEST_LINE:
                    raise DataError(
                        f"{display_name(path)}, line {number}: longer than {LONGEST_LINE >> 20} MB without a line feed; "
                        "if this is text, break it into lines, for example with fold -s"
                    )
                if number == 1:
                    line = line.removeprefix(BYTE_ORDER_MARK)
                yield line.removesuffix(b"\n").removesuffix(b"\r")
    except EOFError:
        raise DataError(
            f"{display_name(path)} ends too early: the packed file is truncated; copy it again"
        ) from None
    except (zlib.error, lzma.LZMAError, zstd.ZstdError, gzip.BadGzipFile) as error:
        raise DataError(
            f"{display_name(path)} cannot be unpacked as {path.suffix}: {error}"
        ) from None


def unpack(path: Path) -> BinaryIO:
    """Open a file for reading its content, unpacked by suffix."""
    if path.is_dir():
        raise IsADirectoryError
    openers: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".zst": zstd.open}
    return cast(BinaryIO, openers.get(path.suffix, open)(path, "rb"))


def has_byte_order_mark(path: Path) -> bool:
    """Whether a file that could be read begins with a byte order mark."""
    with unpack(path) as file:
        return file.read(len(BYTE_ORDER_MARK)) == BYTE_ORDER_MARK


def detect_binary(start: bytes) -> str | None:
    """What a file is instead of UTF-8 text, told by its first line, and what to do; None if it may be text."""
    encoding = _encoding(start)
    if encoding is not None:
        return (
            f"looks like {encoding}, wanted UTF-8; convert it: iconv -f {encoding.lower()} -t utf-8"
        )
    kind = next((kind for mark, kind in ARCHIVES.items() if start.startswith(mark)), None)
    if start[TAR_PLACE:].startswith(TAR_MARK):
        kind = "tar"
    return f"holds a packed file ({kind}), wanted text: unpack it first" if kind else None


def _encoding(start: bytes) -> str | None:
    if start.startswith(UTF_32_MARKS):
        return "UTF-32"
    if start.startswith(UTF_16_MARKS):
        return "UTF-16"
    even, odd = start[:SAMPLE:2], start[1:SAMPLE:2]
    for letters, zeros, name in ((even, odd, "UTF-16LE"), (odd, even, "UTF-16BE")):
        if len(zeros) > 1 and 0 not in letters and zeros.count(0) > len(zeros) / 2:
            return name
    return None


def sha256_of_file(path: Path) -> str:
    """The SHA-256 of a file as it lies there, packed or not."""
    with naming(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint_of(side: str, paths: Sequence[Path]) -> Fingerprint:
    """What files hold, in order: which side they are, their names, their SHA-256."""
    return [[side, display_name(path), sha256_of_file(path)] for path in paths]


def check_stdin_used_once(*options: Sequence[str | Path]) -> None:
    """Standard input can serve one option only."""
    if sum(Path(path) == STDIN for paths in options for path in paths) > 1:
        raise UsageError("standard input (-) can be read once only: give files for the others")
