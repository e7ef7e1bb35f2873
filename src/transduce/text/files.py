"""Files of text as lines, whatever they are packed in.

Only a line feed ends a line; everything else, U+2028 and its kin too, stays inside it. A carriage return at the end of a line and a
byte order mark at the beginning of a file are taken away. `.gz`, `.xz` and `.zst` are unpacked on the way; `-` is standard input.
"""

import atexit
import glob
import gzip
import hashlib
import lzma
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from transduce.errors import DataError, MissingInputError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

STDIN = Path("-")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
PACKED = (".gz", ".xz", ".zst")
LONGEST_LINE = 1 << 24  # bytes; a longer "line" is not text, and must not fill the memory
REPLACEMENT = "�"

Errors = Literal["strict", "replace"]


def find_files(patterns: Iterable[str | Path]) -> tuple[Path, ...]:
    """The files meant by paths and patterns like `corpus-*.en`, each pattern's in the order of their names."""
    found: list[Path] = []
    for pattern in patterns:
        path = Path(pattern)
        if path == STDIN:
            found.append(keep_stdin())
        elif not path.exists() and glob.has_magic(str(pattern)):
            matches = sorted(glob.glob(str(pattern), recursive=True))
            if not matches:
                raise MissingInputError(f"no file matches {pattern}")
            found += map(Path, matches)
        else:
            found.append(path)
    return tuple(found)


@cache
def keep_stdin() -> Path:
    """Standard input as a temporary file, for what must be read more than once; removed when the program ends."""
    with tempfile.NamedTemporaryFile(prefix="transduce-stdin-", delete=False) as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    atexit.register(os.unlink, file.name)
    return Path(file.name)


def bare_suffixes(path: Path) -> list[str]:
    """The suffixes of a file without that of its packing: `train.de.gz` has `.de`."""
    suffixes = path.suffixes
    return suffixes[:-1] if suffixes and suffixes[-1] in PACKED else suffixes


def read_lines(path: Path, errors: Errors = "strict") -> Iterator[str]:
    """The lines of a UTF-8 file. Bytes that are not UTF-8 are an error that says where, or become U+FFFD."""
    for number, line in enumerate(read_raw_lines(path), start=1):
        try:
            yield line.decode()
        except UnicodeDecodeError as error:
            if errors == "replace":
                yield line.decode(errors="replace")
                continue
            raise not_utf8(path, number, line, error.start) from None


def read_raw_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file as bytes."""
    try:
        with unpack(path) as file:
            number = 0
            while line := file.readline(LONGEST_LINE + 1):
                number += 1
                if len(line) > LONGEST_LINE:
                    raise DataError(
                        f"{path}, line {number}: longer than {LONGEST_LINE >> 20} MB without a line feed: this is no text"
                    )
                if number == 1:
                    line = line.removeprefix(BYTE_ORDER_MARK)
                yield line.removesuffix(b"\n").removesuffix(b"\r")
    except FileNotFoundError:
        raise MissingInputError(f"no file {path}") from None
    except IsADirectoryError:
        raise MissingInputError(f"{path} is a folder, wanted a text file") from None
    except PermissionError:
        raise MissingInputError(f"{path} may not be read: permission denied") from None
    except EOFError:
        raise DataError(f"{path} ends too early: the packed file is truncated; copy it again") from None
    except (zlib.error, lzma.LZMAError, zstd.ZstdError, gzip.BadGzipFile) as error:
        raise DataError(f"{path} cannot be unpacked as {path.suffix}: {error}") from None


def unpack(path: Path) -> BinaryIO:
    """Open a file for reading its content, unpacked by suffix."""
    if path.is_dir():
        raise IsADirectoryError
    openers: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".zst": zstd.open}
    return cast(BinaryIO, openers.get(path.suffix, open)(path, "rb"))


def not_utf8(path: Path, number: int, line: bytes, start: int) -> DataError:
    """The error of a line that is not UTF-8."""
    if number == 1 and line.startswith(UTF_16_MARKS):
        return DataError(f"{path} looks like UTF-16, wanted UTF-8; convert it: iconv -f utf-16 -t utf-8 {path}")
    return DataError(
        f"{path}, line {number}: byte {start + 1} of the line (0x{line[start]:02x}) is not UTF-8; convert the file, for example: "
        f"iconv -f latin1 -t utf-8 {path}; or leave such lines out: transduce doctor --write"
    )


def sha256_of_file(path: Path) -> str:
    """The SHA-256 of a file as it lies there, packed or not."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise MissingInputError(f"no file {path}") from None
    except IsADirectoryError:
        raise MissingInputError(f"{path} is a folder, wanted a text file") from None
    except PermissionError:
        raise MissingInputError(f"{path} may not be read: permission denied") from None
