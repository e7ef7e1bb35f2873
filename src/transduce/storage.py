"""Read and write the files of our own folders: models, runs, prepared corpora.

Files are written atomically: under another name, flushed to disk, then renamed. Only regular files
inside the folder are read, so that a damaged or hostile folder is refused at once.
"""

import hashlib
import io
import json
import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transduce.errors import ModelError, OutputError, StorageError

PARTIAL = ".partial"
MAX_JSON_BYTES = 1 << 24  # of a JSON file in one of our folders; they have kilobytes
SPECIAL_FILES = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder of files atomically: a reader sees the complete folder or none.

    Raise OutputError if it cannot be created, StorageError if writing fails (disk full).
    """
    partial = folder.with_name(folder.name + PARTIAL)
    try:
        remove(partial)
        partial.mkdir(parents=True)
        for name, content in files.items():
            write_file(partial / name, content)
        flush_folder(partial)
        if folder.exists():
            shutil.rmtree(folder)
        partial.rename(folder)
        flush_folder(folder.parent)
    except (FileNotFoundError, NotADirectoryError, PermissionError, FileExistsError) as error:
        raise OutputError(f"cannot create {folder}: {error.strerror}") from None
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        needed = sum(map(len, files.values())) / 1e6
        raise StorageError(
            f"cannot write {folder}: {error.strerror} ({needed:,.1f} MB needed); "
            "the incomplete folder was removed"
        ) from None


def write_file(path: Path, content: bytes) -> None:
    """Write a new file and flush it to disk. Raise FileExistsError if the path is taken."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, content: bytes) -> None:
    """Write a file of our own folders atomically: a reader sees the old or the new content.

    The temporary file has a fixed name, so that the next call replaces one that was left behind.
    """
    partial = path.with_name(path.name + PARTIAL)
    remove(partial)
    write_file(partial, content)
    try:
        partial.rename(path)
    except FileNotFoundError:
        # A worker that outlived its killed parent wrote the same file and renamed it first.
        if not path.exists():
            raise
    flush_folder(path.parent)


def flush_folder(folder: Path) -> None:
    """Flush a folder to disk: the names of the files in it, not their contents."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def open_regular(path: Path, within: Sequence[Path] = ()) -> io.BufferedReader:
    """Open a file of a model or run folder for reading.

    Raise ModelError, without waiting, unless it is a regular file inside the folder that `path`
    names, or inside one of the folders `within`, whose links are resolved. Links are followed as
    long as they stay inside. A missing file raises FileNotFoundError.
    """
    target = os.path.realpath(path, strict=True)
    folders = within or (Path(os.path.realpath(path.parent)),)
    if not any(Path(target).is_relative_to(folder) for folder in folders):
        raise ModelError(
            f"{path} is a link to a file outside the folder; it was not read: "
            "replace the link by a copy of the file"
        )
    # O_NONBLOCK: opening a named pipe would wait for a writer.
    handle = os.open(target, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW)
    kind = stat.S_IFMT(os.fstat(handle).st_mode)
    if kind != stat.S_IFREG:
        os.close(handle)
        found = SPECIAL_FILES.get(kind, "a special file")
        raise ModelError(f"{path} is {found}, expected a regular file; copy the folder again")
    return io.BufferedReader(io.FileIO(handle))


def sha256(content: bytes) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def remove(path: Path) -> None:
    """Remove the file, link or folder at a path, if any; what a link points to stays."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def to_json(value: Any) -> bytes:
    """Return a value as indented UTF-8 JSON, the form of all files this package writes."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def parse_json(text: str | bytes) -> Any:
    """Parse JSON from elsewhere.

    Raise ValueError if it is invalid, nested too deeply, or has a number with thousands of digits.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError:
        raise ValueError("a number has too many digits") from None


def read_json(path: Path, folder_kind: str, advice: str = "") -> dict[str, Any]:
    """Read a JSON object; raise ModelError if it is missing or invalid.

    `folder_kind` names in the message what the file belongs to: "model folder", "run folder", ...
    `advice` ends the message; a caller that repairs the damage itself gives none.
    """

    def error_of(problem: str) -> ModelError:
        return ModelError(f"{path} {problem}; {advice}" if advice else f"{path} {problem}")

    try:
        with open_regular(path) as file:
            n_bytes = os.fstat(file.fileno()).st_size
            if n_bytes > MAX_JSON_BYTES:
                raise error_of(
                    f"has {n_bytes:,} bytes, expected at most {MAX_JSON_BYTES:,}: "
                    f"it does not belong to a {folder_kind}"
                )
            value = parse_json(file.read())
    except FileNotFoundError:
        raise error_of(f"is missing: the {folder_kind} is incomplete") from None
    except OSError as error:
        raise error_of(f"cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise error_of(f"is not valid JSON: {error}; the {folder_kind} is damaged") from None
    if not isinstance(value, dict):
        raise error_of(f"contains a JSON {type(value).__name__}, expected an object")
    return value
