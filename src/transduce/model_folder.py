"""Model folders: atomic and checked. Torch is loaded when somebody asks for the model itself.

A model folder:
    config.json            text, model and decode settings
    model.safetensors      the weights, nothing else
    sentencepiece.model    the vocabulary; with text.joint = false also sentencepiece.target.model
    words.txt              the words of the source side of the training text, if they are few enough to keep
    manifest.json          format version, SHA-256 and size of each file, and the card: how this model came to be
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
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
    """What config.json holds."""

    text: TextConfig = TextConfig()
    model: ModelConfig = ModelConfig()
    decode: DecodeConfig = DecodeConfig()


@dataclass(frozen=True, slots=True)
class Stored:
    """A model that still lies in its folder."""

    folder: Path
    config: ModelConfig
    entry: Mapping[str, Any]  # of the manifest

    def load(self) -> "Transformer | LanguageModel":
        """The model with its weights, which are checked once more."""
        from transduce.model.weights import build_from_bytes

        return build_from_bytes(
            self.config, _read_checked(self.folder, WEIGHTS, self.entry), self.folder / WEIGHTS
        )


class Lazily:
    """The field of a model: one that is stored is loaded when it is asked for."""

    def __get__(self, owner: "ModelFolder | None", kind: type) -> "Transformer | LanguageModel":
        if owner is None:
            raise AttributeError("a model has no default")
        if isinstance(model := vars(owner)["model"], Stored):
            vars(owner)["model"] = model = model.load()
        return model

    def __set__(self, owner: "ModelFolder", model: "Transformer | LanguageModel | Stored") -> None:
        vars(owner)["model"] = model


@dataclass(frozen=True)
class ModelFolder:
    """A model with all it needs to read and write text."""

    config: FolderConfig
    model: Lazily = Lazily()
    source_vocabulary: Vocabulary  # type: ignore[misc]  # what looks like a default of model is its descriptor
    target_vocabulary: Vocabulary  # type: ignore[misc]  # the same
    words: frozenset[str] | None = None  # of the source side of the training text; None: not kept
    card: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: str | None = (
        None  # of settings and weights as they lie in a folder; None: they were never stored
    )

    def trained_with(self, section: str, key: str) -> Any:
        """A setting of the training, as the card says; None if it does not say, for anybody may have written it."""
        settings = self.card.get("settings")
        values = settings.get(section) if isinstance(settings, dict) else None
        return values.get(key) if isinstance(values, dict) else None


def save_model(
    folder: Path, contents: ModelFolder, precision: Literal["float32", "float16"] = "float32"
) -> None:
    """Write a model folder, atomically: it is there whole or not at all."""
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
    """The model folder meant by a path: itself, or the `model` of a run folder."""
    if not path.exists():
        raise MissingInputError(f"no model folder {path}")
    if (path / CONFIG).is_file():
        return path
    if (path / "model" / CONFIG).is_file():
        return path / "model"
    if (path / "run.toml").is_file():
        raise ModelError(
            f"{path} is a run that has no model yet: let its training finish (the same command continues it)"
        )
    raise ModelError(
        f"{path} is not a model folder: there is no {CONFIG} in it, nor in {path / 'model'}"
    )


def load_model(path: Path) -> ModelFolder:
    """Read a model folder or the model of a run, whole, checking every file against the manifest."""
    found = open_model(path)
    found.model  # noqa: B018  this loads it
    return found


def open_model(path: Path) -> ModelFolder:
    """A model folder or the model of a run, every file checked against the manifest; the weights are not in memory yet."""
    folder = find_model(path)
    manifest = read_json(folder / MANIFEST)
    entries = _listed_files(manifest, folder)
    for name in (CONFIG, WEIGHTS, SOURCE_VOCABULARY):
        if name not in entries:
            raise ModelError(
                f"{folder / MANIFEST} does not list {name}: this is not a whole model folder"
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
                f"{folder}: {name} has {len(vocabulary)} pieces, {CONFIG} says {size}: they do not belong together"
            )
    words = (
        frozenset(files[WORDS].decode(errors="replace").split("\n")[:-1])
        if WORDS in files
        else None
    )
    card = manifest.get("card")
    card = card if isinstance(card, dict) else {}
    stored = Stored(folder, config.model, entries[WEIGHTS])
    fingerprint = sha256(files[CONFIG] + entries[WEIGHTS]["sha256"].encode())
    return ModelFolder(config, stored, source, target, words, card, fingerprint)


def _listed_files(manifest: Mapping[str, Any], folder: Path) -> dict[str, dict[str, Any]]:
    if manifest.get("format") != FORMAT:
        raise ModelError(
            f"{folder}: format {manifest.get('format')!r}, this transduce reads format {FORMAT}: use the version that wrote it"
        )
    files = manifest.get("files")
    if not isinstance(files, dict) or not all(isinstance(entry, dict) for entry in files.values()):
        raise ModelError(f"{folder / MANIFEST} has no list of files")
    return files


def _read_checked(folder: Path, name: str, entry: Mapping[str, Any], *, keep: bool = True) -> bytes:
    """The content of a file that the manifest lists; without `keep` it is only checked, a stretch at a time."""
    path = folder / name
    if Path(name).name != name or (
        path.is_symlink() and not path.resolve().is_relative_to(folder.resolve())
    ):
        raise ModelError(
            f"{folder / MANIFEST} lists {name!r}, which lies outside the folder: refused"
        )
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            n_bytes = file.tell()
            file.seek(0)
            content = file.read() if keep else b""
    except FileNotFoundError:
        raise ModelError(
            f"{path} is missing: the manifest lists it; copy the folder again, whole"
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
        raise ModelError(f"{folder / CONFIG}: {where}: {problem['msg']}") from None
