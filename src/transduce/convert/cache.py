"""The cache of models converted for CTranslate2, in the user's cache folder.

A model is converted once and compared with torch. Nothing is written into the model folder.

A converted model is used only if it was made from this very model, its files are as they were
written, and no other user can have changed them.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import stat
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path

from transduce.convert.ctranslate2 import N_PARITY_PAIRS, convert, measure_parity
from transduce.errors import ModelError
from transduce.log import Log
from transduce.model_folder import ModelFolder
from transduce.storage import open_regular, read_json, remove, sha256, to_json

PARITY = "parity.json"  # the record of the conversion: its source, its files, the parity check
WORKSPACE = re.compile(r"[0-9a-f]{32}\..+")  # the name of a folder that is being converted into
FORMAT = 4  # of a converted folder; part of its name
MAX_DIFFERENCE = 1e-3  # between the log-probabilities of a token, in nats


def cache_folder(fingerprint: str) -> Path:
    """Return the cache folder of a converted model, in $XDG_CACHE_HOME or ~/.cache.

    Its name is a hash of the model's fingerprint, `FORMAT` and the version of CTranslate2.
    """
    import ctranslate2

    key = sha256(f"{fingerprint} {FORMAT} {ctranslate2.__version__}".encode())[:32]
    return (user_cache("ctranslate2") or Path(tempfile.gettempdir())) / key


def user_cache(name: str) -> Path | None:
    """Return a folder in the user's cache; None if the user has no home."""
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        return None
    return Path(home) / "transduce" / name


def find_converted(folder: ModelFolder, log: Log) -> Path:
    """Return the folder of the converted model; convert it first if it is not in the cache.

    A cache entry that is damaged, of another model, or open to other users is replaced. If the
    cache cannot be used, a temporary folder is used that exists as long as `folder` does. Raises
    ModelError if the parity check fails.
    """
    assert folder.fingerprint is not None, "a model from a folder"
    cached = cache_folder(folder.fingerprint)
    try:
        make_private_folders(cached.parent)
        if problem := find_other_writers(cached.parent):
            log(f"{problem}; the model is converted for this run only")
            return _convert_for_this_run(folder)
        if os.path.lexists(cached) and _find_damage(cached, folder.fingerprint) is None:
            return cached
        with _lock(cached.parent, log):
            return _convert_into_cache(folder, folder.fingerprint, cached, log)
    except OSError as error:
        log(
            f"cannot write to {cached.parent} ({error.strerror}); "
            "the model is converted for this run only"
        )
        return _convert_for_this_run(folder)


def discard_converted(converted: Path) -> None:
    """Remove a converted model that CTranslate2 cannot load, so that it is converted again."""
    with contextlib.suppress(OSError):
        remove(converted)


def _convert_into_cache(folder: ModelFolder, fingerprint: str, cached: Path, log: Log) -> Path:
    """Convert a model into the locked cache, unless another process has just done it."""
    if os.path.lexists(cached):
        damage = _find_damage(cached, fingerprint)
        if damage is None:
            return cached
        log(f"{cached} cannot be used ({damage}); converting again")
        remove(cached)
    for leftover in cached.parent.iterdir():  # of conversions that were killed
        if WORKSPACE.fullmatch(leftover.name):
            remove(leftover)

    workspace = Path(tempfile.mkdtemp(dir=cached.parent, prefix=f"{cached.name}."))
    try:
        difference = _convert_and_check(folder, workspace / "model")
        (workspace / "model").rename(cached)
    finally:
        shutil.rmtree(workspace, ignore_errors=True)
    log(
        f"converted for CTranslate2, once: {cached} "
        f"(largest difference from torch: {difference:.1e} nats per token)"
    )
    return cached


def _convert_for_this_run(folder: ModelFolder) -> Path:
    workspace = Path(tempfile.mkdtemp())
    weakref.finalize(folder, shutil.rmtree, workspace, ignore_errors=True)
    _convert_and_check(folder, workspace / "model")
    return workspace / "model"


@contextlib.contextmanager
def _lock(folder: Path, log: Log) -> Iterator[None]:
    """Hold the lock of the cache: one process converts, others wait and use the result.

    The operating system releases it when the process ends for any reason.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log(f"waiting for another process that converts a model in {folder}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def make_private_folders(folder: Path) -> None:
    """Create a folder and those above it, if they are missing, for this user alone."""
    for each in reversed((folder, *folder.parents)):
        if not each.exists():
            each.mkdir(mode=0o700, exist_ok=True)
    if not folder.is_dir():
        raise NotADirectoryError(0, "Not a directory")


def find_other_writers(path: Path) -> str | None:
    """Return why another user could change what is at a path, or None.

    Whoever can write to a folder above it can replace it, unless that folder is sticky, like /tmp.
    """
    real = Path(os.path.realpath(path))
    for each in (real, *real.parents):
        found = os.lstat(each)
        if found.st_uid not in (0, os.geteuid()):
            return f"{each} belongs to another user"
        is_sticky = bool(found.st_mode & stat.S_ISVTX) and each != real
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not is_sticky:
            return f"other users can write to {each} (chmod go-w forbids it)"
    return None


def _find_damage(cached: Path, fingerprint: str) -> str | None:
    """Return why a converted model cannot be used, or None."""
    try:
        for path in (cached, *cached.iterdir()):
            if problem := find_other_writers(path):
                return problem
        record = read_json(cached / PARITY, "converted model")
        if record.get("fingerprint") != fingerprint:
            return "it was converted from another model"
        digests = record.get("files")
        names = {path.name for path in cached.iterdir()} - {PARITY}
        if not isinstance(digests, dict) or digests.keys() != names:
            return f"{PARITY} lists other files"
        for name, digest in digests.items():
            if _sha256_of(cached / name) != digest:
                return f"{name} is damaged"
    except OSError as error:
        return str(error.strerror)
    except ModelError as error:
        return str(error)
    return None


def _sha256_of(path: Path) -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _convert_and_check(folder: ModelFolder, converted: Path) -> float:
    """Write a converted model and return its largest difference from torch.

    Raises ModelError if that is more than MAX_DIFFERENCE.
    """
    from transduce.model import Transformer

    assert isinstance(folder.model, Transformer), "a translation model"
    converted.mkdir(mode=0o700)
    convert(folder.model, converted)
    difference = measure_parity(folder.model, converted)
    if not difference <= MAX_DIFFERENCE:  # also if it is NaN
        raise ModelError(
            "CTranslate2 gives different scores than torch for this model "
            f"(by {difference:.2g} nats per token)"
        )
    record = {
        "fingerprint": folder.fingerprint,
        "pairs": N_PARITY_PAIRS,
        "largest_difference": difference,
        "files": {path.name: _sha256_of(path) for path in sorted(converted.iterdir())},
    }
    (converted / PARITY).write_bytes(to_json(record))
    for path in converted.iterdir():
        path.chmod(0o600)
    return difference
