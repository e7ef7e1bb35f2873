"""The cache of models converted for CTranslate2, in the user's cache folder.

A model is converted once and compared with torch. Nothing is written into the model folder.
"""

import contextlib
import json
import os
import shutil
import tempfile
import weakref
from pathlib import Path

from transduce.convert.ctranslate2 import N_PARITY_PAIRS, convert, measure_parity
from transduce.errors import ModelError
from transduce.log import Log
from transduce.model_folder import ModelFolder
from transduce.storage import sha256
from transduce.text.files import sha256_of_file

PARITY = "parity.json"  # written last: a folder with it is complete
FORMAT = 2  # of a converted folder; part of its name
MAX_DIFFERENCE = 1e-3  # between the log-probabilities of a token, in nats


def cache_folder(fingerprint: str) -> Path:
    """Return where the converted form of a model belongs, in $XDG_CACHE_HOME or ~/.cache.

    The name is a hash of the model's fingerprint and the versions of format and CTranslate2.
    """
    import ctranslate2

    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    key = sha256(f"{fingerprint} {FORMAT} {ctranslate2.__version__}".encode())[:32]
    return Path(home) / "transduce" / "ctranslate2" / key


def find_converted(folder: ModelFolder, log: Log) -> Path:
    """Return the folder of the converted model; convert it first if it is not in the cache.

    A damaged cache entry is replaced. If the cache cannot be written, a temporary folder is used
    that exists as long as `folder` does. Raises ModelError if the parity check fails.
    """
    assert folder.fingerprint is not None, "a model from a folder"
    cached = cache_folder(folder.fingerprint)
    if (cached / PARITY).is_file():
        damage = _find_damage(cached)
        if damage is None:
            return cached
        log(f"{cached} cannot be used ({damage}); converting again")
        shutil.rmtree(cached, ignore_errors=True)

    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        workspace = Path(tempfile.mkdtemp(dir=cached.parent, prefix=f"{cached.name}."))
        is_cached = True
    except OSError as error:
        log(
            f"cannot write to {cached.parent} ({error.strerror}); "
            "the model is converted for this run only"
        )
        workspace = Path(tempfile.mkdtemp())
        is_cached = False
    remove_workspace = weakref.finalize(folder, shutil.rmtree, workspace, ignore_errors=True)

    converted = workspace / "model"
    try:
        difference = _convert_and_check(folder, converted)
    except BaseException:
        remove_workspace()
        raise
    if not is_cached:
        return converted

    if not (cached / PARITY).is_file():  # an incomplete folder, or none
        shutil.rmtree(cached, ignore_errors=True)
        cached.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # another process was first: its folder is as good
        converted.rename(cached)
    remove_workspace()
    log(
        f"converted for CTranslate2, once: {cached} "
        f"(largest difference from torch: {difference:.1e} nats per token)"
    )
    return cached


def _find_damage(cached: Path) -> str | None:
    """Return what is wrong with a converted model, or None."""
    try:
        for name, digest in json.loads((cached / PARITY).read_bytes())["files"].items():
            if sha256_of_file(cached / name) != digest:
                return f"{name} is damaged"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def _convert_and_check(folder: ModelFolder, converted: Path) -> float:
    """Write a converted model and return its largest difference from torch.

    Raises ModelError if that is more than MAX_DIFFERENCE.
    """
    from transduce.model import Transformer

    assert isinstance(folder.model, Transformer), "a translation model"
    converted.mkdir()
    convert(folder.model, converted)
    difference = measure_parity(folder.model, converted)
    if not difference <= MAX_DIFFERENCE:  # also if it is NaN
        raise ModelError(
            "CTranslate2 gives different scores than torch for this model "
            f"(by {difference:.2g} nats per token)"
        )
    files = {path.name: sha256_of_file(path) for path in sorted(converted.iterdir())}
    record = {"pairs": N_PARITY_PAIRS, "largest_difference": difference, "files": files}
    (converted / PARITY).write_text(json.dumps(record), encoding="utf-8")
    return difference
