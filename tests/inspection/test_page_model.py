"""The packed model inside a page."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load

from transduce.config import ModelConfig
from transduce.decode.load import load_translator
from transduce.errors import UsageError
from transduce.inspection.page_model import MAX_PARAMETERS, pack_model
from transduce.model import Transformer
from transduce.model.weights import weights_of
from transduce.model_folder import ModelFolder
from transduce.text.vocabulary import Vocabulary, learn_vocabulary


def about(content: bytes, path: Path) -> dict[str, object]:
    (path / "weights").write_bytes(content)
    with safe_open(str(path / "weights"), "pt") as file:
        return json.loads(file.metadata()["transduce.model"])


def test_the_weights_are_the_models_in_float16() -> None:
    folder = load_translator(engine="torch").folder
    packed = load(pack_model(folder))
    own = weights_of(folder.model)
    assert packed.keys() == own.keys()
    assert all(
        torch.equal(packed[name].float(), own[name]) for name in own
    )  # which were float16 already
    assert {weight.dtype for weight in packed.values()} == {torch.float16}


def test_the_metadata_has_shape_search_settings_and_pieces(tmp_path: Path) -> None:
    folder = load_translator(engine="torch").folder
    packed = about(pack_model(folder), tmp_path)
    pieces = packed["source"]["pieces"]
    assert [piece for piece, *_ in pieces[:5]] == ["[PAD]", "[SOS]", "[EOS]", "[UNK]", "<0x00>"]
    assert pieces[4][2] == "byte"
    assert len(pieces) == len(folder.source_vocabulary)
    assert packed["source"]["kind"] == "unigram"
    assert packed["source"]["dummy_prefix"] is True
    assert packed["decode"] == {
        "beam": 4,
        "alpha": 1.0,
        "length_penalty": "power",
        "max_length": None,
    }
    assert (packed["model"]["d_k"], packed["model"]["d_v"]) == (24, 24)
    assert (packed["normalization"], packed["fingerprint"]) == ("nfc", folder.fingerprint)
    assert "target" not in packed


def test_two_vocabularies_are_packed_separately(
    tmp_path: Path, untrained_folder: ModelFolder, vocabulary: Vocabulary
) -> None:
    other = learn_vocabulary(["una riga sola"], "char", 300, exact=False, is_text=True)
    packed = about(pack_model(replace(untrained_folder, target_vocabulary=other)), tmp_path)
    assert len(packed["source"]["pieces"]) == len(vocabulary)
    assert len(packed["target"]["pieces"]) == len(other)
    assert packed["target"]["dummy_prefix"] is False


def test_a_model_that_is_too_large_for_a_page_is_refused(untrained_folder: ModelFolder) -> None:
    config = ModelConfig(vocab_size=700, d_model=512, n_layers=2, n_heads=8, d_ff=1024)
    folder = replace(untrained_folder, weights=Transformer(config))
    n_parameters = sum(weight.numel() for weight in folder.model.parameters())
    assert n_parameters > MAX_PARAMETERS
    with pytest.raises(UsageError) as caught:
        pack_model(folder)
    assert str(caught.value) == (
        f"this model has {n_parameters / 1e6:.1f} million parameters, "
        "a page holds at most 8 million; "
        "remove --with-model, or use transduce serve"
    )
