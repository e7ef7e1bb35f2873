"""Models exported: the other program loads them and translates alike."""

import io
import json
import subprocess
import sys
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.convert.marian_models import write_marian
from transduce.config import ModelConfig
from transduce.convert.argos import export_argos
from transduce.convert.foreign_folder import ForeignFolder
from transduce.convert.marian_export import export_marian, unsupported_by_marian
from transduce.convert.marian_folder import MarianFolder
from transduce.convert.marian_import import ImportedModel, import_marian
from transduce.decode.load import load
from transduce.errors import MissingInputError, ModelError, OutputError, UsageError
from transduce.exchange.exporting import export_model
from transduce.exchange.parity import read_samples
from transduce.log import silent
from transduce.model_folder import BUILTIN, ModelFolder, load_model, save_model

SENTENCES = ["I love you very much", "Does Maria love the cat?", "Two  spaces, ü and 你好."]


def write(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def imported(path: Path, to: str | None = None) -> ImportedModel:
    return import_marian(MarianFolder(ForeignFolder(path)), to)


@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"tie_word_embeddings": False, "activation_function": "gelu"},
        {"share_encoder_decoder_embeddings": False, "separate_vocabs": True},
        {"tags": (">>ita<<", ">>spa<<"), "decoder_layers": 1},
    ],
    ids=["shared", "untied", "separate", "multilingual"],
)
def test_an_import_exported_and_imported_again_is_equal_to_the_bit(
    shape: dict[str, Any], tmp_path: Path
) -> None:
    pytest.importorskip("transformers")
    write_marian(tmp_path / "x", **shape)
    first = imported(tmp_path / "x", "spa" if "tags" in shape else None).folder
    second = imported(write(tmp_path / "y", export_marian(first))).folder
    ours, again = first.model.state_dict(), second.model.state_dict()
    assert ours.keys() == again.keys()
    assert all(torch.equal(ours[name], again[name]) for name in ours)
    assert second.source_vocabulary == first.source_vocabulary
    assert second.target_vocabulary == first.target_vocabulary
    assert second.config == first.config


def test_transformers_loads_an_export_and_generates_the_same(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    said: list[str] = []
    export_model(BUILTIN, tmp_path / "m", "marian", log=said.append)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends a package
        tokenizer = transformers.MarianTokenizer.from_pretrained(tmp_path / "m")
    model = transformers.MarianMTModel.from_pretrained(tmp_path / "m")
    batch = tokenizer(SENTENCES[:2], return_tensors="pt", padding=True)
    found = tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True)
    translator = load(engine="torch")
    assert found == [each.text for each in translator.translate(SENTENCES[:2])]
    vocabulary = translator.source_vocabulary
    assert tokenizer(SENTENCES)["input_ids"] == [
        [*ids, 2] for ids in vocabulary.encode_batch(SENTENCES)
    ]
    record = json.loads((tmp_path / "m" / "transduce.json").read_text())
    assert record["parity"]["same_beam"] == record["parity"]["sentences"] == 16
    assert any("model.norm_epsilon is 1e-06 here and 1e-05 in Marian" in line for line in said)


def test_the_example_of_a_ctranslate2_folder_needs_nothing_of_ours(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    export_model(BUILTIN, tmp_path / "m", "ctranslate2", log=silent)
    done = subprocess.run(
        [sys.executable, "-I", str(tmp_path / "m" / "example.py")],
        input="".join(f"{line}\n" for line in SENTENCES[:2]),
        capture_output=True,
        text=True,
        check=True,
    )
    expected = [each.text for each in load(engine="torch").translate(SENTENCES[:2])]
    assert done.stdout.splitlines() == expected
    assert len((tmp_path / "m" / "example.py").read_text().splitlines()) <= 20


def test_an_argos_package_has_the_files_that_argos_reads(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    out = tmp_path / "en_it.argosmodel"
    said: list[str] = []
    export_model(BUILTIN, out, "argos", languages=("en", "it"), log=said.append)
    assert any("compared with ctranslate2" in line for line in said)
    with zipfile.ZipFile(out) as archive:
        names = archive.namelist()
        metadata = json.loads(archive.read("translate-en_it-1_0/metadata.json"))
    assert {name.split("/")[0] for name in names} == {"translate-en_it-1_0"}
    assert {name.split("/", 1)[1] for name in names} >= {
        "model/model.bin", "model/config.json", "sentencepiece.model", "README.md",
        "spacy/config.cfg", "spacy/meta.json", "spacy/tokenizer",
    }  # fmt: skip
    assert (metadata["from_code"], metadata["to_name"]) == ("en", "Italian")


def test_argos_needs_languages_and_no_prefix() -> None:
    folder = load_model(BUILTIN)
    with pytest.raises(UsageError, match="an Argos package names its languages, which this model"):
        export_argos(folder, {}, None)
    with pytest.raises(UsageError, match=r"the language '\.\./x' is not a code, such as en"):
        export_argos(folder, {}, ("../x", "it"))
    text = folder.config.text.model_copy(update={"source_prefix": (">>ita<<",)})
    prefixed = replace(folder, config=folder.config.model_copy(update={"text": text}))
    with pytest.raises(ModelError, match="a token before each source, which Argos Translate"):
        export_argos(prefixed, {}, ("en", "it"))
    assert zipfile.is_zipfile(io.BytesIO(export_argos(folder, {}, ("en", "it"))))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"norm": "pre"}, "model.norm is 'pre'"),
        ({"positions": "learned"}, "model.positions is 'learned'"),
        ({"d_k": 4}, "the size of its heads is not d_model / n_heads"),
        ({"kind": "decoder-only"}, "it is a language model"),
    ],
)
def test_what_marian_lacks_is_named(
    change: dict[str, Any], message: str, untrained_folder: ModelFolder
) -> None:
    settings = untrained_folder.config.model.model_dump() | change
    config = untrained_folder.config.model_copy(update={"model": ModelConfig(**settings)})
    folder = replace(untrained_folder, config=config)
    assert message in str(unsupported_by_marian(folder))
    with pytest.raises(ModelError, match=message):
        export_marian(folder)


def test_faults_of_an_export_are_named_before_any_work(
    tmp_path: Path, untrained_folder: ModelFolder
) -> None:
    save_model(tmp_path / "m", untrained_folder)
    with pytest.raises(UsageError, match="--to is 'onnx'; expected marian, ctranslate2, argos"):
        export_model(tmp_path / "m", tmp_path / "out", "onnx", log=silent)
    with pytest.raises(OutputError, match="already exists; choose a new folder"):
        export_model(tmp_path / "m", tmp_path / "m", "marian", log=silent)
    with pytest.raises(OutputError, match=r"cannot create .*: no folder .*gone; create it first"):
        export_model(tmp_path / "m", tmp_path / "gone" / "x", "marian", log=silent)
    with pytest.raises(MissingInputError, match=r"--samples .*none cannot be read"):
        read_samples(tmp_path / "none", untrained_folder.source_vocabulary)
    (tmp_path / "blank").write_text("\n \n")
    with pytest.raises(MissingInputError, match=r"--samples .*blank has no sentence"):
        read_samples(tmp_path / "blank", untrained_folder.source_vocabulary)
