"""Read and write model folders: written atomically, checked against SHA-256 sums when read.

A model folder:
    config.json            text, model and decode settings
    model.safetensors      the weights, nothing else
    sentencepiece.model    the vocabulary; with text.joint = false also sentencepiece.target.model
    words.txt              the source words of the training text, if they are few enough to store
    manifest.json          format version, size and SHA-256 of each file, and the card: how the
                           model was trained

Torch is imported only when the model itself is needed.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from transduce.config import DecodeConfig, ModelConfig, Section, TextConfig
from transduce.errors import MissingInputError, ModelError
from transduce.storage import read_json, sha256, to_json, write_folder
from transduce.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from transduce.model import LanguageModel, Transformer

FORMAT = 1
CONFIG, WEIGHTS, MANIFEST, WORDS = "config.json", "model.safetensors", "manifest.json", "words.txt"
SOURCE_VOCABULARY, TARGET_VOCABULARY = "sentencepiece.model", "sentencepiece.target.model"
BUILTIN = Path(__file__).parent / "builtin" / "en-it"  # the model that ships inside the package


class FolderConfig(Section):
    """The settings in config.json."""

    text: TextConfig = TextConfig()
    model: ModelConfig = ModelConfig()
    decode: DecodeConfig = DecodeConfig()


@dataclass(frozen=True)
class StoredModel:
    """A model whose weights are still on disk."""

    folder: Path
    config: ModelConfig
    entry: Mapping[str, Any]  # size and SHA-256 of the weights, from the manifest

    @cached_property
    def model(self) -> "Transformer | LanguageModel":
        """The model, loaded at the first access; the weights are checked again."""
        from transduce.model.weights import build_from_bytes

        content = _read_checked(self.folder, WEIGHTS, self.entry)
        return build_from_bytes(self.config, content, self.folder / WEIGHTS)


@dataclass(frozen=True)
class ModelFolder:
    """A model with its settings and vocabularies: everything needed to read and write text.

    `weights` is the model itself, or the place to load it from. Read the model as `folder.model`.
    """

    config: FolderConfig
    weights: "Transformer | LanguageModel | StoredModel"
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary
    words: frozenset[str] | None = None  # source words of the training text; None: not stored
    card: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: str | None = None  # SHA-256 of settings and weights; None: never written to disk

    @property
    def model(self) -> "Transformer | LanguageModel":
        """The model; one that is still on disk is loaded at the first access."""
        if isinstance(self.weights, StoredModel):
            return self.weights.model
        return self.weights

    def trained_with(self, section: str, key: str) -> Any:
        """Return a training setting recorded in the card, or None.

        The card is free-form, so nothing about its structure is assumed.
        """
        settings = self.card.get("settings")
        values = settings.get(section) if isinstance(settings, dict) else None
        return values.get(key) if isinstance(values, dict) else None


def save_model(
    folder: Path, contents: ModelFolder, precision: Literal["float32", "float16"] = "float32"
) -> None:
    """Write a model folder atomically: a reader sees the complete folder or none."""
    from transduce.model.weights import pack_weights

    files: dict[str, bytes] = {
        CONFIG: to_json(contents.config.model_dump()),
        WEIGHTS: pack_weights(contents.model, precision),
        SOURCE_VOCABULARY: contents.source_vocabulary.model,
    }
    if contents.target_vocabulary != contents.source_vocabulary:
        files[TARGET_VOCABULARY] = contents.target_vocabulary.model
    if contents.words is not None:
        files[WORDS] = "".join(f"{word}\n" for word in sorted(contents.words)).encode()
    manifest = {
        "format": FORMAT,
        "files": {
            name: {"sha256": sha256(content), "bytes": len(content)}
            for name, content in files.items()
        },
        "card": contents.card,
    }
    write_folder(folder, {**files, MANIFEST: to_json(manifest)})


def find_model(path: Path) -> Path:
    """Return the model folder of a path: the path itself, or `model` in a run folder.

    Raise MissingInputError if the path does not exist, ModelError if there is no model.
    """
    if not path.exists():
        raise MissingInputError(f"no model folder {path}; check the path")
    if (path / CONFIG).is_file():
        return path
    if (path / "model" / CONFIG).is_file():
        return path / "model"
    if (path / "run.toml").is_file():
        raise ModelError(
            f"{path} is a run folder without a model; finish the training first "
            "(the same train command resumes it)"
        )
    raise ModelError(
        f"{path} is not a model folder: neither it nor {path / 'model'} contains {CONFIG}; "
        "give a model folder or a run folder"
    )


def load_model(path: Path) -> ModelFolder:
    """Load the model of a model folder or run folder, and check every file against the manifest."""
    folder = open_model(path)
    folder.model  # noqa: B018  loads the weights
    return folder


def open_model(path: Path) -> ModelFolder:
    """Open a model folder or run folder, and check every file against the manifest.

    The weights are checked too, but loaded only when `model` is first read.
    """
    folder = find_model(path)
    manifest = read_json(folder / MANIFEST, "model folder")
    entries = _listed_files(manifest, folder)
    for name in (CONFIG, WEIGHTS, SOURCE_VOCABULARY):
        if name not in entries:
            raise ModelError(
                f"{folder / MANIFEST} does not list {name}: the model folder is incomplete; "
                "copy the whole folder again"
            )
    _read_checked(folder, WEIGHTS, entries[WEIGHTS], keep=False)
    files = {
        name: _read_checked(folder, name, entry)
        for name, entry in entries.items()
        if name != WEIGHTS
    }
    config = _parse_config(files[CONFIG], folder)
    source = Vocabulary(files[SOURCE_VOCABULARY])
    target = Vocabulary(files[TARGET_VOCABULARY]) if TARGET_VOCABULARY in files else source
    for vocabulary, size, name in (
        (source, config.model.vocab_size, SOURCE_VOCABULARY),
        (target, config.model.target_vocab_size or config.model.vocab_size, TARGET_VOCABULARY),
    ):
        if len(vocabulary) != size:
            raise ModelError(
                f"{folder}: {name} has {len(vocabulary)} tokens, {CONFIG} says {size}: "
                "the two files belong to different models"
            )
    words = None
    if WORDS in files:
        lines = files[WORDS].decode(errors="replace").split("\n")
        words = frozenset(lines[:-1])  # the last line ends with a line feed
    card = manifest.get("card")
    return ModelFolder(
        config=config,
        weights=StoredModel(folder, config.model, entries[WEIGHTS]),
        source_vocabulary=source,
        target_vocabulary=target,
        words=words,
        card=card if isinstance(card, dict) else {},
        fingerprint=sha256(files[CONFIG] + entries[WEIGHTS]["sha256"].encode()),
    )


def _listed_files(manifest: Mapping[str, Any], folder: Path) -> dict[str, dict[str, Any]]:
    if manifest.get("format") != FORMAT:
        raise ModelError(
            f"{folder} has format {manifest.get('format')!r}, this version of transduce reads "
            f"format {FORMAT}; use the version that wrote it"
        )
    files = manifest.get("files")
    if not isinstance(files, dict) or not all(isinstance(entry, dict) for entry in files.values()):
        raise ModelError(f"{folder / MANIFEST} has no list of files; copy the whole folder again")
    return files


def _read_checked(folder: Path, name: str, entry: Mapping[str, Any], *, keep: bool = True) -> bytes:
    """Check a file against its manifest entry and return its content.

    With `keep` false the file is checked without reading it into memory; the result is empty.
    """
    path = folder / name
    if Path(name).name != name or (
        path.is_symlink() and not path.resolve().is_relative_to(folder.resolve())
    ):
        raise ModelError(
            f"{folder / MANIFEST} lists {name!r}, which is outside the folder; it was not read"
        )
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            n_bytes = file.tell()
            file.seek(0)
            content = file.read() if keep else b""
    except FileNotFoundError:
        raise ModelError(
            f"{path} is missing, but the manifest lists it; copy the whole folder again"
        ) from None
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from None
    if n_bytes != entry.get("bytes"):
        raise ModelError(
            f"{path} is damaged: {n_bytes} of {entry.get('bytes')} bytes; copy the folder again"
        )
    if digest != entry.get("sha256"):
        raise ModelError(
            f"{path} is damaged: its SHA-256 differs from the manifest's; copy the folder again"
        )
    return content


def _parse_config(content: bytes, folder: Path) -> FolderConfig:
    try:
        return FolderConfig.model_validate_json(content)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise ModelError(
            f"{folder / CONFIG}: {where}: {problem['msg']}; "
            "it was edited, or written by another version of transduce"
        ) from None
