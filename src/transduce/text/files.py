"""Read text files as lines.

- Only a line feed ends a line. Every other character is part of a line, U+2028 included.
- A carriage return at the end of a line and a byte order mark at the start of a file are removed.
- `.gz`, `.xz` and `.zst` files are decompressed; `-` is standard input.
- Files that are not text (UTF-16, archives) raise DataError.
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
UTF_16_SAMPLE = 64  # bytes examined to recognize UTF-16 without a byte order mark
ARCHIVE_MARKS = {
    b"\x1f\x8b\x08": "gzip",
    b"\xfd7zXZ\0": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"BZh91AY&SY": "bzip2",
}
TAR_MARK, TAR_MARK_OFFSET = b"ustar", 257
COMPRESSED_SUFFIXES = (".gz", ".xz", ".zst")
LONGEST_LINE = 1 << 24  # bytes; a longer "line" is not text and must not fill the memory
REPLACEMENT_CHARACTER = "\ufffd"

Errors = Literal["strict", "replace"]
Fingerprint = list[list[str]]  # [side, name, SHA-256] of each input file
_SPOOLED: dict[Path, str] = {}  # temporary copies, and the names of their originals


def find_files(patterns: Iterable[str | Path]) -> tuple[Path, ...]:
    """Expand paths and patterns like `corpus-*.en`; the matches of a pattern are sorted by name.

    Standard input and named pipes are copied to temporary files. Raise MissingInputError if a
    pattern matches nothing, or for a device, which may have no end.
    """
    found: list[Path] = []
    for pattern in patterns:
        path = Path(pattern)
        if path == STDIN:
            found.append(spool_stdin())
        elif path.is_fifo():  # such as bash's <(command)
            found.append(spool_pipe(path))
        elif path.is_char_device() or path.is_block_device():
            raise MissingInputError(f"{path} is a device; expected a text file")
        elif not path.exists() and glob.has_magic(str(pattern)):
            matches = sorted(glob.glob(str(pattern), recursive=True))
            if not matches:
                raise MissingInputError(f"no file matches {pattern}; check the pattern")
            found += map(Path, matches)
        else:
            found.append(path)
    return tuple(found)


@cache
def spool_stdin() -> Path:
    """Copy standard input to a temporary file, so that it can be read more than once.

    The file is removed when the program ends.
    """
    return _spool(sys.stdin.buffer, "stdin", "standard input")


@cache
def spool_pipe(path: Path) -> Path:
    """Copy a named pipe to a temporary file, so that it can be read more than once."""
    with path.open("rb") as pipe:
        return _spool(pipe, path.name, str(path))


def _spool(file: BinaryIO, file_name: str, original_name: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="transduce-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / file_name
    with path.open("wb") as copy:
        shutil.copyfileobj(file, copy)
    _SPOOLED[path] = original_name
    return path


def display_name(path: Path) -> str:
    """Return the name of a file for messages: its path, or the original of a temporary copy.

    Bytes of a path that are not UTF-8 are escaped.
    """
    return _SPOOLED.get(path) or os.fsencode(path).decode(errors="backslashreplace")


def content_suffix(path: Path) -> str:
    """Return the last suffix apart from that of the compression: `.de` for `train.de.gz`, or ""."""
    suffixes = path.suffixes
    if suffixes and suffixes[-1] in COMPRESSED_SUFFIXES:
        suffixes = suffixes[:-1]
    return suffixes[-1] if suffixes else ""


def read_lines(path: Path, errors: Errors = "strict") -> Iterator[str]:
    """Yield the lines of a UTF-8 file.

    Invalid UTF-8 raises DataError with the place, or becomes U+FFFD with `errors="replace"`.
    """
    for number, line in enumerate(read_raw_lines(path), start=1):
        try:
            yield line.decode()
        except UnicodeDecodeError as error:
            if errors == "replace":
                yield line.decode(errors="replace")
                continue
            raise DataError(
                f"{display_name(path)}, line {number}: byte {error.start + 1} of the line "
                f"(0x{line[error.start]:02x}) is not UTF-8; convert the file, for example with "
                "iconv -f latin1 -t utf-8, or drop such lines with transduce doctor --write"
            ) from None


@contextlib.contextmanager
def report_open_errors(path: Path) -> Iterator[None]:
    """Turn the errors of opening a file into MissingInputError with its name."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise MissingInputError(f"no file {path}; check the path") from None
    except IsADirectoryError:
        raise MissingInputError(f"{path} is a folder; expected a text file") from None
    except PermissionError:
        raise MissingInputError(f"cannot read {path}: permission denied") from None


def read_raw_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file as bytes, without line ends."""
    try:
        with report_open_errors(path), open_decompressed(path) as file:
            number = 0
            while line := file.readline(LONGEST_LINE + 1):
                number += 1
                if number == 1 and (problem := detect_binary(line)):
                    raise DataError(f"{display_name(path)} {problem}")
                if len(line) > LONGEST_LINE:
                    raise DataError(
                        f"{display_name(path)}, line {number}: longer than {LONGEST_LINE >> 20} MB "
                        "without a line feed; if this is text, break it into lines, "
                        "for example with fold -s"
                    )
                if number == 1:
                    line = line.removeprefix(BYTE_ORDER_MARK)
                yield line.removesuffix(b"\n").removesuffix(b"\r")
    except EOFError:
        raise DataError(
            f"{display_name(path)} is truncated: the compressed data ends early; copy it again"
        ) from None
    except (zlib.error, lzma.LZMAError, zstd.ZstdError, gzip.BadGzipFile) as error:
        raise DataError(
            f"{display_name(path)} cannot be decompressed as {path.suffix}: {error}; "
            "copy it again, or rename it if it is not compressed"
        ) from None


def open_decompressed(path: Path) -> BinaryIO:
    """Open a file for reading bytes, decompressed according to its suffix."""
    if path.is_dir():
        raise IsADirectoryError
    openers: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".zst": zstd.open}
    opener = openers.get(path.suffix, open)
    return cast(BinaryIO, opener(path, "rb"))


def has_byte_order_mark(path: Path) -> bool:
    """Return whether a readable file begins with a byte order mark."""
    with open_decompressed(path) as file:
        return file.read(len(BYTE_ORDER_MARK)) == BYTE_ORDER_MARK


def detect_binary(start: bytes) -> str | None:
    """Return what is wrong with a file and what to do if its first line is not UTF-8 text.

    The message continues a sentence that begins with the name of the file. None if it may be text.
    """
    encoding = _detect_wide_encoding(start)
    if encoding is not None:
        return (
            f"looks like {encoding}; expected UTF-8: "
            f"convert it with iconv -f {encoding.lower()} -t utf-8"
        )
    kind = next((kind for mark, kind in ARCHIVE_MARKS.items() if start.startswith(mark)), None)
    if start[TAR_MARK_OFFSET:].startswith(TAR_MARK):
        kind = "tar"
    return f"is a compressed file or archive ({kind}); expected text: unpack it" if kind else None


def _detect_wide_encoding(start: bytes) -> str | None:
    """Return UTF-16 or UTF-32 if the bytes begin with its mark, or if every other byte is zero."""
    if start.startswith(UTF_32_MARKS):
        return "UTF-32"
    if start.startswith(UTF_16_MARKS):
        return "UTF-16"
    even, odd = start[:UTF_16_SAMPLE:2], start[1:UTF_16_SAMPLE:2]
    for low_bytes, high_bytes, name in ((even, odd, "UTF-16LE"), (odd, even, "UTF-16BE")):
        is_mostly_zero = high_bytes.count(0) > len(high_bytes) / 2
        if len(high_bytes) > 1 and 0 not in low_bytes and is_mostly_zero:
            return name
    return None


def sha256_of_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, without decompressing it."""
    with report_open_errors(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint_files(side: str, paths: Sequence[Path]) -> Fingerprint:
    """Return side, name and SHA-256 of each file, in order."""
    return [[side, display_name(path), sha256_of_file(path)] for path in paths]


def check_stdin_used_once(*options: Sequence[str | Path]) -> None:
    """Raise UsageError if more than one of the options' paths is standard input."""
    n_uses = sum(Path(path) == STDIN for paths in options for path in paths)
    if n_uses > 1:
        raise UsageError("standard input (-) can be read only once; give files for the others")
