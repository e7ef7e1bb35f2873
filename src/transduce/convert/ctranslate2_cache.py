"""A model converted for CTranslate2: once, into the user's cache folder, never into the model folder, and compared with torch."""

import contextlib
import json
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transduce.convert.ctranslate2 import convert
from transduce.errors import ModelError
from transduce.log import Log
from transduce.model_folder import ModelFolder
from transduce.storage import sha256
from transduce.text.files import sha256_of_file

if TYPE_CHECKING:
    import transduce.model

PARITY = "parity.json"
FORM = 2  # of the converted folder; another form is another folder
N_PAIRS, LONGEST_PAIR = 8, 24  # that are scored by both engines on first use
MOST_DIFFERENCE = 1e-3  # between the log-probabilities they give a piece


def cache_folder(fingerprint: str) -> Path:
    """Where a converted model lies: $XDG_CACHE_HOME or ~/.cache, by the hash of the model and of what made it."""
    import ctranslate2

    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    key = sha256(f"{fingerprint} {FORM} {ctranslate2.__version__}".encode())[:32]
    return Path(home) / "transduce" / "ctranslate2" / key


def find_converted(folder: ModelFolder, log: Log) -> Path:
    """Where the converted model lies; it is converted and compared with the reference first if there is none yet."""
    assert folder.fingerprint is not None, "a model from a folder"
    where = cache_folder(folder.fingerprint)
    if (where / PARITY).is_file():
        if reason := _why_damaged(where):
            log(f"{where} cannot be used ({reason}): converting again")
            shutil.rmtree(where, ignore_errors=True)
        else:
            return where
    try:
        where.parent.mkdir(parents=True, exist_ok=True)
        room = Path(tempfile.mkdtemp(dir=where.parent, prefix=f"{where.name}."))
    except OSError as error:
        log(
            f"{where.parent} cannot be written ({error.strerror}): the model is converted for this time only"
        )
        room = Path(tempfile.mkdtemp())
    done = weakref.finalize(folder, shutil.rmtree, room, ignore_errors=True)
    made = room / "model"
    try:
        difference = _convert(folder, made)
    except BaseException:
        done()
        raise
    if room.parent != where.parent:
        return made  # it goes when the model goes
    if not (where / PARITY).is_file():  # half a folder, or none
        shutil.rmtree(where, ignore_errors=True)
        where.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # another process was first: its folder is as good
        made.rename(where)
    done()
    log(
        f"converted for CTranslate2, once: {where} (largest difference from torch {difference:.1e} nats a piece)"
    )
    return where


def _why_damaged(where: Path) -> str | None:
    """What is wrong with a converted model, or None."""
    try:
        for name, digest in json.loads((where / PARITY).read_bytes())["files"].items():
            if sha256_of_file(where / name) != digest:
                return f"{name} is damaged"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def _convert(folder: ModelFolder, made: Path) -> float:
    """Write a converted model and say how far its numbers are from the reference's; too far is an error."""
    import ctranslate2

    from transduce.model import Transformer

    assert isinstance(folder.model, Transformer), "a translator"
    made.mkdir()
    convert(folder.model, made)
    difference = _difference(
        ctranslate2.Translator(str(made), device="cpu", compute_type="float32"), folder.model
    )
    if not difference <= MOST_DIFFERENCE:
        raise ModelError(
            f"CTranslate2 gives other numbers than torch for this model, by {difference:.2g}"
        )
    files = {path.name: sha256_of_file(path) for path in sorted(made.iterdir())}
    (made / PARITY).write_text(
        json.dumps({"pairs": N_PAIRS, "largest_difference": difference, "files": files}),
        encoding="utf-8",
    )
    return difference


def _difference(translator: Any, model: "transduce.model.Transformer") -> float:
    """The largest difference between the log-probabilities that both engines give the pieces of random pairs."""
    import torch

    from transduce.decode.scoring import score_targets

    random = torch.Generator().manual_seed(1)
    n_source, n_target = len(model.source_embedding.weight), len(model.target_embedding.weight)

    def draw(n_pieces: int) -> list[tuple[int, ...]]:
        lengths = torch.randint(1, LONGEST_PAIR, (N_PAIRS,), generator=random).tolist()
        return [tuple(torch.randint(4, n_pieces, (n,), generator=random).tolist()) for n in lengths]

    sources, targets = draw(n_source), draw(n_target)
    theirs = translator.score_batch(
        *([[str(i) for i in ids] for ids in side] for side in (sources, targets))
    )
    ours = score_targets([model], sources, targets)
    return max(
        abs(a - b)
        for mine, other in zip(ours, theirs, strict=True)
        for a, b in zip(mine.log_probs, other.log_probs, strict=True)
    )
