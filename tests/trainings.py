"""Trainings in separate processes, short enough to be killed often."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.commands import Run
from transduce.storage import sha256

# A corpus, and the SHA-256 of the weights of an uninterrupted training on it.
Straight = tuple[tuple[Path, Path], str]
STEPS = 24
SETTINGS = [
    *(
        "--preset",
        "nano",
        "--set",
        "model.d_model=16",
        "--set",
        "model.d_ff=16",
        "--set",
        "model.dropout=0.1",
    ),
    *(
        "--set",
        "data.batch_tokens=256",
        "--set",
        f"train.steps={STEPS}",
        "--set",
        "train.validate_every=12",
    ),
    *(
        "--set",
        "train.save_every=8",
        "--set",
        "train.average_last=2",
        "--set",
        "text.vocab_size=400",
    ),
    *("--set", "text.dropout=0.1"),
]


def start(run: Path, corpus: tuple[Path, Path], *before: str) -> "subprocess.Popen[bytes]":
    """Start a training in a process; `before` is a command that runs it, such as strace."""
    files = ["--source", corpus[0], "--target", corpus[1]]
    command = [*before, sys.executable, "-m", "transduce", "train", run, *files, *SETTINGS]
    return subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE)


def copy_data(straight: Straight, run: Path) -> None:
    """Give a new run the prepared corpus of another one, so that it trains at once."""
    (source, _), _ = straight
    shutil.copytree(source.parent / "run" / "data", run / "data")


def finish(process: "subprocess.Popen[bytes]") -> tuple[int, str]:
    """Wait for a process and return its exit code and stderr."""
    _, err = process.communicate(timeout=120)
    return process.returncode, err.decode()


def resume_here(transduce: Run, run: Path, corpus: tuple[Path, Path]) -> tuple[int, str]:
    """Run the command of `start` in this process, which saves starting Python and torch."""
    files = ("--source", corpus[0], "--target", corpus[1])
    code, out, err = transduce("train", run, *files, *SETTINGS)
    assert out == ""
    assert "Traceback" not in err, err
    return code, err


def wait_for(process: "subprocess.Popen[bytes]", path: Path) -> None:
    """Wait until a file of the run exists; fail if the process ends before."""
    while not path.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def weights(run: Path) -> str:
    """Return the SHA-256 of the final weights of a run."""
    return sha256((run / "model" / "model.safetensors").read_bytes())
