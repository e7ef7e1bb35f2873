"""`transduce train RUN ... --from MODEL` as people type it, and what a machine computes with."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.cli.test_main import SHORT
from tests.commands import Run
from tests.training.test_text_task import CHARACTERS
from transduce import load
from transduce.config import resolve
from transduce.model.weights import weights_of
from transduce.model_folder import BUILTIN, load_model
from transduce.training import choices
from transduce.training.choices import choose_precision
from transduce.training.step import autocast

Write = Callable[..., tuple[Path, Path]]
GENTLE = ("--set", "train.learning_rate=1e-9", *SHORT)


def test_a_model_trained_further_begins_with_its_weights_and_keeps_its_pieces(
    transduce: Run, write_corpus: Write, tmp_path: Path
) -> None:
    source, target = write_corpus(60)
    command = (
        "train",
        tmp_path / "run",
        "--source",
        source,
        "--target",
        target,
        "--from",
        BUILTIN,
        *GENTLE,
    )
    code, _, err = transduce(*command)
    assert code == 0, err
    assert f"starting from {BUILTIN}: its weights, shape and vocabulary (2,775 tokens)\n" in err
    assert "learning the vocabulary" not in err
    before, after = load_model(BUILTIN), load_model(tmp_path / "run")
    for name, weight in weights_of(before.model).items():
        torch.testing.assert_close(weights_of(after.model)[name], weight, atol=1e-6, rtol=0)
    assert after.source_vocabulary == before.source_vocabulary
    assert load(tmp_path / "run").translate(["I love you very much"])[0].text == "Ti amo molto"
    code, _, err = transduce(*command[: -len(GENTLE) - 2], *GENTLE)
    assert code == 73
    assert f"{BUILTIN} is no longer given (from)" in err


def test_what_a_model_to_start_from_cannot_follow_is_refused(
    transduce: Run, write_corpus: Write, tmp_path: Path
) -> None:
    source, target = write_corpus(60)
    pairs = ("--source", source, "--target", target)
    for options, code, said in (
        ((*pairs, "--from", tmp_path / "none"), 66, f"no model folder {tmp_path / 'none'}"),
        (
            (*pairs, "--from", BUILTIN, "--set", "model.d_model=64"),
            78,
            f"model.d_model is 64, but {BUILTIN} has ",
        ),
        (
            (*pairs, "--from", BUILTIN, "--set", "text.joint=false"),
            78,
            "--from keeps the shape and the vocabulary of the model",
        ),
        (
            (*pairs, "--from", BUILTIN, "--preset", "base"),
            78,
            f"model.d_model is 512, but {BUILTIN} has ",
        ),
        (
            ("--text", source, "--from", BUILTIN),
            78,
            "has model.kind 'encoder-decoder'; expected 'decoder-only'",
        ),
    ):
        returned, _, err = transduce("train", tmp_path / "x", *options, *SHORT)
        assert (returned, said in err) == (code, True), err
        assert not (tmp_path / "x").exists()


def test_a_language_model_is_trained_further(
    transduce: Run, write_corpus: Write, tmp_path: Path
) -> None:
    text, other = write_corpus(300)
    small = (
        "--preset",
        "nano",
        "--set",
        "model.d_model=16",
        "--set",
        "model.n_layers=1",
        *CHARACTERS,
    )
    assert transduce("train", tmp_path / "first", "--text", text, *small, *SHORT)[0] == 0
    code, _, err = transduce(
        "train", tmp_path / "second", "--text", other, "--from", tmp_path / "first", *GENTLE
    )
    assert code == 0, err
    first, second = load_model(tmp_path / "first"), load_model(tmp_path / "second")
    assert second.source_vocabulary == first.source_vocabulary
    for name, weight in weights_of(first.model).items():
        torch.testing.assert_close(weights_of(second.model)[name], weight, atol=1e-6, rtol=0)


@pytest.mark.parametrize("has_it", [True, False])
def test_bfloat16_is_taken_where_the_processor_has_it_and_said(
    has_it: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choices, "has_bfloat16", lambda device: has_it)
    said: list[str] = []
    found = choose_precision(resolve({}), said.append).train
    assert found.precision == ("bfloat16" if has_it else "float32")
    assert any("bfloat16" in line for line in said) == has_it
    with autocast(found, torch.device("cpu")):
        product = torch.ones(2, 3) @ torch.ones(3, 2)
    assert product.dtype == (torch.bfloat16 if has_it else torch.float32)
    asked = resolve({"train": {"precision": "float32"}})
    assert choose_precision(asked, said.append) is asked


def test_a_language_model_cannot_stop_on_bleu(
    transduce: Run, write_corpus: Write, tmp_path: Path
) -> None:
    text, _ = write_corpus(60)
    code, _, err = transduce(
        "train", tmp_path / "x", "--text", text, "--set", "train.better_by=bleu"
    )
    assert (
        code,
        "train.better_by is 'bleu', but a language model is validated by its loss" in err,
    ) == (
        78,
        True,
    )
