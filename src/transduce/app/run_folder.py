"""The folder of a run: what it holds, who holds it, and whether the same command may go on in it.

RUN/run.toml         every setting of the run            RUN/checkpoints/   the last ones and the best
RUN/metrics.jsonl    what happened, a row at a time      RUN/model/         the finished model
RUN/report.html      the same as a page, to be reloaded  RUN/tensorboard/   the same, where TensorBoard is installed
RUN/corpus.json      what it learns from: names and SHA-256
RUN/data/            the corpus, encoded once
"""

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from transduce.app.lock import LOCK, held
from transduce.app.prepared import Say, check_same_inputs
from transduce.config import Config, Layer, differences, read_toml, resolve, to_toml
from transduce.errors import ConfigError, DataError, MissingInputError, OutputError
from transduce.presets import preset as preset_settings
from transduce.storage import PARTIAL, read_json, replace_file, to_json

SETTINGS, CORPUS, DATA, METRICS, CHECKPOINTS, MODEL = (
    "run.toml",
    "corpus.json",
    "data",
    "metrics.jsonl",
    "checkpoints",
    "model",
)
PAGE, BOARD = "report.html", "tensorboard"


def check_run_folder(run: Path) -> None:
    """A run goes into a new or empty folder, or into its own."""
    if run.exists() and not run.is_dir():
        raise OutputError(f"{run} is a file: a run needs a folder of its own")
    if run.is_dir() and not (run / SETTINGS).is_file():
        # A run that was stopped before it began.
        begun = {DATA, CORPUS, CHECKPOINTS, LOCK, SETTINGS + PARTIAL, CORPUS + PARTIAL}
        if not {entry.name for entry in run.iterdir()} <= begun:
            raise OutputError(f"{run} is not empty and holds no run: choose a new folder")


@contextlib.contextmanager
def hold_run(run: Path, say: Say) -> Iterator[None]:
    """Make the folder of a run if it is not there, and hold it. If what was given is refused, a new folder is taken away again."""
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
                say(f"note: the training before ended without a word ({before}), perhaps for want of memory")
            yield
    except (ConfigError, DataError, MissingInputError):
        if is_new and not (run / SETTINGS).is_file():
            shutil.rmtree(run)
        raise


def check_settings(preset: str | None, settings: Sequence[Layer]) -> None:
    """Refuse what is wrong with the settings before the corpus is read. Without a preset the shape is not known yet."""
    known = ("text", "data", "train", "decode") if preset is None else ("text", "data", "model", "train", "decode")
    resolve(*(section_of(layer, known) for layer in (*((preset_settings(preset),) if preset else ()), *settings)))


def section_of(layer: Layer, names: Sequence[str]) -> Layer:
    """The sections of a layer that have one of the names, or one that nobody knows."""
    return {name: values for name, values in layer.items() if name in names or name not in Config.model_fields}


def check_same_corpus(run: Path, inputs: Mapping[str, Any]) -> None:
    """The same command continues a run; another corpus is refused before anything is touched."""
    if (run / SETTINGS).is_file():
        check_same_inputs(run, read_json(run / CORPUS), inputs)


def check_same_settings(run: Path, config: Config) -> None:
    """Other settings are refused, with the list of what differs."""
    if not (run / SETTINGS).is_file():
        return
    changed = differences(resolve(read_toml(run / SETTINGS)), config)
    if changed:
        further = (
            f"; a finished model is trained further in a new folder by --from {run}" if (run / MODEL).exists() else ""
        )
        raise OutputError(
            f"{run} already holds another run: {'; '.join(changed)}. Choose a new folder, or the old settings{further}"
        )


def create_run_folder(run: Path, config: Config, inputs: Mapping[str, Any]) -> None:
    """Write down what the run learns from and, last, its settings."""
    try:
        (run / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
        if not (run / SETTINGS).is_file():
            replace_file(run / CORPUS, to_json(inputs))
            replace_file(run / SETTINGS, to_toml(config).encode())
    except OSError as error:
        raise OutputError(f"cannot create the run folder {run}: {error.strerror}") from None
