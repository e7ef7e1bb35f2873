"""`transduce import` and `transduce export` as users type them."""

import json
from pathlib import Path

import pytest

from tests.commands import Run
from transduce.model_folder import BUILTIN


@pytest.fixture
def marian(transduce: Run, tmp_path: Path) -> Path:
    folder = tmp_path / "opus-mt-en-it"
    code, out, err = transduce("export", BUILTIN, folder, "--to", "marian")
    assert code == 0, err
    assert "tokenized identically       16 of 16\n" in out + err
    return folder


def test_an_exported_model_comes_back_and_translates(
    transduce: Run, marian: Path, tmp_path: Path
) -> None:
    code, out, err = transduce("import", tmp_path / "back", "--from", marian)
    assert code == 0, err
    code, out, _ = transduce("translate", "-m", tmp_path / "back", stdin=b"I love you very much\n")
    assert (code, out) == (0, "Ti amo molto\n")
    card = json.loads((tmp_path / "back" / "manifest.json").read_text())["card"]
    assert card["origin"] == "Hugging Face Marian model opus-mt-en-it"


def test_what_cannot_be_imported_is_named(transduce: Run, marian: Path, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "empty").write_text("")
    for options, code, said in (
        (("new", "--from", tmp_path / "none"), 66, f"no folder {tmp_path / 'none'}; check"),
        (("new", "--from", tmp_path / "empty"), 78, "is not a folder; expected a folder"),
        (("new", "--from", BUILTIN), 78, f"transduce already; use it with -m {BUILTIN}"),
        (("new", "--from", tmp_path / "old"), 78, "config.json is missing"),
        (("old", "--from", marian), 73, f"{tmp_path / 'old'} already exists"),
        (("no/new", "--from", marian), 73, f"cannot create {tmp_path / 'no' / 'new'}"),
        (("new", "--from", marian, "--to", "fra"), 2, "it has only one language; remove --to"),
        (("new", "--from", marian, "--languages", "x"), 2, "--languages is 'x'; expected"),
        (("new", "--from", marian, "--samples", tmp_path / "empty"), 66, "has no sentence"),
        (("new", "--from", marian, "--samples", tmp_path / "none"), 66, str(tmp_path / "none")),
    ):
        name, *rest = options
        returned, _, err = transduce("import", tmp_path / str(name), *rest)
        assert (returned, said in err) == (code, True), err
        assert not (tmp_path / "new").exists()


def test_what_cannot_be_exported_is_named(transduce: Run, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    for options, code, said in (
        ((tmp_path / "none", "new", "--to", "marian"), 66, "no model folder"),
        ((BUILTIN, "new", "--to", "onnx"), 2, "expected marian, ctranslate2, argos"),
        ((BUILTIN, "old", "--to", "ctranslate2"), 73, "already exists; choose a new folder"),
        ((BUILTIN, "no/new", "--to", "argos"), 73, "cannot create"),
        ((BUILTIN, "new", "--to", "argos", "--languages", "english"), 2, "such as en-fr"),
    ):
        model, name, *rest = options
        returned, _, err = transduce("export", model, tmp_path / str(name), *rest)
        assert (returned, said in err) == (code, True), err
        assert not (tmp_path / "new").exists()
