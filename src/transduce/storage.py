"""Read and write files atomically: written under another name, flushed to disk, then renamed."""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transduce.errors import ModelError, OutputError, StorageError

PARTIAL = ".partial"


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder of files atomically: a reader sees the complete folder or none.

    Raise OutputError if it cannot be created, StorageError if writing fails (disk full).
    """
    partial = folder.with_name(folder.name + PARTIAL)
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        for name, content in files.items():
            write_file(partial / name, content)
        if folder.exists():
            shutil.rmtree(folder)
        partial.rename(folder)
        _flush_folder(folder.parent)
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
    """Write a file and flush it to disk."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, content: bytes) -> None:
    """Write a file atomically: a reader sees the old content or the new content."""
    partial = path.with_name(path.name + PARTIAL)
    write_file(partial, content)
    try:
        partial.rename(path)
    except FileNotFoundError:
        # A worker that outlived its killed parent wrote the same file and renamed it first.
        if not path.exists():
            raise


def sha256(content: bytes) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def to_json(value: Any) -> bytes:
    """Return a value as indented UTF-8 JSON, the form of all files this package writes."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def read_json(path: Path, folder_kind: str) -> dict[str, Any]:
    """Read a JSON object; raise ModelError if it is missing or invalid.

    `folder_kind` names in the message what the file belongs to: "model folder", "run folder", ...
    """
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ModelError(f"{path} is missing: the {folder_kind} is incomplete") from None
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ModelError(
            f"{path} is not valid JSON: {error}; the {folder_kind} is damaged"
        ) from None
    if not isinstance(value, dict):
        raise ModelError(f"{path} contains a JSON {type(value).__name__}, expected an object")
    return value


def _flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
