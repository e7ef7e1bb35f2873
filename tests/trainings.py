"""Trainings in separate processes, short enough to be killed often."""

import subprocess
import sys
import time
from pathlib import Path

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


def finish(process: "subprocess.Popen[bytes]") -> tuple[int, str]:
    """Wait for a process and return its exit code and stderr."""
    _, err = process.communicate(timeout=120)
    return process.returncode, err.decode()


def wait_for(process: "subprocess.Popen[bytes]", path: Path) -> None:
    """Wait until a file of the run exists; fail if the process ends before."""
    while not path.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def weights(run: Path) -> str:
    """Return the SHA-256 of the final weights of a run."""
    return sha256((run / "model" / "model.safetensors").read_bytes())
