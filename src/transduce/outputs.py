"""Write the files that a user asks for: completely or not at all, and never over another file.

A regular or new file is written without a name first, then under a temporary name beside the
target, and renamed. It keeps its mode and owner, and a link to it stays a link. A device, a pipe,
and the file behind stdout or stderr (`/dev/stdout`) are written to directly.
"""

import contextlib
import errno
import io
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, TextIO

from transduce.errors import OutputError, StorageError, TransduceError
from transduce.storage import flush_folder

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

FAILED_WRITES = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
STANDARD_STREAMS = (1, 2)  # stdout and stderr


def check_output(path: Path) -> None:
    """Raise OutputError, before any work is done, if a file cannot be written at this path."""
    with _name_errors(path):
        found = _status(path)
        if found is not None and stat.S_ISDIR(found.st_mode):
            raise OutputError(f"{path} is a folder; expected the name of a file to write")
        if found is not None and stat.S_ISSOCK(found.st_mode):
            raise OutputError(f"{path} is a socket; expected the name of a file to write")
        if found is not None and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if found is not None and _is_written_directly(path, found):
            return
        folder = _target(path).parent
        if not folder.is_dir():
            shown = path.parent if not path.parent.is_dir() else folder
            raise OutputError(f"cannot create {path}: no folder {shown}; create it first")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


@contextlib.contextmanager
def open_output(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing bytes. It appears when the body ends, and not if the body fails.

    Raise OutputError if it cannot be created, StorageError if writing fails (disk full).
    """
    check_output(path)
    with _name_errors(path):
        found = _status(path)
        if found is not None and _is_written_directly(path, found):
            target, handle = None, _open_directly(path, found)
        else:
            target = _target(path)
    if target is None:
        with _writer(handle, path) as file:
            yield file
        return
    with _name_errors(path):
        draft = tempfile.TemporaryFile(dir=target.parent)  # noqa: SIM115  closed below
    with draft:
        with _writer(os.dup(draft.fileno()), path) as file:
            yield file
        with _name_errors(path):
            draft.seek(0)
            _replace(target, found, draft)


@contextlib.contextmanager
def open_text_output(path: Path) -> Iterator[TextIO]:
    """Open a UTF-8 file as `open_output` does. Lone surrogates are escaped."""
    with (
        open_output(path) as file,
        io.TextIOWrapper(
            file, encoding="utf-8", errors="backslashreplace", newline="\n", line_buffering=True
        ) as text,
    ):
        yield text


def write_output(path: Path, content: bytes) -> None:
    """Write a file as `open_output` does."""
    with open_output(path) as file:
        file.write(content)


class _NamedFile(io.FileIO):
    """An open file that names the output if writing fails."""

    def __init__(self, handle: int, path: Path) -> None:
        super().__init__(handle, "wb")
        self._path = path

    def write(self, data: "ReadableBuffer", /) -> int | None:  # type: ignore[override]  # None if it would block
        with _name_errors(self._path):
            return super().write(data)


def _writer(handle: int, path: Path) -> io.BufferedWriter:
    return io.BufferedWriter(_NamedFile(handle, path))


def _replace(target: Path, before: os.stat_result | None, content: IO[bytes]) -> None:
    """Write `content` under a temporary name and rename it; `before` describes the old file."""
    temporary = target.with_name(f".transduce-{secrets.token_hex(8)}")  # nobody else's
    mode = 0o666 if before is None else 0o600  # of a new file, less the umask
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with open(handle, "wb") as file:
            shutil.copyfileobj(content, file)
            file.flush()
            if before is not None:
                with contextlib.suppress(PermissionError):  # only root gives files away
                    os.fchown(handle, before.st_uid, before.st_gid)
                os.fchmod(handle, stat.S_IMODE(before.st_mode))
            os.fsync(handle)
        os.rename(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    with contextlib.suppress(PermissionError):  # a folder that may be written but not read
        flush_folder(target.parent)


def _status(path: Path) -> os.stat_result | None:
    """Return the status of what a path stands for, links followed; None if there is nothing."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _target(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _is_written_directly(path: Path, found: os.stat_result) -> bool:
    if not stat.S_ISREG(found.st_mode) or _standard_stream(found) is not None:
        return True
    named = _status(_target(path))  # another file, or none, for a link into /proc/self/fd
    return named is None or not os.path.samestat(named, found)


def _open_directly(path: Path, found: os.stat_result) -> int:
    """Return a handle for what is already there; that of a standard stream goes on where it is."""
    stream = _standard_stream(found)
    return os.dup(stream) if stream is not None else os.open(path, os.O_WRONLY | os.O_NOCTTY)


def _standard_stream(found: os.stat_result) -> int | None:
    """Return the number of the standard stream that writes to a file, or None."""
    for number in STANDARD_STREAMS:
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(number), found):
                return number
    return None


@contextlib.contextmanager
def _name_errors(path: Path) -> Iterator[None]:
    """Turn the errors of the operating system into those of an output, with its path."""
    try:
        yield
    except OSError as error:
        raised: TransduceError = OutputError(f"cannot create {path}: {error.strerror}")
        if error.errno in FAILED_WRITES:
            raised = StorageError(f"cannot write {path}: {error.strerror}")
        raise raised from None
