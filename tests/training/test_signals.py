"""Signals and kills of a training in a separate process."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import Run
from tests.trainings import Straight, copy_data, finish, resume_here, start, wait_for, weights


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGUSR1, 138)]
)
def test_a_signal_lets_the_step_finish_saves_and_the_same_command_ends_in_the_same_weights(
    transduce: Run, straight: Straight, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    corpus, wanted = straight
    copy_data(straight, tmp_path / "run")
    process = start(tmp_path / "run", corpus)
    wait_for(process, tmp_path / "run" / "checkpoints" / "step-00000008")
    process.send_signal(number)
    returned, err = finish(process)
    assert returned == code, err
    assert f"transduce: error: {number.name}: stopped after step" in err
    assert "Traceback" not in err
    returned, err = resume_here(transduce, tmp_path / "run", corpus)
    assert returned == 0, err
    assert "resuming from step-" in err
    assert weights(tmp_path / "run") == wanted


@pytest.mark.parametrize("moment", ["run.toml", "checkpoints/step-00000008"])
def test_a_killed_training_ends_in_the_same_weights(
    transduce: Run, straight: Straight, tmp_path: Path, moment: str
) -> None:
    corpus, wanted = straight
    process = start(tmp_path / "run", corpus)
    wait_for(process, tmp_path / "run" / moment)
    process.kill()
    finish(process)
    returned, err = resume_here(transduce, tmp_path / "run", corpus)
    assert returned == 0, err
    assert "note: the previous run was killed (out of memory?): process" in err
    assert weights(tmp_path / "run") == wanted


@pytest.mark.skipif(
    shutil.which("strace") is None, reason="strace is not installed: no kill inside a system call"
)
def test_a_training_killed_while_it_renames_a_checkpoint_ends_in_the_same_weights(
    transduce: Run, straight: Straight, tmp_path: Path
) -> None:
    corpus, wanted = straight
    # With a prepared corpus the third rename is that of a checkpoint.
    copy_data(straight, tmp_path / "run")
    inject = (
        "-f",
        "-o",
        "/dev/null",
        "-e",
        "trace=rename",
        "-e",
        "inject=rename:signal=SIGKILL:when=3",
    )
    code, err = finish(start(tmp_path / "run", corpus, "strace", *inject))
    assert code in (-9, 137), err
    assert (tmp_path / "run" / "checkpoints" / "step-00000008.partial").is_dir()
    code, err = resume_here(transduce, tmp_path / "run", corpus)
    assert code == 0, err
    assert "note: removed step-00000008.partial: incomplete" in err
    assert weights(tmp_path / "run") == wanted


def test_interrupting_any_command_is_one_line(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "transduce", "translate"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"I love you very much\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"Ti amo molto\n"
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    *engine, last = err.decode().splitlines()
    assert (process.returncode, last) == (130, "transduce: error: interrupted")
    assert all(
        line.startswith(("transduce: note: engine: ", "transduce: note: converted for CTranslate2"))
        for line in engine
    )
