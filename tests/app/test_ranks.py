"""Several processes that train one model, as people start them."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.app.trainings import SETTINGS, finish, wait_for, weights
from tests.conftest import write_grammar
from transduce.app.launch import is_lost, what_happened
from transduce.checkpoint import load_weights_file

Corpus = tuple[Path, Path]
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=2", "--module"]


def start(run: Path, corpus: Corpus, *options: str, by: tuple[str, ...] = ("-m",), **environment: str):  # type: ignore[no-untyped-def]  # Popen
    command = [sys.executable, *by, "transduce", "train", run, "--source", corpus[0], "--target", corpus[1]]
    return subprocess.Popen(
        [*map(str, command), *SETTINGS, *options], stderr=subprocess.PIPE, env={**os.environ, **environment}
    )


def children(pid: int) -> list[int]:
    """The processes that a process started, oldest first."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "State:\tZ" not in status.read_text()


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Corpus, str, Path]:
    """A corpus, and the weights and the folder of an undisturbed training of two processes on it."""
    folder = tmp_path_factory.mktemp("two")
    corpus = write_grammar(folder, 300)
    code, err = finish(start(folder / "run", corpus, "--processes", "2"))
    assert code == 0, err
    assert "2 processes: a step takes 2 batches of 256 pieces\n" in err
    assert err.count("finished:") == 1, "one of them speaks"
    return corpus, weights(folder / "run"), folder / "run"


Two = tuple[Corpus, str, Path]


def test_two_ranks_make_the_steps_of_one_with_twice_the_accumulation(two: Two, tmp_path: Path) -> None:
    corpus, _, _ = two
    exact = (
        "--set",
        "train.precision=float32",
        "--set",
        "model.dropout=0.0",
        "--set",
        "text.dropout=0.0",
        "--set",
        "train.average_last=1",
    )
    for run, how in (("one", ("--set", "train.accumulate=2")), ("two", ("--processes", "2"))):
        code, err = finish(start(tmp_path / run, corpus, *exact, *how))
        assert code == 0, err
    one, other = (load_weights_file(tmp_path / run / "model" / "model.safetensors") for run in ("one", "two"))
    assert max((one[name] - other[name]).abs().max().item() for name in one) < 1e-5


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_rank_restarts_all_from_the_last_checkpoint_and_the_weights_are_the_same(
    two: Two, tmp_path: Path, rank: int
) -> None:
    corpus, wanted, _ = two
    process = start(tmp_path / "run", corpus, "--processes", "2")
    wait_for(process, tmp_path / "run" / "checkpoints" / "step-00000008")
    os.kill(children(process.pid)[rank], signal.SIGKILL)
    code, err = finish(process)
    assert code == 0, err
    assert "note: a process was ended by SIGKILL: all 2 start again, 3 more times at most" in err
    assert "continuing from step-" in err
    assert "Traceback" not in err
    assert weights(tmp_path / "run") == wanted


def test_a_signal_stops_all_ranks_with_one_message_and_the_same_command_continues(two: Two, tmp_path: Path) -> None:
    corpus, wanted, _ = two
    process = start(tmp_path / "run", corpus, "--processes", "2")
    wait_for(process, tmp_path / "run" / "checkpoints" / "step-00000008")
    process.send_signal(signal.SIGTERM)
    code, err = finish(process)
    assert code == 143, err
    assert err.count("transduce: SIGTERM: stopped after step") == 1
    code, err = finish(start(tmp_path / "run", corpus, "--processes", "2"))
    assert code == 0, err
    assert weights(tmp_path / "run") == wanted


def test_what_the_first_rank_refuses_ends_all_with_its_code_and_message(two: Two, tmp_path: Path) -> None:
    (source, target), _, run = two
    code, err = finish(start(tmp_path / "x", (source, tmp_path / "missing.it"), "--processes", "2"))
    assert code == 66, err
    assert err.count("transduce: ") == 1
    code, err = finish(start(run, (source, target), "--processes", "2"))
    assert (code, err.count("is finished")) == (0, 1), err


def test_which_ends_are_started_again() -> None:
    assert is_lost([-9, 75])
    assert is_lost([75, 75])
    assert is_lost([0, -15])
    assert not is_lost([0, 0])
    assert not is_lost([74, 75]), "the disk is full: the first rank says so, the other only lost it"
    assert what_happened([75, 75]) == "the processes lost contact"


@pytest.mark.slow
def test_under_torchrun_the_weights_are_the_same_and_a_killed_rank_is_restarted(two: Two, tmp_path: Path) -> None:
    corpus, wanted, _ = two
    process = start(tmp_path / "run", corpus, by=tuple(TORCHRUN))
    wait_for(process, tmp_path / "run" / "checkpoints" / "step-00000008")
    os.kill(children(process.pid)[-1], signal.SIGKILL)
    code, err = finish(process)
    assert code == 0, err
    assert weights(tmp_path / "run") == wanted


@pytest.mark.slow
def test_a_rank_that_hangs_is_noticed_named_and_all_start_again(two: Two, tmp_path: Path) -> None:
    corpus, wanted, _ = two
    process = start(tmp_path / "run", corpus, "--processes", "2", TRANSDUCE_RANK_TIMEOUT="8")
    wait_for(process, tmp_path / "run" / "checkpoints" / "step-00000008")
    os.kill(children(process.pid)[1], signal.SIGSTOP)
    code, err = finish(process)
    assert code == 0, err
    assert "transduce: rank 0 of 2 lost contact with rank 1: " in err
    assert "note: the processes lost contact: all 2 start again" in err
    assert weights(tmp_path / "run") == wanted


@pytest.mark.slow
def test_ranks_end_with_their_launcher(two: Two, tmp_path: Path) -> None:
    corpus, _, _ = two
    process = start(tmp_path / "run", corpus, "--processes", "2")
    wait_for(process, tmp_path / "run" / "checkpoints" / "step-00000008")
    ranks = children(process.pid)
    assert len(ranks) == 2
    process.kill()
    finish(process)
    for _ in range(100):
        if not any(map(is_running, ranks)):
            return
        time.sleep(0.1)
    pytest.fail("a rank outlived its launcher")


@pytest.mark.slow
def test_another_number_of_processes_continues_and_says_what_that_means(two: Two, tmp_path: Path) -> None:
    corpus, _, run = two
    shutil.copytree(run, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "model")
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "step-00000024")
    code, err = finish(start(tmp_path / "run", corpus))
    assert code == 0, err
    assert "note: this training had 2 processes until step 16, now it has 1: the order of its batches stays" in err


@pytest.mark.slow
def test_a_language_model_trains_with_two_processes(two: Two, tmp_path: Path) -> None:
    corpus, _, _ = two
    command = [sys.executable, "-m", "transduce", "train", str(tmp_path / "lm"), "--text", str(corpus[0])]
    settings = ["--preset", "nano", "--set", "model.window=32", "--set", "train.steps=6", "--processes", "2"]
    code, err = finish(subprocess.Popen([*command, *settings], stderr=subprocess.PIPE))
    assert code == 0, err
    assert (tmp_path / "lm" / "model").is_dir()
