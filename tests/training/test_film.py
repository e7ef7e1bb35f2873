"""The film of a training: a frame at each validation, without effect on the weights."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save

from tests.conftest import write_grammar
from transduce.decode.translator import Translator
from transduce.model_folder import ModelFolder
from transduce.storage import sha256
from transduce.training.callbacks import film
from transduce.training.callbacks.base import Validation
from transduce.training.callbacks.film import Film, load_film, make_frame
from transduce.training.run import train, train_text

SETTINGS: list[Any] = [
    {"model": {"d_model": 16, "n_layers": 2, "dropout": 0.1}},
    {"train": {"steps": 6, "validate_every": 2, "save_every": 2}, "text": {"vocab_size": 400}},
]


def test_recording_a_film_does_not_change_the_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = write_grammar(tmp_path)
    files: Any = {"source": source, "target": target, "preset": "nano", "settings": SETTINGS}
    translator = train(tmp_path / "run", **files)
    frames, tensors = load_film(tmp_path / "run" / "film.safetensors")
    rows = [
        json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    ]
    validations = [row for row in rows if "valid_loss" in row]
    assert [frame["step"] for frame in frames] == [2, 4, 6]
    assert [frame["valid_loss"] for frame in frames] == [row["valid_loss"] for row in validations]
    assert [frame["text"] for frame in frames] == [row["sample"][1] for row in validations]
    for frame in frames:
        assert frame["source"][-1] == "[EOS]"
        assert [len(step["top"]) for step in frame["steps"]] == [5] * len(frame["target"])
        for layer in range(2):
            weights = tensors[f"{frame['step']}.dec.{layer}.cross.weights"]
            assert weights.dtype == torch.float16
            assert weights.shape == (4, len(frame["target"]), len(frame["source"]))
            assert torch.allclose(weights.float().sum(dim=-1), torch.ones(()), atol=5e-3)
    last, seen = make_frame(translator.folder, validations[0]["sample"][0])
    assert last["text"] == frames[-1]["text"]
    # The final model is the average of the last checkpoints, close to the last one.
    difference = seen["dec.1.cross.weights"] - tensors["6.dec.1.cross.weights"]
    assert difference.abs().max() < 0.05

    monkeypatch.setattr(Film, "on_validation", lambda self, step, validation: None)
    train(tmp_path / "blind", **files)
    assert not (tmp_path / "blind" / "film.safetensors").exists()
    first, second = (
        (tmp_path / name / "model" / "model.safetensors").read_bytes() for name in ("run", "blind")
    )
    assert sha256(first) == sha256(second)


def test_a_language_model_has_a_film_of_its_own_attention(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("The cat sleeps. The dog runs.\n" * 60)
    settings: list[Any] = [
        SETTINGS[0],
        {"train": SETTINGS[1]["train"], "model": {"window": 32}, "text": {"kind": "char"}},
    ]
    train_text(tmp_path / "run", [tmp_path / "text"], "nano", settings)
    frames, tensors = load_film(tmp_path / "run" / "film.safetensors")
    assert [frame["step"] for frame in frames] == [2, 4, 6]
    assert frames[0]["source"] == []
    n = len(frames[0]["target"])
    assert tensors["2.dec.1.self.weights"].shape == (4, n, n)


def test_making_a_frame_changes_neither_the_model_nor_the_random_state(
    untrained_folder: ModelFolder,
) -> None:
    model = untrained_folder.model.train()
    state = torch.get_rng_state()
    make_frame(untrained_folder, "I love you")
    assert torch.equal(state, torch.get_rng_state())
    assert model.training
    assert all(module.training for module in model.modules())
    assert not [module for module in model.modules() if module._forward_hooks]


def validation(loss: float = 1.0) -> Validation:
    return Validation(loss, {}, "", ("", ""))


def test_a_resumed_training_replaces_the_later_frames(
    untrained_folder: ModelFolder, tmp_path: Path
) -> None:
    path = tmp_path / "film.safetensors"
    recorder = Film(path, untrained_folder, "I love you", print)
    recorder.on_start(None)
    for step in (2, 4, 6):
        recorder.on_validation(step, validation())
    again = Film(path, untrained_folder, "I love you", print)
    again.on_start(Path("step-00000004"))
    again.on_validation(6, validation(0.5))
    frames, tensors = load_film(path)
    assert [(frame["step"], frame["valid_loss"]) for frame in frames] == [
        (2, 1.0),
        (4, 1.0),
        (6, 0.5),
    ]
    assert {name.partition(".")[0] for name in tensors} == {"2", "4", "6"}
    again.on_validation(4, validation())  # a training that was rolled back
    assert [frame["step"] for frame in load_film(path)[0]] == [2, 4]


def test_a_long_film_loses_every_second_frame(
    untrained_folder: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(film, "MAX_FRAMES", 4)
    recorder = Film(tmp_path / "film", untrained_folder, "I love you", print)
    for step in range(1, 8):
        recorder.on_validation(step, validation())
    assert [frame["step"] for frame in load_film(tmp_path / "film")[0]] == [1, 5, 7]


@pytest.mark.parametrize(
    ("frames", "tensor"),
    [
        ("[" * 100_000, "2.a"),
        ("3", "2.a"),
        ("[3]", "2.a"),
        ("[{}]", "2.a"),
        ('[{"step": "2"}]', "2.a"),
        ('[{"step": 2, "text": "\\ud800"}]', "2.a"),
        ('[{"step": 2}]', "name"),
    ],
)
def test_a_film_of_another_form_is_replaced(
    untrained_folder: ModelFolder, tmp_path: Path, frames: str, tensor: str
) -> None:
    path = tmp_path / "film"
    path.write_bytes(save({tensor: torch.zeros(1)}, {"transduce.film": frames}))
    recorder = Film(path, untrained_folder, "I love you", print)
    recorder.on_start(Path("step-00000004"))
    recorder.on_validation(6, validation())
    assert [frame["step"] for frame in load_film(path)[0]] == [6]


def test_a_frame_that_cannot_be_written_is_noted_and_training_continues(
    untrained_folder: ModelFolder, tmp_path: Path
) -> None:
    notes: list[str] = []
    recorder = Film(tmp_path / "gone" / "film", untrained_folder, "I love you", notes.append)
    recorder.on_validation(3, validation())
    [note] = notes
    assert note.startswith("no film frame for step 3: ")
    assert note.endswith("; training continues")
    (tmp_path / "damaged").write_text("no film")
    assert load_film(tmp_path / "damaged") == ([], {})
    assert Translator(untrained_folder).folder is untrained_folder
