"""Several processes that train one model, started with --processes or torchrun."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.commands import Run
from tests.conftest import write_grammar
from tests.trainings import SETTINGS, finish, wait_for, weights
from transduce.errors import StoppedError
from transduce.model.weights import load_weights_file
from transduce.training.callbacks.base import Validation, WorstSentence
from transduce.training.distributed import TIMEOUT, error_from_json, error_to_json, to_json_value
from transduce.training.launch import can_restart, describe_failure, free_port
from transduce.training.loop import validation_from_json

Corpus = tuple[Path, Path]
TORCHRUN = [
    "-m",
    "torch.distributed.run",
    "--standalone",
    "--nproc-per-node=2",
    "--max-restarts=2",
    "--module",
]


def start(
    run: Path, corpus: Corpus, *options: str, by: tuple[str, ...] = ("-m",), **environment: str
):  # type: ignore[no-untyped-def]  # Popen
    command = [
        sys.executable,
        *by,
        "transduce",
        "train",
        run,
        "--source",
        corpus[0],
        "--target",
        corpus[1],
    ]
    return subprocess.Popen(
        [*map(str, command), *SETTINGS, *options],
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
    )


def children(pid: int) -> list[int]:
    """Return the child processes of a process, oldest first."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "State:\tZ" not in status.read_text()


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Corpus, str, Path]:
    """Return a corpus, and weights and folder of an uninterrupted training of two processes."""
    folder = tmp_path_factory.mktemp("two")
    corpus = write_grammar(folder, 300)
    code, err = finish(start(folder / "run", corpus, "--processes", "2"))
    assert code == 0, err
    assert "2 processes: each step uses 2 batches of 256 tokens\n" in err
    assert err.count("finished:") == 1, "only the first rank prints"
    return corpus, weights(folder / "run"), folder / "run"


Two = tuple[Corpus, str, Path]


def test_two_ranks_make_the_steps_of_one_with_twice_the_accumulation(
    transduce: Run, two: Two, tmp_path: Path
) -> None:
    """Both start from a model that only the first rank reads."""
    corpus, _, model = two
    exact = (
        "--from",
        str(model),
        "--set",
        "train.precision=float32",
        "--set",
        "model.dropout=0.0",
        "--set",
        "text.dropout=0.0",
        "--set",
        "train.average_last=1",
    )
    files = ("--source", corpus[0], "--target", corpus[1])
    twice = ("--set", "train.accumulate=2")
    code, _, err = transduce("train", tmp_path / "one", *files, *SETTINGS, *exact, *twice)
    assert code == 0, err
    code, err = finish(start(tmp_path / "two", corpus, *exact, "--processes", "2"))
    assert code == 0, err
    one, other = (
        load_weights_file(tmp_path / run / "model" / "model.safetensors") for run in ("one", "two")
    )
    assert max((one[name] - other[name]).abs().max().item() for name in one) < 1e-5


@pytest.mark.parametrize("rank", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_killed_rank_restarts_all_from_the_last_checkpoint_and_the_weights_are_the_same(
    two: Two, tmp_path: Path, rank: int
) -> None:
    corpus, wanted, _ = two
    process = start(tmp_path / "run", corpus, "--processes", "2")
    wait_for(process, tmp_path / "run" / "checkpoints" / "step-00000008")
    os.kill(children(process.pid)[rank], signal.SIGKILL)
    code, err = finish(process)
    assert code == 0, err
    assert (
        "note: a process was killed by SIGKILL; "
        "restarting all 2 from the last checkpoint (3 restarts left)"
    ) in err
    assert "resuming from step-" in err
    assert "Traceback" not in err
    assert weights(tmp_path / "run") == wanted


def test_a_signal_stops_all_ranks_and_the_same_command_continues_from_what_is_whole(
    two: Two, tmp_path: Path
) -> None:
    corpus, wanted, _ = two
    process = start(tmp_path / "run", corpus, "--processes", "2")
    wait_for(process, tmp_path / "run" / "checkpoints" / "step-00000008")
    process.send_signal(signal.SIGTERM)
    code, err = finish(process)
    assert code == 143, err
    assert err.count("transduce: error: SIGTERM: stopped after step") == 1
    folder = tmp_path / "run" / "checkpoints"
    (folder / "best").mkdir(exist_ok=True)
    (folder / "best" / "manifest.json").write_text('{"files": []}')
    (folder / "step-00000007").touch()
    code, err = finish(start(tmp_path / "run", corpus, "--processes", "2"))
    assert code == 0, err
    assert err.count("removed step-00000007: incomplete") == 1
    assert err.count("removed best: damaged (manifest.json has no table of files)") == 1
    assert weights(tmp_path / "run") == wanted


def test_an_error_of_the_first_rank_ends_all_with_its_code_and_message(
    two: Two, tmp_path: Path
) -> None:
    (source, target), _, run = two
    code, err = finish(start(tmp_path / "x", (source, tmp_path / "missing.it"), "--processes", "2"))
    assert code == 66, err
    assert err.count("transduce: error: ") == 1
    code, err = finish(start(run, (source, target), "--processes", "2"))
    assert (code, err.count("is finished")) == (0, 1), err


def test_which_exit_codes_allow_a_restart() -> None:
    assert can_restart([-9, 76])
    assert can_restart([76, 76])
    assert can_restart([0, -15])
    assert not can_restart([0, 0])
    assert not can_restart([74, 76]), "the disk of the first rank is full; the other lost contact"
    assert not can_restart([75, 76]), "the folder is in use"
    assert describe_failure([76, 76]) == "the processes lost contact"


def test_a_signal_before_the_first_step_ends_all_ranks(two: Two, tmp_path: Path) -> None:
    process = start(tmp_path / "run", two[0], "--processes", "2")
    while len(children(process.pid)) < 2:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    code, err = finish(process)
    assert code == 143, err
    assert "restarting" not in err


def test_invalid_requests_for_several_processes_are_refused(
    transduce: Run, two: Two, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = ("train", tmp_path / "x", "--source", "-", "--target", two[0][1])
    said = "standard input can be read only once; with --processes or --verify-resume give files"
    for option in (("--processes", "2"), ("--verify-resume",)):
        assert transduce(*train, *option) == (2, "", f"transduce: error: {said}\n")
    files = ("train", tmp_path / "x", "--source", two[0][0], "--target", two[0][1])
    monkeypatch.setenv("WORLD_SIZE", "2")
    code, _, err = transduce(*files, "--processes", "2")
    assert (code, err) == (
        2,
        "transduce: error: torchrun has already started this process; remove --processes\n",
    )
    for wrong in ("two", "-1", ""):
        monkeypatch.setenv("WORLD_SIZE", wrong)
        message = f"transduce: error: WORLD_SIZE is {wrong!r}; expected the number of processes\n"
        assert transduce(*files) == (78, "", message)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv(TIMEOUT, "5min")
    code, _, err = transduce(*files)
    assert (code, err) == (
        78,
        f"transduce: error: {TIMEOUT} is '5min'; expected a number of seconds\n",
    )
    monkeypatch.setenv(TIMEOUT, "0.5")
    for name, value in {
        "RANK": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }.items():
        monkeypatch.setenv(name, value)
    code, _, err = transduce(*files)
    assert (code, "transduce: error: rank 1 cannot reach the others: " in err) == (76, True), err


def test_validations_and_errors_survive_the_broadcast() -> None:
    validation = Validation(
        1.5,
        {"BLEU": 30.0},
        "s",
        ("a", "b"),
        [WorstSentence(12.0, "x", "y", "z")],
        {"references": [1, 2]},
    )
    received = validation_from_json(json.loads(json.dumps(validation, default=to_json_value)))
    assert (received.loss, received.scores, received.signature) == (
        validation.loss,
        validation.scores,
        validation.signature,
    )
    assert json.loads(json.dumps([tmp := Path("a/b"), ["note"]], default=to_json_value)) == [
        str(tmp),
        ["note"],
    ]
    error = error_from_json(*error_to_json(StoppedError("stopped", 15))["error"])
    assert (str(error), error.exit_code, error.already_reported) == ("stopped", 143, True)


@pytest.mark.slow
def test_under_torchrun_the_weights_are_the_same_and_a_killed_rank_is_restarted(
    two: Two, tmp_path: Path
) -> None:
    corpus, wanted, _ = two
    process = start(tmp_path / "run", corpus, by=tuple(TORCHRUN))
    wait_for(process, tmp_path / "run" / "checkpoints" / "step-00000008")
    os.kill(children(process.pid)[-1], signal.SIGKILL)
    code, err = finish(process)
    assert code == 0, err
    assert weights(tmp_path / "run") == wanted


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_hangs_is_named_and_all_ranks_restart(
    two: Two, tmp_path: Path, rank: int
) -> None:
    corpus, wanted, _ = two
    process = start(tmp_path / "run", corpus, "--processes", "2", TRANSDUCE_RANK_TIMEOUT="8")
    wait_for(process, tmp_path / "run" / "checkpoints" / "step-00000008")
    os.kill(children(process.pid)[rank], signal.SIGSTOP)
    code, err = finish(process)
    assert code == 0, err
    assert f"transduce: error: rank {1 - rank} of 2 lost contact with rank {rank}: " in err
    assert "note: the processes lost contact; restarting all 2" in err
    assert weights(tmp_path / "run") == wanted


def has_own_network() -> bool:
    """Return whether a test can create a network namespace on this machine."""
    command = ["unshare", "-rn", "ip", "link", "set", "lo", "up"]
    return (
        bool(shutil.which("unshare") and shutil.which("ip"))
        and not subprocess.run(command, capture_output=True).returncode
    )


@pytest.mark.slow
def test_a_lost_network_is_detected_and_all_ranks_restart(two: Two, tmp_path: Path) -> None:
    """The loopback interface goes down after the first checkpoint until a rank reports it.

    The ranks run in a network namespace of their own.
    """
    if not has_own_network():
        pytest.skip("this machine has no network namespaces")
    (source, target), _, _ = two
    train = [
        sys.executable,
        "-m",
        "transduce",
        "train",
        tmp_path / "run",
        "--source",
        source,
        "--target",
        target,
    ]
    seldom = ("--set", "train.validate_every=1000", "--set", "train.steps=60")
    command = " ".join(map(shlex.quote, [*map(str, train), *SETTINGS, *seldom, "--processes", "2"]))
    script = f"""
        ip link set lo up
        {command} 2> {tmp_path}/said & training=$!
        while [ ! -d {tmp_path}/run/checkpoints/step-00000008 ]; do sleep 0.02; done
        ip link set lo down
        while kill -0 $training && ! grep -q 'lost contact' {tmp_path}/said; do sleep 0.1; done
        ip link set lo up
        wait $training
    """
    done = subprocess.run(
        ["unshare", "-rn", "sh", "-c", script],
        env={**os.environ, "TRANSDUCE_RANK_TIMEOUT": "6"},
        timeout=200,
    )
    said = (tmp_path / "said").read_text()
    assert done.returncode == 0, said
    assert "of 2 lost contact" in said
    assert "finished: " in said


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
def test_another_number_of_processes_resumes_with_a_note(two: Two, tmp_path: Path) -> None:
    corpus, _, run = two
    shutil.copytree(run, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "model")
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "step-00000024")
    code, err = finish(start(tmp_path / "run", corpus))
    assert code == 0, err
    assert (
        "note: until step 16 this run used 2 processes, now 1; "
        "the order of the batches stays the same"
    ) in err


@pytest.mark.slow
def test_a_language_model_trains_with_two_processes(two: Two, tmp_path: Path) -> None:
    corpus, _, _ = two
    command = [
        sys.executable,
        "-m",
        "transduce",
        "train",
        str(tmp_path / "lm"),
        "--text",
        str(corpus[0]),
    ]
    settings = [
        "--preset",
        "nano",
        "--set",
        "model.window=32",
        "--set",
        "train.steps=6",
        "--processes",
        "2",
    ]
    code, err = finish(subprocess.Popen([*command, *settings], stderr=subprocess.PIPE))
    assert code == 0, err
    assert (tmp_path / "lm" / "model").is_dir()
