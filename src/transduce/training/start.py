"""The model before the first step: new weights, or those of a finished model (`train --from`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from transduce.config import Config, Layer, resolve
from transduce.data.prepared import Vocabularies
from transduce.errors import ConfigError
from transduce.hardware import find_device
from transduce.log import Log
from transduce.model.weights import build, load_weights, weights_of
from transduce.model_folder import MANIFEST, WEIGHTS, ModelFolder, find_model, load_model
from transduce.presets import preset as preset_settings
from transduce.storage import read_json
from transduce.text.files import Fingerprint
from transduce.training.step import Model

# Settings that do not affect the weights or the vocabulary of a model.
CHANGEABLE = {"model.dropout", "model.window", "text.dropout", "text.languages"}


@dataclass(frozen=True, slots=True)
class StartModel:
    """A finished model whose weights a new training starts from."""

    path: Path
    folder: ModelFolder
    digest: str  # SHA-256 of its weights

    @property
    def settings(self) -> Layer:
        """The text and model settings of the model, without text.dropout."""
        config = self.folder.config
        return {
            "text": config.text.model_dump(exclude={"dropout"}),
            "model": config.model.model_dump(),
        }

    @property
    def vocabularies(self) -> Vocabularies:
        """The vocabularies of the model."""
        return Vocabularies(self.folder.source_vocabulary, self.folder.target_vocabulary)

    def merge_words(self, words: frozenset[str] | None) -> frozenset[str] | None:
        """Return the words of the model and `words`; None if either is None (too many to keep)."""
        own = self.folder.words
        return None if own is None or words is None else own | words

    def fingerprint(self) -> Fingerprint:
        """Return the entry of the model in the inputs of a run."""
        return [["from", str(self.path), self.digest]]

    def check(self, preset: str | None, settings: Sequence[Layer], log: Log) -> None:
        """Raise ConfigError for settings that conflict with its weights or vocabulary."""
        shape: Layer = {"model": preset_settings(preset).get("model", {})} if preset else {}
        requested = resolve(self.settings, shape, *settings).model_dump()
        own = self.folder.config.model_dump()
        conflicts = [
            f"{section}.{key} is {requested[section][key]}, but {self.path} has {value}"
            for section in ("model", "text")
            for key, value in own[section].items()
            if f"{section}.{key}" not in CHANGEABLE and requested[section][key] != value
        ]
        if conflicts:
            raise ConfigError(
                f"{'; '.join(conflicts)}; --from keeps the shape and the vocabulary of the model, "
                "so remove these settings"
            )
        n_tokens = len(self.folder.source_vocabulary)
        log(f"starting from {self.path}: its weights, shape and vocabulary ({n_tokens:,} tokens)")

    def blend(self, model: Model, share: float) -> None:
        """Set the weights of a model to the mean of its own and the start model's, in place.

        `share` is the share of the start model. The mean of a model and its fine-tuned version
        keeps most of what both can do (Wortsman et al. 2022).
        """
        own, start = weights_of(model), weights_of(self.folder.model)
        blended = {
            name: torch.lerp(weight, start[name].to(weight), share) for name, weight in own.items()
        }
        load_weights(model, blended, self.path)


def load_start_model(path: str | Path | None, kind: str) -> StartModel | None:
    """Load the model of `--from`, if one is given; raise ConfigError if it is of another kind."""
    if path is None:
        return None
    folder = load_model(Path(path))
    if folder.config.model.kind != kind:
        raise ConfigError(
            f"--from {path} has model.kind {folder.config.model.kind!r}, expected {kind!r}; "
            "name another model"
        )
    manifest = read_json(find_model(Path(path)) / MANIFEST, "model folder")
    files = manifest["files"]  # checked by `load_model`
    return StartModel(Path(path), folder, files[WEIGHTS]["sha256"])


def make_model(config: Config, start: StartModel | None = None) -> Model:
    """Build the model: weights drawn from train.seed, or those of the start model."""
    torch.manual_seed(config.train.seed)
    model = build(config.model)
    if start:
        load_weights(model, weights_of(start.folder.model), start.path)
    return model.to(find_device())
