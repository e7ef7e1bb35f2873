"""Named shapes and recipes, as data, and the choice among them from the size of a corpus.

`base`, `big` and the rows (A) to (E) of Table 3 are the paper's; `tiny` is the shape that wins on Multi30k (Wu et al. 2021);
`small` stands between; `nano` is what the built-in model uses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from transduce.config import Layer, nearest, resolve
from transduce.errors import ConfigError

BASE: Mapping[str, Any] = {"n_layers": 6, "d_model": 512, "d_ff": 2048, "n_heads": 8, "dropout": 0.1}


def _table3(**changes: Any) -> Layer:
    return {"model": {**BASE, **changes}}


TABLE_3: Mapping[str, Layer] = {
    "A-1-head": _table3(n_heads=1, d_k=512, d_v=512),
    "A-4-heads": _table3(n_heads=4, d_k=128, d_v=128),
    "A-16-heads": _table3(n_heads=16, d_k=32, d_v=32),
    "A-32-heads": _table3(n_heads=32, d_k=16, d_v=16),
    "B-dk-16": _table3(d_k=16),
    "B-dk-32": _table3(d_k=32),
    "C-2-layers": _table3(n_layers=2),
    "C-4-layers": _table3(n_layers=4),
    "C-8-layers": _table3(n_layers=8),
    "C-d-256": _table3(d_model=256, d_k=32, d_v=32),
    "C-d-1024": _table3(d_model=1024, d_k=128, d_v=128),
    "C-ff-1024": _table3(d_ff=1024),
    "C-ff-4096": _table3(d_ff=4096),
    "D-dropout-0": _table3(dropout=0.0),
    "D-dropout-0.2": _table3(dropout=0.2),
    "D-smoothing-0": {**_table3(), "train": {"label_smoothing": 0.0}},
    "D-smoothing-0.2": {**_table3(), "train": {"label_smoothing": 0.2}},
    "E-learned": _table3(positions="learned"),
}

PRESETS: Mapping[str, Layer] = {
    "nano": {
        "model": {"n_layers": 2, "d_model": 96, "d_ff": 256, "n_heads": 4, "dropout": 0.0},
        "train": {"learning_rate": 3e-3, "warmup_steps": 200},
    },
    "tiny": {
        "model": {"n_layers": 4, "d_model": 128, "d_ff": 256, "n_heads": 4, "dropout": 0.3},
        "train": {"learning_rate": 3.5e-3, "warmup_steps": 2000},
    },
    "small": {
        "model": {"n_layers": 3, "d_model": 256, "d_ff": 1024, "n_heads": 4, "dropout": 0.2},
        "train": {"learning_rate": 1e-3, "warmup_steps": 4000},
    },
    "base": {"model": BASE, "train": {"warmup_steps": 4000}},
    "big": {
        "model": {"n_layers": 6, "d_model": 1024, "d_ff": 4096, "n_heads": 16, "dropout": 0.3},
        "train": {"warmup_steps": 4000, "average_last": 20},
    },
    **TABLE_3,
}

# Parameters in millions as Table 3 prints them.
PAPER_MILLIONS: Mapping[str, int] = {
    "base": 65,
    "B-dk-16": 58,
    "B-dk-32": 60,
    "C-2-layers": 36,
    "C-4-layers": 50,
    "C-8-layers": 80,
    "C-d-256": 28,
    "C-d-1024": 168,
    "C-ff-1024": 53,
    "C-ff-4096": 90,
    "big": 213,
}


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
    epochs = 100 if n_pairs < 10_000 else 60 if n_pairs < 100_000 else 20 if n_pairs < 1_000_000 else 10
    batch_tokens = wanted.get("batch_tokens") or (1024 if n_pairs < 20_000 else 4096 if n_pairs < 1_000_000 else 8192)
    accumulated = batch_tokens * wanted.get("accumulate", 1)
    steps = wanted.get("steps") or min(100_000, max(500, epochs * n_tokens // accumulated))
    chosen = {
        "steps": steps,
        "warmup_steps": min(recipe.warmup_steps, max(1, steps // 5)),
        "validate_every": max(1, steps // 25),
        "save_every": max(1, steps // 25),
    }
    settings: dict[str, dict[str, Any]] = {section: dict(values) for section, values in preset(name).items()}
    settings["data"] = {"batch_tokens": batch_tokens}
    settings["train"] = {**settings.get("train", {}), **chosen}
    reasons = {
        "data.batch_tokens": f"what suits {n_pairs:,} pairs",
        "train.steps": f"about {epochs} times through {n_tokens:,} target pieces; less if validation stops improving",
        "train.warmup_steps": "a fifth of the steps, at most the preset's",
        "train.validate_every": "25 looks on the way",
    }
    return Proposal(settings, {name: why for name, why in reasons.items() if name.split(".")[1] not in wanted})


def _asked_for(layers: Sequence[Layer]) -> dict[str, Any]:
    """What was asked for of data and training, by key."""
    return {
        key: value for layer in layers for section in ("data", "train") for key, value in layer.get(section, {}).items()
    }


def shape_for(n_pairs: int) -> str:
    """The preset for a corpus of so many pairs."""
    for most_pairs, name in ((200_000, "tiny"), (1_000_000, "small"), (20_000_000, "base")):
        if n_pairs < most_pairs:
            return name
    return "big"


def propose_text(n_tokens: int, name: str, asked: Sequence[Layer] = ()) -> Proposal:
    """Batch and length of training for a language model on a text of so many pieces."""
    wanted = _asked_for(asked)
    batch_tokens = wanted.get("batch_tokens") or 2048
    steps = wanted.get("steps") or min(100_000, max(500, 10 * n_tokens // batch_tokens))
    settings: dict[str, dict[str, Any]] = {section: dict(values) for section, values in preset(name).items()}
    settings["data"] = {"batch_tokens": batch_tokens}
    every = max(1, steps // 20)
    chosen = {
        "steps": steps,
        "warmup_steps": max(1, min(200, steps // 10)),
        "validate_every": every,
        "save_every": every,
    }
    settings["train"] = {**settings.get("train", {}), **chosen, "schedule": "cosine", "learning_rate": 1e-3}
    reasons = {
        "data.batch_tokens": "pieces, in full windows",
        "train.steps": f"about ten times through {n_tokens:,} pieces; less if validation stops improving",
        "train.warmup_steps": "a tenth of the steps, at most 200",
    }
    return Proposal(settings, {name: why for name, why in reasons.items() if name.split(".")[1] not in wanted})


def text_shape_for(n_characters: int) -> str:
    """The preset for a language model on a text of so many characters."""
    for most, name in ((3_000_000, "tiny"), (100_000_000, "small")):
        if n_characters < most:
            return name
    return "base"
