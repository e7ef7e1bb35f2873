"""A language model from the command line."""

import json
from pathlib import Path

import pytest

from tests.cli.test_main import SHORT, TINY
from tests.commands import Run
from transduce import load
from transduce.grammar import generate
from transduce.model_folder import BUILTIN

CHARACTERS = [
    "--set",
    "text.kind=char",
    "--set",
    "model.window=16",
    "--set",
    "data.batch_tokens=256",
]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text(
        "".join(f"{pair.target}\n" for pair in generate("en-it", 300, seed=1)), encoding="utf-8"
    )
    return path


def test_from_a_text_to_a_language_model_that_generates(
    transduce: Run, corpus: Path, tmp_path: Path
) -> None:
    train = ("train", tmp_path / "lm", "--text", corpus, *TINY, *SHORT, *CHARACTERS)
    code, out, err = transduce(*train)
    assert (code, out) == (0, "")
    for said in (
        "text: 1 document,",
        "char tokens",
        "validation: the last",
        "perplexity",
        "bits per byte",
        "finished:",
    ):
        assert said in err
    write = ("generate", "-m", tmp_path / "lm", "Il gatto", "--tokens", 30, "--seed", 3)
    code, out, _ = transduce(*write)
    assert code == 0
    assert out.startswith("Il gatto")
    assert transduce(*write)[1] == out == transduce(*write, "--stream")[1]
    records = [json.loads(line) for line in transduce(*write, "--json", "--n", 2)[1].splitlines()]
    assert records[0]["prompt"] + records[0]["text"] + "\n" == out
    assert len(records[0]["pieces"]) == len(records[0]["log_probs"]) == 30
    _, _, err = transduce(
        "generate", "-m", tmp_path / "lm", "Il gatto nero dorme molto bene", "--tokens", 2
    )
    assert "the prompt has 30 tokens, the model reads 16; only the end of the prompt is used" in err
    code, out, _ = transduce("evaluate", "-m", tmp_path / "lm", "--text", corpus, "--json")
    loss, perplexity, bits = (json.loads(line) for line in out.splitlines())
    assert code == 0
    assert perplexity["value"] == pytest.approx(2.718281828 ** loss["value"])
    assert bits["name"] == "bits per byte"
    assert "is finished" in transduce(*train)[2]
    assert transduce(*train, "--set", "train.seed=9")[0] == 73
    assert load(tmp_path / "lm").generate("Il", 5)[0].text


@pytest.mark.parametrize("kind", ["bpe", "byte"])
def test_every_kind_of_vocabulary_trains_and_generates(
    transduce: Run, corpus: Path, tmp_path: Path, kind: str
) -> None:
    settings = (*CHARACTERS, "--set", f"text.kind={kind}")
    assert (
        transduce(
            "train", tmp_path / "lm", "--text", corpus, "--text", corpus, *TINY, *SHORT, *settings
        )[0]
        == 0
    )
    assert transduce("generate", "-m", tmp_path / "lm", "--tokens", 5)[0] == 0


def test_bad_input_has_its_message_and_exit_code(
    transduce: Run, corpus: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").write_text("\n \n")
    (tmp_path / "short").write_text("ab\n" * 10)
    builtin = str(BUILTIN)
    for command, wanted_code, wanted in (
        (("train", tmp_path / "x", "--text", tmp_path / "gone"), 66, "no file"),
        (
            ("train", tmp_path / "x", "--text", tmp_path / "empty"),
            65,
            "has no text to learn from",
        ),
        (
            ("train", tmp_path / "x", "--text", tmp_path / "short", "--set", "text.kind=char"),
            65,
            "is too short for model.window",
        ),
        (
            ("train", tmp_path / "x", "--text", corpus, "--source", corpus),
            2,
            "or --text for a language model",
        ),
        (
            ("train", tmp_path / "x"),
            2,
            "expected either --source and --target (or --pairs) for a translator",
        ),
        (("generate", "x"), 2, "generate needs a language model; train one"),
        (("generate", "-m", builtin, "x"), 78, "this is a translation model and cannot generate"),
        (("generate", "-m", builtin, "x", "--stream", "--n", 2), 2, "remove --json and --n"),
        (
            ("evaluate", "--text", corpus),
            2,
            "a language model is evaluated with -m MODEL --text FILE",
        ),
        (("evaluate", "-m", builtin, "--text", corpus), 78, "and cannot generate"),
        (("evaluate", "--source", corpus), 2, "missing --reference FILE"),
    ):
        code, _, err = transduce(*command)
        assert (code, wanted in err) == (wanted_code, True), err
        assert not (tmp_path / "x").exists()


def test_a_text_shorter_than_the_window_cannot_be_scored(
    transduce: Run, corpus: Path, tmp_path: Path
) -> None:
    assert transduce("train", tmp_path / "lm", "--text", corpus, *TINY, *SHORT, *CHARACTERS)[0] == 0
    (tmp_path / "short").write_text("abc")
    code, _, err = transduce("evaluate", "-m", tmp_path / "lm", "--text", tmp_path / "short")
    assert (code, "has 4 tokens; expected more than the window of the model, 16; give" in err) == (
        65,
        True,
    )
