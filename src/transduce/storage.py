"""Files that are there whole or not at all: written under another name, flushed to disk, then renamed."""

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
    """Write a folder of files under another name, flush it to disk, then rename it: whole or not at all."""
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
            f"cannot write {folder}: {error.strerror} ({needed:,.1f} MB wanted); nothing of it was kept"
        ) from None


def write_file(path: Path, content: bytes) -> None:
    """Write a file and flush it to disk."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, content: bytes) -> None:
    """Write a file under another name and rename it: a reader sees the old one or the new one, whole."""
    partial = path.with_name(path.name + PARTIAL)
    write_file(partial, content)
    try:
        partial.rename(path)
    except (
        FileNotFoundError
    ):  # a worker that outlived its killed parent was writing the same file, and was first
        if not path.exists():
            raise


def sha256(content: bytes) -> str:
    """The fingerprint of a file's content."""
    return hashlib.sha256(content).hexdigest()


def to_json(value: Any) -> bytes:
    """JSON as it stands in our files."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def read_json(path: Path, what: str = "model folder") -> dict[str, Any]:
    """Read a JSON object; raise ModelError if it is missing or invalid.

    `what` names the folder that the file belongs to, for the error message.
    """
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ModelError(f"{path} is missing: this is not a whole {what}") from None
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise ModelError(f"{path} holds a {type(value).__name__}, wanted an object")
    return value


def _flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
