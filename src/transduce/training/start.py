"""`train --from MODEL`: a training that begins with the weights, the shape and the vocabulary of a finished model."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from transduce.config import Layer, resolve
from transduce.data.prepared import Vocabularies
from transduce.errors import ConfigError
from transduce.log import Log
from transduce.model_folder import MANIFEST, WEIGHTS, ModelFolder, find_model, load_model
from transduce.presets import preset as preset_settings
from transduce.storage import read_json
from transduce.text.files import Fingerprint

# Settings that the weights and the pieces of a model do not depend on.
MAY_CHANGE = {"model.dropout", "model.window", "text.dropout", "text.languages"}


@dataclass(frozen=True, slots=True)
class Start:
    """A finished model to begin with."""

    path: Path
    folder: ModelFolder
    digest: str

    @property
    def settings(self) -> Layer:
        """Its shape and its pieces, as settings."""
        config = self.folder.config
        return {
            "text": config.text.model_dump(exclude={"dropout"}),
            "model": config.model.model_dump(),
        }

    @property
    def vocabularies(self) -> Vocabularies:
        """Its pieces, of source and target."""
        return Vocabularies(self.folder.source_vocabulary, self.folder.target_vocabulary)

    def words_with(self, words: frozenset[str] | None) -> frozenset[str] | None:
        """The words it knows and some more; none if either were too many to keep."""
        own = self.folder.words
        return None if own is None or words is None else own | words

    def fingerprint(self) -> Fingerprint:
        """What a run says about it."""
        return [["from", str(self.path), self.digest]]

    def check(self, preset: str | None, settings: Sequence[Layer], log: Log) -> None:
        """Say where the training starts; refuse settings that the model's weights or pieces cannot follow."""
        shape: Layer = {"model": preset_settings(preset).get("model", {})} if preset else {}
        config = resolve(self.settings, shape, *settings)
        asked, own = config.model_dump(), self.folder.config.model_dump()
        differ = [
            f"{section}.{key} is {asked[section][key]}, but {self.path} has {value}"
            for section in ("model", "text")
            for key, value in own[section].items()
            if f"{section}.{key}" not in MAY_CHANGE and asked[section][key] != value
        ]
        if differ:
            raise ConfigError(
                f"{'; '.join(differ)}: a model that is trained further keeps its shape and its pieces"
            )
        log(
            f"starting from {self.path}: its weights, its shape and its {len(self.folder.source_vocabulary):,} pieces"
        )


def open_start(path: str | Path | None, kind: str) -> Start | None:
    """The model to begin with, if one is named; it must be of the kind that is trained."""
    if path is None:
        return None
    found = load_model(Path(path))
    if found.config.model.kind != kind:
        raise ConfigError(
            f"--from {path} has model.kind {found.config.model.kind!r}, and this trains {kind!r}"
        )
    listed = read_json(find_model(Path(path)) / MANIFEST)["files"]  # which `load_model` has checked
    return Start(Path(path), found, listed[WEIGHTS]["sha256"])
