"""What commands write to a terminal, and what they do when a stream is closed or no stream."""

import json
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands import Run
from tests.faults.commands import run_in_shell
from transduce.model_folder import ModelFolder, save_model

# A color, a window title, C1 controls, a carriage return, direction marks and line separators.
HOSTILE = "x\x1b[31m\x1b]0;title\x07\x9b2J\x85\x7f\b\r\u202e\u2066\u200f\u2028\u2029y"


def unsafe_characters(text: str) -> set[str]:
    """The characters of a text that a terminal obeys instead of showing."""
    found = {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp", "Cs")}
    return found - {"\n"}


def test_the_hostile_text_is_hostile() -> None:
    assert len(unsafe_characters(HOSTILE)) == 12


@pytest.mark.parametrize(
    "arguments",
    [
        ("translate",),
        ("translate", "-m", f"gone{HOSTILE}"),
        ("translate", "--beam", HOSTILE),
        ("translate", f"--{HOSTILE}"),
        ("translate", HOSTILE),
        (HOSTILE,),
        ("translate", "--glossary", f"gone{HOSTILE}"),
        ("evaluate", "--hypothesis", f"gone{HOSTILE}", "--reference", f"gone{HOSTILE}"),
        ("compare", "--reference", "gone", "--system", f"{HOSTILE}=a", "--system", f"{HOSTILE}=b"),
        ("doctor", "--source", f"gone{HOSTILE}", "--target", f"gone{HOSTILE}"),
        ("train", "run", "--text", f"gone{HOSTILE}"),
        ("train", "run", "--text", "a", "--set", f"train.{HOSTILE}=1"),
        ("train", "run", "--text", "a", "--set", f"model.norm={HOSTILE}"),
        ("inspect", HOSTILE, "--beam", 1),
        ("inspect", "I love you", "--view", HOSTILE),
        ("inspect", "I love you", "--edit", HOSTILE),
        ("inspect", "I love you", "--edit", json.dumps({"op": HOSTILE})),
        ("claims", HOSTILE),
        ("serve", "--host", HOSTILE),
        ("info", "--preset", HOSTILE),
    ],
    ids=lambda arguments: f"{arguments[0][:9]}-{arguments[-2] if len(arguments) > 2 else ''}"[:30],
)
def test_no_message_carries_control_characters_of_the_data(
    transduce: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[object, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = transduce(*arguments, stdin=f"I love {HOSTILE}\n".encode())
    assert (code == 0) == (arguments == ("translate",) or arguments[:2] == ("inspect", HOSTILE))
    assert err
    assert unsafe_characters(err) == set()


def test_a_training_shows_its_texts_and_file_names_without_control_characters(
    transduce: Run, write_corpus: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    sides = []
    for option, path in zip(("--source", "--target"), write_corpus(60), strict=True):
        lines = path.read_text(encoding="utf-8").splitlines()
        hostile = path.rename(tmp_path / f"{HOSTILE}{path.name}")
        hostile.write_text("".join(f"{HOSTILE} {line}\n" for line in lines), encoding="utf-8")
        sides += [option, str(hostile)]
    settings = ["text.normalization=none", "train.steps=2", "train.validate_every=1"]
    settings += ["model.d_model=16", "model.n_layers=1"]
    more = [word for setting in settings for word in ("--set", setting)]
    code, _, err = transduce("train", tmp_path / "run", *sides, "--preset", "nano", *more)
    assert code == 0, err
    assert "  ->  " in err
    assert "U+001B" in err
    assert unsafe_characters(err) == set()


def test_names_in_a_model_folder_are_shown_without_control_characters(
    transduce: Run, untrained_folder: ModelFolder, tmp_path: Path
) -> None:
    untrained_folder.card["licence"] = HOSTILE
    untrained_folder.card[HOSTILE] = "a key"
    save_model(tmp_path / HOSTILE, untrained_folder)
    code, out, err = transduce("info", "-m", tmp_path / HOSTILE)
    assert (code, err) == (0, "")
    assert "xU+001B[31mU+001B]0;title" in out
    assert unsafe_characters(out) == set()

    config = tmp_path / HOSTILE / "config.json"
    content = json.loads(config.read_text(encoding="utf-8"))
    content["model"][HOSTILE] = 1
    config.write_text(json.dumps(content), encoding="utf-8")
    code, _, err = transduce("info", "-m", tmp_path / HOSTILE)
    assert code == 78
    assert unsafe_characters(err) == set()


def test_data_on_stdout_is_what_the_model_wrote_byte_for_byte(transduce: Run) -> None:
    _, out, _ = transduce("translate", "--json", "--beam", 1, stdin=f"{HOSTILE}\n".encode())
    assert json.loads(out)["source"] == HOSTILE.removesuffix("\r")


@pytest.mark.parametrize(
    "command",
    [
        "$T --help",
        'echo "I love you" | $T translate --beam 1',
        'echo a > "$1/a"; $T evaluate --hypothesis "$1/a" --reference "$1/a"',
    ],
)
def test_output_to_a_closed_stdout_is_an_error(command: str, tmp_path: Path) -> None:
    """Without it the output would be lost, and the exit code would say that all is well."""
    assert run_in_shell(f"{command} >&-", tmp_path).failed_with(
        74, "standard output is closed; redirect it to a file, or to /dev/null to discard it"
    )


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["$T --help", "echo hi | $T translate --beam 1"])
def test_a_full_disk_behind_stdout_is_an_error(command: str, unbuffered: str) -> None:
    done = run_in_shell(f"export PYTHONUNBUFFERED={unbuffered}; {command} > /dev/full")
    assert done.failed_with(74, "error: cannot write to standard output: No space left on device")


def test_a_standard_input_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run_in_shell('$T translate 0> "$1"', tmp_path / "file")
    assert done.failed_with(66, "standard input cannot be read: Bad file descriptor")
