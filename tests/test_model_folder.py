import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from transduce.config import ModelConfig
from transduce.errors import MissingInputError, ModelError, OutputError
from transduce.model import Transformer
from transduce.model.weights import average, weights_of
from transduce.model_folder import (
    BUILTIN,
    ModelFolder,
    find_model,
    load_model,
    open_model,
    save_model,
)
from transduce.storage import sha256

# A config.json as it was written before LayerNorm's epsilon and all later fields were settings.
OLD_CONFIG = """{
 "text": {"kind": "bpe", "vocab_size": 700, "joint": true, "normalization": "nfc",
          "languages": ["en", "it"], "dropout": 0.0},
 "model": {"kind": "encoder-decoder", "vocab_size": 700, "target_vocab_size": null, "n_layers": 1,
           "d_model": 16, "d_ff": 23, "n_heads": 2, "d_k": null, "d_v": null, "dropout": 0.1,
           "norm": "post", "positions": "sinusoidal", "window": 256, "max_positions": 1024},
 "decode": {"beam": 4, "alpha": 1.0, "length_penalty": "power", "max_length": null}
}"""


@pytest.fixture
def folder(tmp_path: Path, untrained_folder: ModelFolder) -> Path:
    save_model(tmp_path / "m", untrained_folder)
    return tmp_path / "m"


def rewrite(folder: Path, name: str, change: Callable[[bytes], bytes]) -> None:
    """Change a file of a model folder, and update its entry in the manifest."""
    content = change((folder / name).read_bytes())
    (folder / name).write_bytes(content)
    manifest = json.loads((folder / "manifest.json").read_text())
    if name != "manifest.json":
        manifest["files"][name] = {"sha256": sha256(content), "bytes": len(content)}
        (folder / "manifest.json").write_text(json.dumps(manifest))


def edit_config(folder: Path, **changes: object) -> None:
    def change(content: bytes) -> bytes:
        config = json.loads(content)
        config["model"].update(changes)
        return json.dumps(config).encode()

    rewrite(folder, "config.json", change)


def test_a_model_survives_a_round_trip_through_disk(
    folder: Path, untrained_folder: ModelFolder
) -> None:
    loaded = load_model(folder)
    assert loaded.config == untrained_folder.config
    assert (
        loaded.source_vocabulary == loaded.target_vocabulary == untrained_folder.source_vocabulary
    )
    assert loaded.words == untrained_folder.words
    for a, b in zip(loaded.model.parameters(), untrained_folder.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_an_old_folder_gives_the_same_numbers_to_the_bit(
    folder: Path, untrained_folder: ModelFolder
) -> None:
    """An old folder has no `norm_epsilon`: it was 1e-6. A new one has what it was trained with."""
    assert load_model(folder).config.model.norm_epsilon == 1e-5
    rewrite(folder, "config.json", lambda content: OLD_CONFIG.encode())
    loaded = load_model(folder)
    assert loaded.config.model.norm_epsilon == 1e-6

    values = {**untrained_folder.config.model.model_dump(), "norm_epsilon": 1e-6}
    as_before = Transformer(ModelConfig(**values)).eval()
    as_before.load_state_dict(untrained_folder.model.state_dict())
    assert weights_of(loaded.model).keys() == weights_of(as_before).keys()
    source, target = torch.randint(4, 700, (3, 11)), torch.randint(4, 700, (3, 7))
    is_real = torch.ones_like(source, dtype=torch.bool)
    logits = loaded.model(source, is_real, target)
    assert torch.equal(logits, as_before(source, is_real, target))
    assert not torch.equal(logits, untrained_folder.model(source, is_real, target))

    save_model(folder.parent / "again", loaded)
    assert load_model(folder.parent / "again").config == loaded.config


def test_the_published_models_are_old_folders_whose_epsilon_stays() -> None:
    results = Path(__file__).parent.parent / "results" / "multi30k-en-de"
    for path in (BUILTIN, results):
        assert open_model(path).config.model.norm_epsilon == 1e-6


def test_float16_halves_the_file_and_hardly_changes_the_weights(
    tmp_path: Path, untrained_folder: ModelFolder
) -> None:
    save_model(tmp_path / "full", untrained_folder)
    save_model(tmp_path / "half", untrained_folder, "float16")
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("full", "half")]
    assert sizes[1] < 0.6 * sizes[0]
    for a, b in zip(
        load_model(tmp_path / "half").model.parameters(),
        untrained_folder.model.parameters(),
        strict=True,
    ):
        assert a.dtype == torch.float32
        torch.testing.assert_close(a, b, atol=1e-3, rtol=1e-3)


def test_the_same_model_gives_the_same_bytes(tmp_path: Path, untrained_folder: ModelFolder) -> None:
    save_model(tmp_path / "a", untrained_folder)
    save_model(tmp_path / "b", untrained_folder)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_files_get_the_permissions_of_the_umask(
    tmp_path: Path, untrained_folder: ModelFolder
) -> None:
    old = os.umask(0o027)
    try:
        save_model(tmp_path / "m", untrained_folder)
    finally:
        os.umask(old)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "m").iterdir()}
    assert modes == {0o640}


def test_a_run_folder_is_accepted_as_its_model(
    tmp_path: Path, untrained_folder: ModelFolder
) -> None:
    save_model(tmp_path / "run" / "model", untrained_folder)
    assert find_model(tmp_path / "run") == tmp_path / "run" / "model"


def test_a_path_that_is_not_a_model_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match=r"no model folder .*gone"):
        load_model(tmp_path / "gone")
    (tmp_path / "corpus.txt").write_text("x")
    with pytest.raises(
        ModelError, match=r"is not a model folder: neither it nor .*model contains config\.json"
    ):
        load_model(tmp_path)
    with pytest.raises(
        ModelError, match=r"is not a model folder: neither it nor .* contains config\.json"
    ):
        load_model(tmp_path / "corpus.txt")
    (tmp_path / "run.toml").write_text("")
    with pytest.raises(
        ModelError, match="is a run folder without a model; finish the training first"
    ):
        load_model(tmp_path)


@pytest.mark.parametrize(
    "name", ["config.json", "model.safetensors", "sentencepiece.model", "words.txt"]
)
def test_missing_truncated_and_changed_files_are_named(folder: Path, name: str) -> None:
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:-1])
    with pytest.raises(
        ModelError, match=rf"{name} is damaged: {len(content) - 1} of {len(content)} bytes"
    ):
        load_model(folder)
    (folder / name).write_bytes(bytes([content[0] ^ 1]) + content[1:])
    with pytest.raises(ModelError, match=rf"{name} is damaged: its SHA-256 differs"):
        load_model(folder)
    if name != "config.json":
        (folder / name).unlink()
        with pytest.raises(ModelError, match=rf"{name} is missing, but the manifest lists it"):
            load_model(folder)


def test_a_missing_or_broken_manifest_is_named(folder: Path) -> None:
    manifest = (folder / "manifest.json").read_bytes()
    (folder / "manifest.json").write_text("[1]")
    with pytest.raises(
        ModelError, match=r"manifest\.json contains a JSON list, expected an object; copy the whole"
    ):
        load_model(folder)
    (folder / "manifest.json").write_text("{")
    with pytest.raises(ModelError, match=r"manifest\.json is not valid JSON"):
        load_model(folder)
    (folder / "manifest.json").write_bytes(manifest.replace(b'"format": 1', b'"format": 9'))
    with pytest.raises(ModelError, match="has format 9, this version of transduce reads format 1"):
        load_model(folder)
    (folder / "manifest.json").write_text('{"format": 1, "files": 3}')
    with pytest.raises(ModelError, match="has no list of files"):
        load_model(folder)
    (folder / "manifest.json").write_text('{"format": 1, "files": {}}')
    with pytest.raises(ModelError, match=r"does not list config\.json"):
        load_model(folder)
    (folder / "manifest.json").unlink()
    with pytest.raises(ModelError, match=r"manifest\.json is missing"):
        load_model(folder)


def test_a_path_outside_the_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    rewrite(
        folder, "manifest.json", lambda content: content.replace(b'"words.txt"', b'"../secret"')
    )
    with pytest.raises(
        ModelError,
        match=r"lists '\.\./secret', which is not the name of a file in the folder; it was",
    ):
        load_model(folder)


def test_a_link_to_a_file_outside_the_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "words.txt").rename(tmp_path / "elsewhere")
    (folder / "words.txt").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ModelError, match="is a link to a file outside the folder; it was not read"):
        load_model(folder)


def test_vocabulary_and_weights_that_do_not_match_are_refused_with_both_sizes(folder: Path) -> None:
    edit_config(folder, vocab_size=701)
    with pytest.raises(
        ModelError, match=r"sentencepiece\.model has 700 tokens, config\.json says 701"
    ):
        load_model(folder)


def test_weights_of_another_shape_are_refused(folder: Path) -> None:
    edit_config(folder, d_ff=29)
    with pytest.raises(
        ModelError,
        match=r"feed_forward\.w_1\.weight' has shape \(23, 16\), expected \(29, 16\) by the config",
    ):
        load_model(folder)


def test_weights_of_another_model_are_refused(folder: Path) -> None:
    edit_config(folder, n_layers=2)
    with pytest.raises(ModelError, match="is missing; the weights do not match the config"):
        load_model(folder)


def test_huge_sizes_are_compared_with_the_weights_before_they_are_allocated(folder: Path) -> None:
    edit_config(folder, d_model=65_536, d_ff=1_048_576, n_layers=1000)  # some petabytes
    with pytest.raises(ModelError, match="is missing; the weights do not match the config"):
        load_model(folder)


def test_impossible_sizes_are_refused_by_name(folder: Path) -> None:
    edit_config(folder, n_layers=10**9)
    with pytest.raises(
        ModelError,
        match=r"config\.json: model\.n_layers: Input should be less than or equal to 1000",
    ):
        load_model(folder)


def test_weights_that_are_not_safetensors_are_refused(folder: Path) -> None:
    rewrite(folder, "model.safetensors", lambda content: b"pickle" * 10)
    with pytest.raises(ModelError, match=r"model\.safetensors cannot be read as safetensors"):
        load_model(folder)


def test_a_folder_that_cannot_be_created_is_named(
    tmp_path: Path, untrained_folder: ModelFolder
) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match=r"cannot create .*file/m: Not a directory"):
        save_model(tmp_path / "file" / "m", untrained_folder)


def test_the_average_of_weights_is_the_arithmetic_mean() -> None:
    mean = average([{"w": torch.tensor([1.0, 2.0])}, {"w": torch.tensor([3.0, 6.0])}])
    assert mean["w"].tolist() == [2.0, 4.0]


def test_the_weights_file_holds_weights_and_nothing_else(
    folder: Path, untrained_folder: ModelFolder
) -> None:
    names = {name for name, _ in untrained_folder.model.named_parameters()}
    weights = load_file(folder / "model.safetensors")
    assert set(weights) == names
    save_file(weights, folder / "again.safetensors")
    assert (folder / "again.safetensors").read_bytes() == (
        folder / "model.safetensors"
    ).read_bytes()


def test_changed_weights_are_found_when_a_model_is_opened_not_when_it_is_first_used(
    folder: Path,
) -> None:
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ModelError, match=r"model\.safetensors is damaged: its SHA-256 differs"):
        open_model(folder)


def test_the_fingerprint_depends_on_every_setting_and_on_the_weights(
    folder: Path, untrained_folder: ModelFolder
) -> None:
    found = [open_model(folder).fingerprint]
    edit_config(folder, n_heads=4)  # the weights of four heads have the same shapes
    found.append(open_model(folder).fingerprint)
    with torch.no_grad():
        next(untrained_folder.model.parameters())[5] += 1
    save_model(folder.parent / "other", untrained_folder)
    found.append(open_model(folder.parent / "other").fingerprint)
    assert None not in found
    assert len(set(found)) == 3
