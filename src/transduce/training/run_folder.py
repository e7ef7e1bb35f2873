"""The folder of a run: its files, its lock, and the checks before a run is resumed.

RUN/run.toml           all settings               RUN/checkpoints/   the last ones and the best
RUN/corpus.json        inputs: names and SHA-256  RUN/model/         the finished model
RUN/metrics.jsonl      measurements, row by row   RUN/tensorboard/   if TensorBoard is installed
RUN/report.html        the metrics as a page      RUN/data/          the prepared corpus
RUN/film.safetensors   output for one text at each validation
"""

import contextlib
import fcntl
import os
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from transduce.config import Config, Layer, differences, read_toml, resolve, to_toml, unwritten
from transduce.data.prepared import Inputs, check_same_inputs, is_inputs
from transduce.errors import (
    BusyError,
    ConfigError,
    DataError,
    MissingInputError,
    ModelError,
    OutputError,
)
from transduce.log import Log
from transduce.storage import PARTIAL, open_regular, read_json, replace_file, to_json

SETTINGS, CORPUS, DATA = "run.toml", "corpus.json", "data"
METRICS, CHECKPOINTS, MODEL = "metrics.jsonl", "checkpoints", "model"
PAGE, BOARD, FILM, LOCK = "report.html", "tensorboard", "film.safetensors", "lock"
MAX_HOLDER = 1000  # characters of the description of a process
MAX_FILM_BYTES = 1 << 28  # far above 120 frames of the largest models
RESTORE = "restore it from a copy, or choose a new run folder"
# Files of a run that was stopped before its settings were written.
UNFINISHED = {DATA, CORPUS, CHECKPOINTS, LOCK, SETTINGS + PARTIAL, CORPUS + PARTIAL}


def check_run_folder(run: Path) -> None:
    """Raise OutputError unless `run` is new, empty or already a run folder."""
    if run.exists() and not run.is_dir():
        raise OutputError(f"{run} is a file; give a folder for the run")
    if not run.is_dir() or (run / SETTINGS).is_file():
        return
    if not {entry.name for entry in run.iterdir()} <= UNFINISHED:
        raise OutputError(f"{run} is not empty and not a run folder; choose a new folder")


@contextlib.contextmanager
def hold_run(run: Path, inputs: Inputs, log: Log) -> Iterator[None]:
    """Create the run folder if necessary and lock it.

    An existing run must have the same inputs; otherwise OutputError is raised before anything is
    changed. If the body raises an error about settings or input files, a new folder is removed.
    """
    check_run_folder(run)
    is_new = not run.exists()
    try:
        run.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_create(run, error.strerror) from None
    if not os.access(run, os.W_OK | os.X_OK):
        raise cannot_create(run, "Permission denied")
    try:
        with lock(run) as killed:
            if killed:
                log(f"note: the previous run was killed (out of memory?): {killed}")
            if (run / SETTINGS).is_file():
                check_same_inputs(run, read_inputs(run), inputs)
            yield
    except (ConfigError, DataError, MissingInputError):
        if is_new and not (run / SETTINGS).is_file():
            shutil.rmtree(run)
        raise


def read_inputs(run: Path) -> Inputs:
    """Return the inputs that a run was started with; raise ModelError if they are damaged."""
    path = run / CORPUS
    if path.exists() and not path.is_file():
        raise ModelError(f"{path} is not a regular file; {RESTORE}")
    inputs = read_json(path, "run folder", RESTORE)
    if not is_inputs(inputs):
        raise ModelError(f"{path} is damaged: it does not list the files of a corpus; {RESTORE}")
    return inputs


def record_settings(run: Path, config: Config, inputs: Inputs) -> None:
    """Write inputs and settings of a new run; raise OutputError if an existing run has others."""
    if (run / SETTINGS).is_file():
        check_same_settings(run, config)
    try:
        (run / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
        if not (run / SETTINGS).is_file():
            replace_file(run / CORPUS, to_json(inputs))
            replace_file(run / SETTINGS, to_toml(config).encode())  # last: it marks a run folder
    except OSError as error:
        raise cannot_create(run, error.strerror) from None


def check_same_settings(run: Path, config: Config) -> None:
    """Raise OutputError with the list of differences if the run has other settings."""
    before = resolve(read_toml(run / SETTINGS), unwritten_settings(run))
    changed = differences(before.model_dump(), config.model_dump())
    if changed:
        hint = ""
        if (run / MODEL).exists():
            hint = f"; to train the finished model further, use --from {run} with a new folder"
        raise OutputError(
            f"{run} already holds another run: {'; '.join(changed)}. "
            f"Choose a new folder, or give the same settings as before{hint}"
        )


def unwritten_settings(run: Path) -> Layer:
    """Return the settings that the run has but an older version did not write into run.toml."""
    if not (run / SETTINGS).is_file():
        return {}
    return {"model": unwritten(resolve(read_toml(run / SETTINGS)).model)}


def cannot_create(run: Path, reason: str | None) -> OutputError:
    """Return the error of a run folder that cannot be created."""
    return OutputError(f"cannot create the run folder {run}: {reason}")


@contextlib.contextmanager
def lock(folder: Path) -> Iterator[str]:
    """Lock a folder; yield a description of its previous process if that was killed, else "".

    The operating system releases the lock when this process ends for any reason. The lock file
    holds a description of the process, which is removed only if it ends normally. Raise BusyError
    if another process holds the lock.
    """
    with _open_lock(folder / LOCK) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = _read_holder(file) or "another process"
            raise BusyError(
                f"{folder} is in use by {holder}; wait until it ends, or choose another folder"
            ) from None
        killed = _read_holder(file)
        file.truncate(0)
        started = time.strftime("%Y-%m-%d %H:%M:%S")
        file.write(f"process {os.getpid()} on {socket.gethostname()} since {started}\n")
        file.flush()
        try:
            yield killed
        finally:
            file.truncate(0)


def _open_lock(path: Path) -> TextIO:
    """Open the lock file, or create it. A link is refused: the file behind it would be emptied."""
    if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
        raise OutputError(f"{path} is not a regular file; remove it")
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    return open(handle, "a+", encoding="utf-8", errors="replace")


def _read_holder(file: TextIO) -> str:
    """Return the description of the process in a lock file."""
    file.seek(0)
    return file.read(MAX_HOLDER).strip()


def is_locked(folder: Path) -> bool:
    """Return whether another process holds the lock of a folder."""
    try:
        with (folder / LOCK).open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def find_film(model: Path | None) -> bytes | None:
    """Return the film of the run that trained a model, or None if there is none.

    `model` is a run folder or the model folder inside one; None is the built-in model. Raise
    ModelError if the film is not a regular file, or too large for one.
    """
    if model is None:
        return None
    for folder in (model, model.parent):
        if os.path.lexists(folder / FILM):
            return _read_film(folder / FILM)
    return None


def _read_film(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            film = file.read(MAX_FILM_BYTES + 1)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}; remove it") from None
    if len(film) > MAX_FILM_BYTES:
        raise ModelError(
            f"{path} has more than {MAX_FILM_BYTES >> 20} MB, too much for a film of a training; "
            "remove it"
        )
    return film
