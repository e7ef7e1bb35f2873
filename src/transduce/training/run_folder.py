"""The folder of a run: what it holds, who holds it, and whether the same command may go on in it.

RUN/run.toml         every setting of the run            RUN/checkpoints/   the last ones and the best
RUN/metrics.jsonl    what happened, a row at a time      RUN/model/         the finished model
RUN/report.html      the same as a page, to be reloaded  RUN/tensorboard/   the same, where TensorBoard is installed
RUN/corpus.json      what it learns from: names and SHA-256
RUN/data/            the corpus, encoded once            RUN/film.safetensors   what it made of one text on its way
"""

import contextlib
import fcntl
import os
import shutil
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from transduce.config import Config, Layer, differences, read_toml, resolve, to_toml
from transduce.data.prepared import Inputs, check_same_inputs
from transduce.errors import BusyError, ConfigError, DataError, MissingInputError, OutputError
from transduce.log import Log
from transduce.presets import preset as preset_settings
from transduce.storage import PARTIAL, read_json, replace_file, to_json
from transduce.training.start import Start

SETTINGS, CORPUS, DATA = "run.toml", "corpus.json", "data"
METRICS, CHECKPOINTS, MODEL = "metrics.jsonl", "checkpoints", "model"
PAGE, BOARD, FILM, LOCK = "report.html", "tensorboard", "film.safetensors", "lock"


def check_run_folder(run: Path) -> None:
    """A run goes into a new or empty folder, or into its own."""
    if run.exists() and not run.is_dir():
        raise OutputError(f"{run} is a file: a run needs a folder of its own")
    if run.is_dir() and not (run / SETTINGS).is_file():
        # A run that was stopped before it began.
        begun = {DATA, CORPUS, CHECKPOINTS, LOCK, SETTINGS + PARTIAL, CORPUS + PARTIAL}
        if not {entry.name for entry in run.iterdir()} <= begun:
            raise OutputError(f"{run} is not empty and holds no run: choose a new folder")


def find_film(model: Path | None) -> bytes | None:
    """Return the film of the run that trained a model, or None if there is none.

    `model` is a run folder or the model folder inside one; None is the built-in model.
    """
    for folder in (model, model.parent) if model is not None else ():
        if (folder / FILM).is_file():
            return (folder / FILM).read_bytes()
    return None


@contextlib.contextmanager
def hold_run(run: Path, inputs: Inputs, log: Log) -> Iterator[None]:
    """Make the folder of a run if it is not there, and hold it. If what was given is refused, a new folder is taken away again.

    The same command continues a run; another corpus is refused before anything is touched.
    """
    is_new = not run.exists()
    try:
        run.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot create the run folder {run}: {error.strerror}") from None
    if not os.access(run, os.W_OK | os.X_OK):
        raise OutputError(f"cannot create the run folder {run}: Permission denied")
    try:
        with held(run) as before:
            if before:
                log(
                    f"note: the training before ended without a word ({before}), perhaps for want of memory"
                )
            if (run / SETTINGS).is_file():
                check_same_inputs(run, read_json(run / CORPUS), inputs)
            yield
    except (ConfigError, DataError, MissingInputError):
        if is_new and not (run / SETTINGS).is_file():
            shutil.rmtree(run)
        raise


def checked_settings(
    run: Path,
    preset: str | None,
    settings: Sequence[Layer],
    start: Start | None,
    log: Log,
    kind: Sequence[Layer] = (),
) -> Sequence[Layer]:
    """The settings, those of the model a training starts from among them. What is wrong is refused before the corpus is read.

    Without a preset the shape is not known yet.
    """
    check_run_folder(run)
    if start:
        start.check(preset, settings, log)
        settings = [start.settings, *settings]
    if preset:
        resolve(preset_settings(preset), *kind, *settings)
    else:
        layers = [*kind, *settings]
        resolve(
            *(
                {name: values for name, values in layer.items() if name != "model"}
                for layer in layers
            )
        )
    return settings


def check_same_settings(run: Path, config: Config) -> None:
    """Other settings are refused, with the list of what differs."""
    if not (run / SETTINGS).is_file():
        return
    changed = differences(resolve(read_toml(run / SETTINGS)).model_dump(), config.model_dump())
    if changed:
        is_finished = (run / MODEL).exists()
        further = (
            f"; a finished model is trained further in a new folder by --from {run}"
            if is_finished
            else ""
        )
        raise OutputError(
            f"{run} already holds another run: {'; '.join(changed)}. Choose a new folder, or the old settings{further}"
        )


def create_run_folder(run: Path, config: Config, inputs: Inputs) -> None:
    """Write down what the run learns from and, last, its settings."""
    try:
        (run / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
        if not (run / SETTINGS).is_file():
            replace_file(run / CORPUS, to_json(inputs))
            replace_file(run / SETTINGS, to_toml(config).encode())
    except OSError as error:
        raise OutputError(f"cannot create the run folder {run}: {error.strerror}") from None


@contextlib.contextmanager
def held(folder: Path) -> Iterator[str]:
    """Hold a folder against other processes; gives the holder before who ended without a word, if there was one.

    The system lets go of the folder when this process ends, however it ends; only a process that ends by itself removes its name.
    """
    with (folder / LOCK).open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise BusyError(
                f"{folder} is in use by {holder}: wait until it ends, or choose another folder"
            ) from None
        file.seek(0)
        before = file.read().strip()
        file.truncate(0)
        file.write(
            f"process {os.getpid()} on {socket.gethostname()} since {time.strftime('%Y-%m-%d %H:%M:%S')}\n"
        )
        file.flush()
        try:
            yield before
        finally:
            file.truncate(0)


def is_held(folder: Path) -> bool:
    """Whether a process holds a folder."""
    try:
        with (folder / LOCK).open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
