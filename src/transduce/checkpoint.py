"""Model folders and the checkpoints of a run: atomic, checked, averaged.

A model folder:
    config.json            text, model and decode settings
    model.safetensors      the weights, nothing else
    sentencepiece.model    the vocabulary; with text.joint = false also sentencepiece.target.model
    words.txt              the words of the source side of the training text, if they are few enough to keep
    manifest.json          format version, SHA-256 and size of each file, and the card: how this model came to be
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from transduce.config import DecodeConfig, ModelConfig, Section, TextConfig
from transduce.errors import MissingInputError, ModelError
from transduce.model import LanguageModel, Transformer
from transduce.storage import read_json, sha256, to_json, write_folder
from transduce.text.vocabulary import Vocabulary

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
class ModelFolder:
    """A model with all it needs to read and write text."""

    config: FolderConfig
    model: Transformer | LanguageModel
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary
    words: frozenset[str] | None = None  # of the source side of the training text; None: not kept
    card: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: str | None = None  # of settings and weights as they lie in a folder; None: they were never stored


def build(config: ModelConfig) -> Transformer | LanguageModel:
    """The model of a configuration, with fresh weights."""
    return Transformer(config) if config.kind == "encoder-decoder" else LanguageModel(config)


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """The weights by name, each once even where it is shared."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def average(weights: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several sets of weights (section 6.1: the last 5 or 20 checkpoints)."""
    return {name: torch.stack([each[name].float() for each in weights]).mean(dim=0) for name in weights[0]}


def save_model(folder: Path, contents: ModelFolder, dtype: torch.dtype = torch.float32) -> None:
    """Write a model folder, atomically: it is there whole or not at all."""
    files: dict[str, bytes] = {
        CONFIG: to_json(contents.config.model_dump()),
        WEIGHTS: save({name: weight.to(dtype).contiguous() for name, weight in weights_of(contents.model).items()}),
        SOURCE_VOCABULARY: contents.source_vocabulary.model,
    }
    if contents.target_vocabulary != contents.source_vocabulary:
        files[TARGET_VOCABULARY] = contents.target_vocabulary.model
    if contents.words is not None:
        files[WORDS] = "".join(f"{word}\n" for word in sorted(contents.words)).encode()
    manifest = {
        "format": FORMAT,
        "files": {name: {"sha256": sha256(content), "bytes": len(content)} for name, content in files.items()},
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
    raise ModelError(f"{path} is not a model folder: there is no {CONFIG} in it, nor in {path / 'model'}")


def load_model(path: Path) -> ModelFolder:
    """Read a model folder or the model of a run, checking every file against the manifest."""
    folder = find_model(path)
    manifest = read_json(folder / MANIFEST)
    files = {name: _read_checked(folder, name, entry) for name, entry in _listed_files(manifest, folder).items()}
    for name in (CONFIG, WEIGHTS, SOURCE_VOCABULARY):
        if name not in files:
            raise ModelError(f"{folder / MANIFEST} does not list {name}: this is not a whole model folder")
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
    with torch.device("meta"):  # no memory yet: the config may claim any size
        model = build(config.model)
    load_weights(model, parse_weights(files[WEIGHTS], folder / WEIGHTS), folder / WEIGHTS)
    words = frozenset(files[WORDS].decode(errors="replace").split("\n")[:-1]) if WORDS in files else None
    card = manifest.get("card")
    card = card if isinstance(card, dict) else {}
    fingerprint = sha256(files[CONFIG] + sha256(files[WEIGHTS]).encode())
    return ModelFolder(config, model.eval(), source, target, words, card, fingerprint)


def load_weights_file(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
    try:
        return parse_weights(path.read_bytes(), path)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from None


def parse_weights(content: bytes, origin: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file's content."""
    try:
        return load(content)
    except SafetensorError as error:
        raise ModelError(f"{origin} cannot be read as safetensors: {error}") from None


def load_weights(model: nn.Module, weights: Mapping[str, Tensor], origin: Path) -> None:
    """Put weights into a model; names and shapes must match exactly. A model on the meta device gets its memory here."""
    parameters = dict(model.named_parameters())
    for name in sorted(parameters.keys() ^ weights.keys()):
        side = "is missing" if name in parameters else "is not part of this model"
        raise ModelError(f"{origin}: {name} {side}: weights and config do not belong together")
    for name, parameter in parameters.items():
        if parameter.shape != weights[name].shape:
            found, wanted = tuple(weights[name].shape), tuple(parameter.shape)
            raise ModelError(f"{origin}: {name} has the shape {found}, the config says {wanted}")
    if any(parameter.is_meta for parameter in parameters.values()):
        model.to_empty(device="cpu")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])


def _listed_files(manifest: Mapping[str, Any], folder: Path) -> dict[str, dict[str, Any]]:
    if manifest.get("format") != FORMAT:
        raise ModelError(
            f"{folder}: format {manifest.get('format')!r}, this transduce reads format {FORMAT}: use the version that wrote it"
        )
    files = manifest.get("files")
    if not isinstance(files, dict) or not all(isinstance(entry, dict) for entry in files.values()):
        raise ModelError(f"{folder / MANIFEST} has no list of files")
    return files


def _read_checked(folder: Path, name: str, entry: Mapping[str, Any]) -> bytes:
    path = folder / name
    if Path(name).name != name or (path.is_symlink() and not path.resolve().is_relative_to(folder.resolve())):
        raise ModelError(f"{folder / MANIFEST} lists {name!r}, which lies outside the folder: refused")
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ModelError(f"{path} is missing: the manifest lists it; copy the folder again, whole") from None
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from None
    if len(content) != entry.get("bytes"):
        raise ModelError(f"{path} is damaged: {len(content)} of {entry.get('bytes')} bytes; copy the folder again")
    if sha256(content) != entry.get("sha256"):
        raise ModelError(f"{path} is damaged: its SHA-256 differs from the manifest's; copy the folder again")
    return content


def _parse_config(content: bytes, folder: Path) -> FolderConfig:
    try:
        return FolderConfig.model_validate_json(content)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise ModelError(f"{folder / CONFIG}: {where}: {problem['msg']}") from None
