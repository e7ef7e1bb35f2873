"""A training killed at any moment and resumed ends in the same weights.

Dropout and BPE-dropout are on.
"""

import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import write_grammar
from tests.trainings import SETTINGS, finish, weights

# System calls that change a run folder, and the number of the call in which the training is killed.
# The third rename is that of the first checkpoint, the fifth that of the best weights, the tenth
# removes an old checkpoint. fsync is called while a file is written.
MOMENTS = [
    *(("rename", n) for n in (1, 3, 5, 6, 10)),
    *(("fsync", n) for n in (4, 6, 9, 14, 24)),
    *(("mkdir", n) for n in (2, 4)),
]
N_RANDOM = 8


class Trial:
    """A prepared corpus, and the weights and the duration of an uninterrupted training on it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.corpus = folder, write_grammar(folder, 300)
        started = time.monotonic()
        self.end(folder / "straight")
        self.seconds, self.weights = time.monotonic() - started, weights(folder / "straight")

    def start(self, run: Path, *before: str) -> "subprocess.Popen[bytes]":
        files = ["--source", str(self.corpus[0]), "--target", str(self.corpus[1])]
        command = [*before, sys.executable, "-m", "transduce", "train", str(run), *files, *SETTINGS]
        return subprocess.Popen(command, stderr=subprocess.PIPE)

    def end(self, run: Path) -> None:
        code, err = finish(self.start(run))
        assert code == 0, err

    def fresh(self, name: str) -> Path:
        run = self.folder / name
        shutil.copytree(self.folder / "straight" / "data", run / "data")
        return run


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    return Trial(tmp_path_factory.mktemp("kills"))


def kill_inside(trial: Trial, call: str, n: int) -> None:
    """Kill the training in its n-th system call of some kind, resume it, compare the weights."""
    run = trial.fresh(f"{call}-{n}")
    strace = [
        "strace",
        "-f",
        "-o",
        "/dev/null",
        "-e",
        f"trace={call}",
        "-e",
        f"inject={call}:signal=SIGKILL:when={n}",
    ]
    process = trial.start(run, *strace)
    code, err = finish(process)
    assert code in (-9, 137), f"{call} was called less than {n} times: {err}"
    trial.end(run)
    assert weights(run) == trial.weights


@pytest.mark.skipif(
    shutil.which("strace") is None, reason="strace is not installed: no kills inside a system call"
)
@pytest.mark.slow
@pytest.mark.parametrize(("call", "n"), MOMENTS)
def test_a_training_killed_inside_a_system_call_ends_in_the_same_weights(
    trial: Trial, call: str, n: int
) -> None:
    kill_inside(trial, call, n)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(N_RANDOM))
def test_a_training_killed_at_a_random_moment_ends_in_the_same_weights(
    trial: Trial, number: int
) -> None:
    run = trial.fresh(f"random-{number}")
    process = trial.start(run)
    time.sleep(random.Random(number).uniform(0.3, 1.0) * trial.seconds)
    process.kill()
    finish(process)
    trial.end(run)
    assert weights(run) == trial.weights
