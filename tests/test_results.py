"""The files in results/ agree with their pages, as far as can be checked without the data."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from transduce.config import read_toml, resolve
from transduce.decode.load import load_translator
from transduce.model_folder import ModelFolder, load_model, save_model

RESULTS = Path(__file__).parent.parent / "results"
MULTI30K = RESULTS / "multi30k-en-de"


@pytest.mark.parametrize(
    "path", sorted(RESULTS.rglob("*.toml")), ids=lambda path: str(path.relative_to(RESULTS))
)
def test_every_recipe_is_valid(path: Path) -> None:
    layer = read_toml(path)
    assert "steps" in layer["train"]
    assert resolve(layer).train.steps > 0


def test_the_multi30k_model_is_small_and_has_the_settings_of_its_page() -> None:
    page = (MULTI30K / "README.md").read_text(encoding="utf-8")
    assert sum(path.stat().st_size for path in (MULTI30K / "model").iterdir()) < 16 << 20
    folder = load_model(MULTI30K / "model")
    stated = re.search(r'update=\{"beam": (\d+), "alpha": ([\d.]+)\}', page)
    assert stated is not None
    assert (folder.config.decode.beam, folder.config.decode.alpha) == (
        int(stated[1]),
        float(stated[2]),
    )
    recipe = resolve(read_toml(MULTI30K / "recipe.toml"))
    assert (folder.card["steps"], folder.config.text.dropout) == (
        recipe.train.steps,
        recipe.text.dropout,
    )


@pytest.mark.parametrize("engine", ["torch", "auto"])
def test_the_multi30k_model_translates_a_caption(engine: str) -> None:
    translator = load_translator(MULTI30K / "model", engine=engine)  # type: ignore[arg-type]
    [found] = translator.translate(["a man is riding a bike ."])
    assert found.text.startswith("ein mann fährt")
    assert found.flags == ()


def test_the_translation_nearest_to_its_reference_is_taken(tmp_path: Path) -> None:
    (tmp_path / "right").write_text("zwei hunde laufen im schnee\nein mann schläft\n")
    lists = (
        "0 ||| zwei hunde sind da ||| -0.1\n"
        "0 ||| zwei hunde laufen im park ||| -0.2\n"
        "1 ||| ein mann schläft ||| -0.1\n"
    )
    command = [sys.executable, str(MULTI30K / "nearest.py"), str(tmp_path / "right")]
    done = subprocess.run(command, input=lists.encode(), capture_output=True, check=True)
    assert done.stdout.decode() == "zwei hunde laufen im park\nein mann schläft\n"


def test_the_mean_of_a_model_and_of_three_times_its_weights_has_twice_its_weights(
    untrained_folder: ModelFolder, tmp_path: Path
) -> None:
    save_model(tmp_path / "one", untrained_folder)
    three = load_model(tmp_path / "one")
    with torch.no_grad():
        for weight in three.model.parameters():
            weight *= 3
    save_model(tmp_path / "three", three)
    command = [
        sys.executable,
        str(MULTI30K / "mean.py"),
        *(str(tmp_path / name) for name in ("out", "one", "three")),
    ]
    subprocess.run(command, check=True)
    found, one = (load_model(tmp_path / name).model.parameters() for name in ("out", "one"))
    assert all(torch.allclose(mean, 2 * weight) for mean, weight in zip(found, one, strict=True))
