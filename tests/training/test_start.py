"""`transduce train RUN ... --from MODEL` as users type it, and the choice of the precision."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

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


def test_fine_tuning_starts_from_the_weights_and_keeps_the_vocabulary(
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


def test_settings_that_conflict_with_the_start_model_are_refused(
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
            "has model.kind 'encoder-decoder', expected 'decoder-only'; name another model",
        ),
    ):
        returned, _, err = transduce("train", tmp_path / "x", *options, *SHORT)
        assert (returned, said in err) == (code, True), err
        assert not (tmp_path / "x").exists()


def test_the_final_weights_are_the_mean_of_the_start_model_and_what_was_learned(
    transduce: Run, write_corpus: Write, tmp_path: Path
) -> None:
    source, target = write_corpus(60)
    files = ("--source", source, "--target", target, "--from", BUILTIN)
    start = weights_of(load_model(BUILTIN).model)
    learned: dict[float, dict[str, Tensor]] = {}
    for share in (0.0, 0.25):
        run = tmp_path / str(share)
        code, _, err = transduce(
            "train", run, *files, *SHORT, "--set", f"train.start_share={share}"
        )
        assert code == 0, err
        assert ("% the start model" in err) == (share > 0)
        learned[share] = weights_of(load_model(run).model)
    for name, weight in start.items():
        mean = 0.25 * weight + 0.75 * learned[0.0][name]
        torch.testing.assert_close(learned[0.25][name], mean)
    assert any(not torch.equal(learned[0.0][name], weight) for name, weight in start.items())


def test_other_pairs_are_mixed_in_but_not_validated_on(
    transduce: Run, write_corpus: Write, tmp_path: Path
) -> None:
    source, target = write_corpus(60)
    mix = tmp_path / "general.tsv"
    mix.write_text("".join(f"We see {n} cats\tVediamo {n} gatti\n" for n in range(90)))
    files = ("train", tmp_path / "run", "--source", source, "--target", target, "--from", BUILTIN)
    code, _, err = transduce(*files, "--mix", mix, *SHORT)
    assert code == 0, err
    assert "mixed in: 90 other pairs; your own pairs are repeated as often\n" in err
    assert "preset fine-tuning: the model is fine-tuned on 60 pairs\n" in err
    data = tmp_path / "run" / "data"
    assert "cats" not in (data / "valid.jsonl").read_text()
    assert "89" in (data / "words.txt").read_text().split()
    manifest = json.loads((data / "manifest.json").read_text())
    n_own = manifest["pairs"] - manifest["split_off"]
    assert manifest["mixed"] == 90
    assert sum(part["rows"] for part in manifest["parts"]) == 2 * n_own * round(90 / 60)
    mix.write_text("We see a cat\tVediamo un gatto\n")
    code, _, err = transduce(*files, "--mix", mix, *SHORT)
    assert code == 73
    assert f"{mix} has changed" in err


def test_mixing_without_a_start_model_or_without_pairs_is_refused(
    transduce: Run, write_corpus: Write, tmp_path: Path
) -> None:
    source, target = write_corpus(60)
    blank = tmp_path / "blank.tsv"
    blank.write_text("\t\n")
    pairs = ("--source", source, "--target", target)
    for options, code, said in (
        ((*pairs, "--mix", blank), 2, "--mix is for fine-tuning, with --from MODEL"),
        (("--text", source, "--mix", blank), 2, "--mix is for sentence pairs"),
        ((*pairs, "--from", BUILTIN, "--mix", blank), 65, "no pair to mix in; check the files"),
        ((*pairs, "--from", BUILTIN, "--mix", tmp_path / "none.tsv"), 66, "none.tsv"),
        ((*pairs, "--set", "train.start_share=0.5"), 78, "give the start model with --from"),
    ):
        returned, _, err = transduce("train", tmp_path / "x", *options, *SHORT)
        assert (returned, said in err) == (code, True), err


def test_a_language_model_can_be_fine_tuned(
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


@pytest.mark.parametrize("is_supported", [True, False])
def test_bfloat16_is_chosen_and_logged_if_the_processor_supports_it(
    is_supported: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choices, "has_bfloat16", lambda device: is_supported)
    said: list[str] = []
    found = choose_precision(resolve({}), said.append).train
    assert found.precision == ("bfloat16" if is_supported else "float32")
    assert any("bfloat16" in line for line in said) == is_supported
    with autocast(found, torch.device("cpu")):
        product = torch.ones(2, 3) @ torch.ones(3, 2)
    assert product.dtype == (torch.bfloat16 if is_supported else torch.float32)
    requested = resolve({"train": {"precision": "float32"}})
    assert choose_precision(requested, said.append) is requested


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
    ) == (78, True)
