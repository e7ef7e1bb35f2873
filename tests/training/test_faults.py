"""Training survives faults of its environment: closed streams, clocks, limits, no home folder."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from tests.commands import Run
from tests.trainings import (
    SETTINGS,
    Straight,
    copy_data,
    finish,
    resume_here,
    start,
    wait_for,
    weights,
)


def test_21_a_closed_pipe_and_a_hang_up_do_not_end_a_training(
    straight: Straight, tmp_path: Path
) -> None:
    corpus, wanted = straight
    copy_data(straight, tmp_path / "run")
    process = start(tmp_path / "run", corpus)
    assert process.stderr is not None
    process.stderr.readline()
    process.stderr.close()  # nobody reads its messages
    wait_for(process, tmp_path / "run" / "checkpoints" / "step-00000008")
    process.send_signal(signal.SIGHUP)  # the terminal was closed
    assert process.wait(timeout=120) == 0
    assert weights(tmp_path / "run") == wanted


def test_28_a_clock_that_jumps_affects_neither_checkpoints_nor_durations(
    transduce: Run, straight: Straight, tmp_path: Path
) -> None:
    """The older checkpoint has the newer date, but the newest one is found by its step.

    Durations come from a monotonic clock.
    """
    corpus, wanted = straight
    shutil.copytree(corpus[0].parent / "run", tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "model")
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "step-00000024")
    for path in (tmp_path / "run" / "checkpoints").glob("step-*"):
        when = 2_000_000_000 - 10_000_000 * int(path.name.removeprefix("step-"))
        os.utime(path, (when, when))
    code, err = resume_here(transduce, tmp_path / "run", corpus)
    assert code == 0, err
    assert "resuming from step-00000016" in err
    assert weights(tmp_path / "run") == wanted
    rows = [
        json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    ]
    assert all(0 <= row["seconds"] < 1000 for row in rows)


def test_30_few_files_no_home_and_a_read_only_home_are_enough(
    straight: Straight, tmp_path: Path
) -> None:
    corpus, wanted = straight
    (tmp_path / "home").mkdir(mode=0o500)
    files = ["--source", str(corpus[0]), "--target", str(corpus[1])]
    command = [sys.executable, "-m", "transduce", "train", str(tmp_path / "run"), *files, *SETTINGS]
    limited = ["sh", "-c", 'ulimit -n 64; exec "$@"', "sh", *command]
    # Another number of threads would add up in another order.
    kept = {name: os.environ[name] for name in ("PATH", "OMP_NUM_THREADS") if name in os.environ}
    for environment in ({}, {"HOME": str(tmp_path / "home")}):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        copy_data(straight, tmp_path / "run")
        process = subprocess.Popen(limited, env={**kept, **environment}, stderr=subprocess.PIPE)
        code, err = finish(process)
        assert code == 0, err
        assert weights(tmp_path / "run") == wanted
