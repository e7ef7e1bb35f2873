"""`transduce train RUN ... --verify-resume` as users type it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.trainings import SETTINGS, finish
from transduce.errors import TransduceError
from transduce.training import verify_resume as verify

Corpus = tuple[Path, Path]


def command(run: Path, corpus: Corpus, *options: str) -> list[str]:
    files = ["--source", str(corpus[0]), "--target", str(corpus[1])]
    return [
        sys.executable,
        "-m",
        "transduce",
        "train",
        str(run),
        *files,
        *SETTINGS,
        *options,
        "--verify-resume",
    ]


def run(*arguments: str) -> tuple[int, str]:
    return finish(subprocess.Popen(arguments, stderr=subprocess.PIPE))


def test_a_run_killed_twice_has_the_same_weights_and_leaves_no_files(
    write_corpus: Callable[..., Corpus],
) -> None:
    files = write_corpus(300)
    folder = files[0].parent
    code, err = run(*command(folder / "run", files))
    assert code == 0, err
    expected = (
        "interrupted run: killed after step 4\n"
        "interrupted run: killed after step 8\n"
        "resume is exact here"
    )
    assert expected in err
    assert {path.name for path in folder.iterdir()} == {path.name for path in files}


def test_different_weights_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def train_until(moment: Path, folder: Path, run: Path, arguments: list[str]) -> None:
        (folder / "data").mkdir(parents=True, exist_ok=True)
        if moment.name == "model":
            moment.mkdir()
            (moment / "model.safetensors").write_text(folder.name)

    monkeypatch.setattr(verify, "train_until", train_until)
    with pytest.raises(
        TransduceError, match="resume is not exact here: 12 uninterrupted steps give weights"
    ):
        verify.verify_resume(tmp_path / "run", [str(tmp_path / "run")], lambda text: None)
    assert not list(tmp_path.iterdir())


def test_a_training_too_fast_to_be_killed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train_until(moment: Path, folder: Path, run: Path, arguments: list[str]) -> None:
        for name in ("data", "model"):
            (folder / name).mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(verify, "train_until", train_until)
    with pytest.raises(
        TransduceError,
        match="the training ended before it could be killed; try again",
    ):
        verify.verify_resume(tmp_path / "run", [str(tmp_path / "run")], lambda text: None)


def test_errors_of_train_keep_their_message_and_exit_code(
    write_corpus: Callable[..., Corpus],
) -> None:
    source, _ = files = write_corpus(300)
    code, err = run(*command(source.parent / "run", (source, source.parent / "missing")))
    assert (code, err.splitlines()[-1]) == (
        66,
        f"transduce: error: no file {source.parent / 'missing'}; check the path",
    )
    (source.parent / "run.verify").mkdir()
    code, err = run(*command(source.parent / "run", files))
    assert (code, err.strip()) == (
        73,
        f"transduce: error: {source.parent / 'run.verify'} already exists "
        "(from another check?); remove it",
    )
