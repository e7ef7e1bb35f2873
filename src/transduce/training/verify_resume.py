"""`train --verify-resume`: check that a killed and resumed run ends with identical weights."""

import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from transduce.errors import OutputError, TransduceError
from transduce.log import Log
from transduce.model_folder import WEIGHTS
from transduce.storage import sha256
from transduce.training.run_folder import CHECKPOINTS, DATA, MODEL, is_locked

STEPS, EVERY = 12, 4
SHORTENED = (f"train.steps={STEPS}", f"train.save_every={EVERY}", f"train.validate_every={STEPS}")


def verify_resume(run: Path, arguments: Sequence[str], log: Log) -> None:
    """Train a few steps without interruption, then again with two kills; compare the weights.

    `arguments` are those of `transduce train`, including RUN. Both runs are written next to RUN, on
    the same disk, and removed afterwards. Raise TransduceError if the weights differ.
    """
    folder = run.resolve().with_name(run.resolve().name + ".verify")
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise OutputError(f"{folder} already exists (from another check?); remove it") from None
    uninterrupted, interrupted = folder / "uninterrupted", folder / "interrupted"
    try:
        log(f"uninterrupted run: {STEPS} steps")
        train_until(uninterrupted / MODEL, uninterrupted, run, arguments)
        shutil.copytree(uninterrupted / DATA, interrupted / DATA)
        for step in range(EVERY, STEPS, EVERY):
            checkpoint = interrupted / CHECKPOINTS / f"step-{step:08d}"
            train_until(checkpoint, interrupted, run, arguments)
            if (interrupted / MODEL).exists():
                raise TransduceError("the training ended before it could be killed; try again")
            log(f"interrupted run: killed after step {step}")
        train_until(interrupted / MODEL, interrupted, run, arguments)
        first, second = (
            sha256((each / MODEL / WEIGHTS).read_bytes()) for each in (uninterrupted, interrupted)
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if first != second:
        raise TransduceError(
            f"resume is not exact here: {STEPS} uninterrupted steps give weights {first[:16]}, "
            f"with two kills {second[:16]}; something is not deterministic, please report it"
        )
    log(f"resume is exact here: both runs end with weights of SHA-256 {first}")


def train_until(awaited: Path, folder: Path, run: Path, arguments: Sequence[str]) -> None:
    """Run the user's command with another folder and fewer steps; kill it when `awaited` exists.

    Its stderr goes to a file. If it fails, raise its error with its exit code.
    """
    place = next(i for i, argument in enumerate(arguments) if Path(argument) == run)
    settings = [f"--set={setting}" for setting in SHORTENED]
    command = ["train", *arguments[:place], str(folder), *arguments[place + 1 :], *settings]
    stderr = folder.with_suffix(".log")
    with stderr.open("wb") as log:
        process = subprocess.Popen([sys.executable, "-P", "-m", "transduce", *command], stderr=log)
    try:
        while not awaited.exists() and process.poll() is None:
            time.sleep(0.005)
    finally:
        process.kill()
        process.wait()
    if not awaited.exists():
        error = TransduceError(
            stderr.read_text(encoding="utf-8")
            .strip()
            .split("\n")[-1]
            .removeprefix("transduce: ")
            .removeprefix("error: ")
        )
        error.exit_code = process.returncode or TransduceError.exit_code
        raise error
    while is_locked(folder):  # by ranks that have not noticed the kill yet
        time.sleep(0.05)
