"""`train --verify-resume`: the proof, on the user's own corpus and machine, that a killed training ends in the same weights."""

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
from transduce.training.run_folder import CHECKPOINTS, DATA, MODEL, is_held

STEPS, EVERY = 12, 4
SHORTENED = (f"train.steps={STEPS}", f"train.save_every={EVERY}", f"train.validate_every={STEPS}")


def verify_resume(run: Path, arguments: Sequence[str], log: Log) -> None:
    """Train a few steps straight, and again with a kill -9 after each of two checkpoints; other weights are an error.

    `arguments` are those of `transduce train`, RUN among them. Both trainings live beside RUN, on its disk, and are removed.
    """
    folder = run.resolve().with_name(run.resolve().name + ".verify")
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise OutputError(
            f"{folder} is there already, perhaps from another check: remove it"
        ) from None
    straight, broken = folder / "straight", folder / "broken"
    try:
        log(f"straight: {STEPS} steps")
        train_until(straight / MODEL, straight, run, arguments)
        shutil.copytree(straight / DATA, broken / DATA)
        for step in range(EVERY, STEPS, EVERY):
            train_until(broken / CHECKPOINTS / f"step-{step:08d}", broken, run, arguments)
            if (broken / MODEL).exists():
                raise TransduceError(
                    "the training ended before it could be killed: nothing is proved, try again"
                )
            log(f"broken: kill -9 after step {step}")
        train_until(broken / MODEL, broken, run, arguments)
        first, second = (
            sha256((each / MODEL / WEIGHTS).read_bytes()) for each in (straight, broken)
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if first != second:
        raise TransduceError(
            f"resume is not exact here: {STEPS} steps straight end in weights {first[:16]}, killed twice and continued in "
            f"{second[:16]}. Something in this set-up is not deterministic: please report it"
        )
    log(f"resume is exact here: straight, and killed twice, the weights have the SHA-256 {first}")


def train_until(moment: Path, folder: Path, run: Path, arguments: Sequence[str]) -> None:
    """The user's command with another folder and fewer steps, killed when something is there; what it says goes to a file."""
    place = next(i for i, argument in enumerate(arguments) if Path(argument) == run)
    settings = [f"--set={setting}" for setting in SHORTENED]
    command = ["train", *arguments[:place], str(folder), *arguments[place + 1 :], *settings]
    said = folder.with_suffix(".log")
    with said.open("wb") as log:
        process = subprocess.Popen([sys.executable, "-P", "-m", "transduce", *command], stderr=log)
    try:
        while not moment.exists() and process.poll() is None:
            time.sleep(0.005)
    finally:
        process.kill()
        process.wait()
    if not moment.exists():
        error = TransduceError(
            said.read_text(encoding="utf-8").strip().split("\n")[-1].removeprefix("transduce: ")
        )
        error.exit_code = process.returncode or TransduceError.exit_code
        raise error
    while is_held(folder):  # by ranks that have not yet noticed
        time.sleep(0.05)
