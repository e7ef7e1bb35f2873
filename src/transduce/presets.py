"""Named shapes and recipes, those of `presets.toml`, and the choice among them from the size of a corpus."""

import tomllib
from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transduce.config import Layer, nearest, resolve
from transduce.errors import ConfigError

_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
BASE: Mapping[str, Any] = _TABLES["presets"]["base"]["model"]
TABLE_3: Mapping[str, Layer] = {
    name: {**changes, "model": {**BASE, **changes["model"]}}
    for name, changes in _TABLES["table_3"].items()
}
PRESETS: Mapping[str, Layer] = {**_TABLES["presets"], **TABLE_3}
RECIPES: Mapping[str, Layer] = _TABLES["recipes"]  # of what is trained without asking
PAPER_MILLIONS: Mapping[str, int] = _TABLES[
    "paper_millions"
]  # of parameters, as Table 3 prints them


def preset(name: str) -> Layer:
    """The settings of a preset."""
    try:
        return PRESETS[name]
    except KeyError:
        raise ConfigError(f"unknown preset {name!r}: {nearest(name, PRESETS)}") from None


@dataclass(frozen=True, slots=True)
class Proposal:
    """Settings that suit a corpus, and why: reasons by dotted name, for those that were not asked for."""

    settings: Layer
    reasons: Mapping[str, str]


def propose(n_pairs: int, n_tokens: int, name: str, asked: Sequence[Layer] = ()) -> Proposal:
    """Batch and length of training for a corpus of so many pairs and target pieces, with the shape of a preset.

    It depends on nothing but these numbers and what was asked for, so that the same corpus gives the same model everywhere.
    """
    wanted = _asked_for(asked)
    recipe = resolve(preset(name)).train
    epochs = (
        100 if n_pairs < 10_000 else 60 if n_pairs < 100_000 else 20 if n_pairs < 1_000_000 else 10
    )
    batch_tokens = wanted.get("batch_tokens") or (
        1024 if n_pairs < 20_000 else 4096 if n_pairs < 1_000_000 else 8192
    )
    steps = _steps(epochs, n_tokens, batch_tokens, wanted)
    every = max(1, steps // 25)
    warmup_steps = min(recipe.warmup_steps, max(1, steps // 5))
    chosen = {
        "steps": steps,
        "warmup_steps": warmup_steps,
        "validate_every": every,
        "save_every": every,
    }
    reasons = {
        "data.batch_tokens": f"what suits {n_pairs:,} pairs",
        "train.steps": f"about {epochs} times through {n_tokens:,} target pieces; less if validation stops improving",
        "train.warmup_steps": "a fifth of the steps, at most the preset's",
        "train.validate_every": "25 looks on the way",
    }
    return _proposal(name, batch_tokens, chosen, reasons, wanted)


def _steps(passes: int, n_tokens: int, batch_tokens: int, wanted: Mapping[str, Any]) -> int:
    """Steps that go so many times through the pieces, within bounds; or as many as were asked for."""
    of_a_step = batch_tokens * wanted.get("accumulate", 1)
    return wanted.get("steps") or min(100_000, max(500, passes * n_tokens // of_a_step))


def _proposal(
    name: str,
    batch_tokens: int,
    chosen: Mapping[str, Any],
    reasons: Mapping[str, str],
    wanted: Mapping[str, Any],
) -> Proposal:
    """A preset with what was chosen for it, and the reasons for what was not asked for."""
    settings = {**preset(name), "data": {"batch_tokens": batch_tokens}}
    settings["train"] = {**settings.get("train", {}), **chosen}
    return Proposal(
        settings, {name: why for name, why in reasons.items() if name.split(".")[1] not in wanted}
    )


def _asked_for(layers: Sequence[Layer]) -> dict[str, Any]:
    """What was asked for of data and training, by key."""
    return {
        key: value
        for layer in layers
        for section in ("data", "train")
        for key, value in layer.get(section, {}).items()
    }


def shape_for(n_pairs: int) -> str:
    """The preset for a corpus of so many pairs."""
    return ("tiny", "small", "base", "big")[bisect((200_000, 1_000_000, 20_000_000), n_pairs)]


def propose_text(n_tokens: int, name: str, asked: Sequence[Layer] = ()) -> Proposal:
    """Batch and length of training for a language model on a text of so many pieces."""
    wanted = _asked_for(asked)
    batch_tokens = wanted.get("batch_tokens") or 2048
    steps = _steps(10, n_tokens, batch_tokens, wanted)
    every = max(1, steps // 20)
    warmup_steps = max(1, min(200, steps // 10))
    chosen = {
        "steps": steps,
        "warmup_steps": warmup_steps,
        "validate_every": every,
        "save_every": every,
        "schedule": "cosine",
        "learning_rate": 1e-3,
    }
    reasons = {
        "data.batch_tokens": "pieces, in full windows",
        "train.steps": f"about ten times through {n_tokens:,} pieces; less if validation stops improving",
        "train.warmup_steps": "a tenth of the steps, at most 200",
    }
    return _proposal(name, batch_tokens, chosen, reasons, wanted)


def text_shape_for(n_characters: int) -> str:
    """The preset for a language model on a text of so many characters."""
    return ("tiny", "small", "base")[bisect((3_000_000, 100_000_000), n_characters)]
