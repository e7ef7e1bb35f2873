"""SIGKILL at any moment, then the same command: the same weights. Dropout and BPE-dropout are on."""

import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import write_grammar
from tests.trainings import SETTINGS, finish, weights

# Calls of the operating system by which a run folder changes, and in which of them the training
# dies. Of the renames the third is the first checkpoint's, the fifth that of the best weights, the
# tenth removes an old checkpoint; fsyncs lie inside writing.
MOMENTS = [
    *(("rename", n) for n in (1, 3, 5, 6, 10)),
    *(("fsync", n) for n in (4, 6, 9, 14, 24)),
    *(("mkdir", n) for n in (2, 4)),
]
N_RANDOM = 8


class Trial:
    """A corpus that is prepared already, and how a training on it ends and how long it takes if nobody disturbs it."""

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
    """Let the system kill the training in its n-th call of some kind."""
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
def test_killed_inside_a_call_of_the_system(trial: Trial, call: str, n: int) -> None:
    kill_inside(trial, call, n)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(N_RANDOM))
def test_killed_at_a_random_moment(trial: Trial, number: int) -> None:
    run = trial.fresh(f"random-{number}")
    process = trial.start(run)
    time.sleep(random.Random(number).uniform(0.3, 1.0) * trial.seconds)
    process.kill()
    finish(process)
    trial.end(run)
    assert weights(run) == trial.weights
