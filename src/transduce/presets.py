"""Presets and recipes (`presets.toml`), and settings proposed for the size of a corpus."""

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
RECIPES: Mapping[str, Layer] = _TABLES["recipes"]  # of the demos and the built-in model
# Parameters in millions, as printed in Table 3.
PAPER_MILLIONS: Mapping[str, int] = _TABLES["paper_millions"]


# Fine-tuning: see docs/log.md for the measurements.
FINE_TUNING = "fine-tuning"  # shown in place of a preset
FINE_TUNING_EPOCHS = 20
FINE_TUNING_RATE = 0.005  # times d_model^-0.5
START_SHARE = 0.45
MIXED_START_SHARE = 0.15


def preset(name: str) -> Layer:
    """Return the settings of a preset; raise ConfigError for an unknown name."""
    try:
        return PRESETS[name]
    except KeyError:
        raise ConfigError(f"unknown preset {name!r}: {nearest(name, PRESETS)}") from None


@dataclass(frozen=True, slots=True)
class Proposal:
    """Settings for a corpus, and the reason for each one that was chosen, by dotted name."""

    settings: Layer
    reasons: Mapping[str, str]


def propose(n_pairs: int, n_tokens: int, name: str, requested: Sequence[Layer] = ()) -> Proposal:
    """Propose batch size and number of steps for sentence pairs, added to the preset `name`.

    `n_tokens` counts target tokens. The result depends on the arguments only, so the same corpus
    gives the same model on every machine.
    """
    given = _given(requested)
    recipe = resolve(preset(name)).train
    epochs = (100, 60, 20, 10)[bisect((10_000, 100_000, 1_000_000), n_pairs)]
    default_batch_tokens = (1024, 4096, 8192)[bisect((20_000, 1_000_000), n_pairs)]
    batch_tokens = given.get("batch_tokens") or default_batch_tokens
    steps = _steps(epochs, n_tokens, batch_tokens, given)
    every = max(1, steps // 25)
    warmup_steps = min(recipe.warmup_steps, max(1, steps // 5))
    chosen = {
        "steps": steps,
        "warmup_steps": warmup_steps,
        "validate_every": every,
        "save_every": every,
    }
    reasons = {
        "data.batch_tokens": f"chosen for {n_pairs:,} pairs",
        "train.steps": (
            f"about {epochs} epochs of {n_tokens:,} target tokens; "
            "fewer if validation stops improving"
        ),
        "train.warmup_steps": "a fifth of the steps, at most the preset's",
        "train.validate_every": "25 validations in total",
    }
    return _proposal(name, batch_tokens, chosen, reasons, given)


def propose_fine_tuning(
    n_tokens: int, d_model: int, requested: Sequence[Layer] = (), *, is_mixed: bool = False
) -> Proposal:
    """Propose settings to fine-tune a model on pairs with `n_tokens` target tokens.

    They were chosen by measurement (docs/log.md): a low learning rate, few steps, and the mean of
    the old and the new weights. If other pairs are mixed in, the new weights need less of the old.
    """
    given = _given(requested)
    batch_tokens = given.get("batch_tokens") or 4096
    n_passes = FINE_TUNING_EPOCHS * (2 if is_mixed else 1)
    tokens_per_step = batch_tokens * given.get("accumulate", 1)
    steps = given.get("steps") or min(20_000, max(100, n_passes * n_tokens // tokens_per_step))
    every = max(1, steps // 10)
    chosen = {
        "steps": steps,
        "warmup_steps": max(1, steps // 10),
        "learning_rate": float(f"{FINE_TUNING_RATE * d_model**-0.5:.2g}"),
        "schedule": "cosine",
        "validate_every": every,
        "save_every": every,
        "average_last": 1,
        "patience": 4,
        "start_share": MIXED_START_SHARE if is_mixed else START_SHARE,
    }
    reasons = {
        "train.learning_rate": f"low, for a trained model with d_model {d_model}",
        "train.steps": (
            f"about {FINE_TUNING_EPOCHS} epochs of {n_tokens:,} target tokens; "
            "fewer if validation stops improving"
        ),
        "train.start_share": "0 learns most, 1 forgets nothing (docs/finetuning.md)",
    }
    settings = {"data": {"batch_tokens": batch_tokens}, "train": chosen}
    shown = {name: why for name, why in reasons.items() if name.split(".")[1] not in given}
    return Proposal(settings, shown)


def _steps(epochs: int, n_tokens: int, batch_tokens: int, given: Mapping[str, Any]) -> int:
    """Return the requested number of steps, or that of `epochs`, at least 500, at most 100,000."""
    tokens_per_step = batch_tokens * given.get("accumulate", 1)
    return given.get("steps") or min(100_000, max(500, epochs * n_tokens // tokens_per_step))


def _proposal(
    name: str,
    batch_tokens: int,
    chosen: Mapping[str, Any],
    reasons: Mapping[str, str],
    given: Mapping[str, Any],
) -> Proposal:
    """Add the chosen settings to a preset, without reasons for settings that the user has set."""
    settings = {**preset(name), "data": {"batch_tokens": batch_tokens}}
    settings["train"] = {**settings.get("train", {}), **chosen}
    shown = {
        setting: reason for setting, reason in reasons.items() if setting.split(".")[1] not in given
    }
    return Proposal(settings, shown)


def _given(layers: Sequence[Layer]) -> dict[str, Any]:
    """Return what the layers set in the sections `data` and `train`, by key."""
    return {
        key: value
        for layer in layers
        for section in ("data", "train")
        for key, value in layer.get(section, {}).items()
    }


def preset_for_pairs(n_pairs: int) -> str:
    """Return the name of the preset for a corpus of `n_pairs` sentence pairs."""
    return ("tiny", "small", "base", "big")[bisect((200_000, 1_000_000, 20_000_000), n_pairs)]


def propose_text(n_tokens: int, name: str, requested: Sequence[Layer] = ()) -> Proposal:
    """Propose batch size and number of steps for a language model, added to the preset `name`."""
    given = _given(requested)
    batch_tokens = given.get("batch_tokens") or 2048
    steps = _steps(10, n_tokens, batch_tokens, given)
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
        "data.batch_tokens": "the default for text; each batch is cut into full windows",
        "train.steps": (
            f"about 10 epochs of {n_tokens:,} tokens; fewer if validation stops improving"
        ),
        "train.warmup_steps": "a tenth of the steps, at most 200",
    }
    return _proposal(name, batch_tokens, chosen, reasons, given)


def preset_for_text(n_characters: int) -> str:
    """Return the name of the preset for a language model on a text of `n_characters`."""
    return ("tiny", "small", "base")[bisect((3_000_000, 100_000_000), n_characters)]
