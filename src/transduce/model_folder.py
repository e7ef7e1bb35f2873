"""Read and write model folders: written atomically, checked against SHA-256 sums when read.

A model folder:
    config.json            text, model and decode settings
    model.safetensors      the weights, nothing else
    sentencepiece.model    the vocabulary; if the target has its own, or segments text otherwise,
                           also sentencepiece.target.model
    words.txt              the source words of the training text, if they are few enough to store
    manifest.json          format version, size and SHA-256 of each file, and the card: how the
                           model was trained

Torch is imported only when the model itself is needed.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from transduce.config import DecodeConfig, ModelConfig, Section, TextConfig, unwritten
from transduce.errors import MissingInputError, ModelError
from transduce.storage import open_regular, read_json, sha256, to_json, write_folder
from transduce.text.printable import printable
from transduce.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from transduce.model import LanguageModel, Transformer

FORMAT = 1
CONFIG, WEIGHTS, MANIFEST, WORDS = "config.json", "model.safetensors", "manifest.json", "words.txt"
SOURCE_VOCABULARY, TARGET_VOCABULARY = "sentencepiece.model", "sentencepiece.target.model"
MAX_FILE_BYTES = 1 << 26  # of a file other than the weights; the largest vocabularies have 8 MB
MAX_NAME_BYTES = 255  # of a file name, on all usual file systems
MAX_QUOTED = 60  # characters of a value from a file that a message quotes
COPY_AGAIN = "copy the whole folder again"
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
    if contents.target_vocabulary.model != contents.source_vocabulary.model:
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
    for folder in (path, path / "model"):
        if os.path.lexists(folder / CONFIG):  # what it is will be checked when it is read
            return folder
    if (path / "run.toml").is_file():
        raise ModelError(
            f"{path} is a run folder without a model; finish the training first "
            "(the same train command resumes it)"
        )
    raise ModelError(
        f"{path} is not a model folder: neither it nor {path / 'model'} contains {CONFIG}; "
        "give a model folder or a run folder"
    )


def model_files(path: Path) -> list[Path]:
    """Return where the files of the model of a path are, whether they exist or not."""
    names = (CONFIG, WEIGHTS, SOURCE_VOCABULARY, TARGET_VOCABULARY, WORDS, MANIFEST)
    return [folder / name for folder in (path, path / "model") for name in names]


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
    manifest = read_json(folder / MANIFEST, "model folder", COPY_AGAIN)
    entries = _listed_files(manifest, folder)
    for name in (CONFIG, WEIGHTS, SOURCE_VOCABULARY):
        if name not in entries:
            raise ModelError(
                f"{folder / MANIFEST} does not list {name}: the model folder is incomplete; "
                f"{COPY_AGAIN}"
            )
    _read_checked(folder, WEIGHTS, entries[WEIGHTS], keep=False)
    files = {
        name: _read_checked(folder, name, entry)
        for name, entry in entries.items()
        if name != WEIGHTS
    }
    config = _parse_config(files[CONFIG], folder)
    prefix = config.text.source_prefix or ()
    target_name = TARGET_VOCABULARY if TARGET_VOCABULARY in files else SOURCE_VOCABULARY
    source = _parse_vocabulary(files[SOURCE_VOCABULARY], folder / SOURCE_VOCABULARY, prefix)
    target = source
    if target_name != SOURCE_VOCABULARY or prefix:
        target = _parse_vocabulary(files[target_name], folder / target_name)
    for vocabulary, size, name in (
        (source, config.model.vocab_size, SOURCE_VOCABULARY),
        (target, config.model.target_vocab_size or config.model.vocab_size, target_name),
    ):
        if len(vocabulary) != size:
            raise ModelError(
                f"{folder}: {name} has {len(vocabulary)} tokens, {CONFIG} says {size}: "
                f"the two files belong to different models; {COPY_AGAIN}"
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
            f"{folder} has format {_quote(manifest.get('format'))}, this version of transduce "
            f"reads format {FORMAT}; use the version that wrote it"
        )
    files = manifest.get("files")
    if not isinstance(files, dict) or not all(isinstance(entry, dict) for entry in files.values()):
        raise ModelError(f"{folder / MANIFEST} has no list of files; {COPY_AGAIN}")
    for name in files:
        if not _is_file_name(name):
            raise ModelError(
                f"{folder / MANIFEST} lists {_quote(name)}, which is not the name of a file in "
                f"the folder; it was not read: {COPY_AGAIN}"
            )
    return files


def _is_file_name(name: str) -> bool:
    is_plain = name not in ("", ".", "..") and "/" not in name and name.isprintable()
    return is_plain and len(name.encode()) <= MAX_NAME_BYTES


def _read_checked(folder: Path, name: str, entry: Mapping[str, Any], *, keep: bool = True) -> bytes:
    """Check a file against its manifest entry and return its content.

    With `keep` false the file is checked without reading it into memory; the result is empty.
    """
    path = folder / name
    try:
        with open_regular(path) as file:
            n_bytes = os.fstat(file.fileno()).st_size
            if n_bytes != entry.get("bytes"):
                raise ModelError(
                    f"{path} is damaged: {n_bytes} of {_quote(entry.get('bytes'))} bytes; "
                    f"{COPY_AGAIN}"
                )
            if name != WEIGHTS and n_bytes > MAX_FILE_BYTES:
                raise ModelError(
                    f"{path} has {n_bytes:,} bytes, expected at most {MAX_FILE_BYTES:,}: "
                    f"it does not belong to a model folder; {COPY_AGAIN}"
                )
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            file.seek(0)
            content = file.read() if keep else b""
    except FileNotFoundError:
        raise ModelError(f"{path} is missing, but the manifest lists it; {COPY_AGAIN}") from None
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from None
    if digest != entry.get("sha256"):
        raise ModelError(
            f"{path} is damaged: its SHA-256 differs from the manifest's; {COPY_AGAIN}"
        )
    return content


def _parse_config(content: bytes, folder: Path) -> FolderConfig:
    try:
        config = FolderConfig.model_validate_json(content)
    except ValidationError as error:
        problem = error.errors()[0]
        where = "".join(f"{part}." for part in problem["loc"]).rstrip(".")
        place = f"{folder / CONFIG}: " + (f"{printable(where[:MAX_QUOTED])}: " if where else "")
        raise ModelError(
            f"{place}{printable(problem['msg'])}; "
            "it was edited, or written by another version of transduce: "
            "restore the file, or use that version"
        ) from None
    model = config.model.model_copy(update=unwritten(config.model))
    return config.model_copy(update={"model": model})


def _parse_vocabulary(content: bytes, path: Path, prefix: Sequence[str] = ()) -> Vocabulary:
    try:
        return Vocabulary(content, prefix=prefix)
    except ModelError as error:
        raise ModelError(f"{path}: {error}; {COPY_AGAIN}") from None


def _quote(value: object) -> str:
    """Return a value from a file as a message shows it: printable and of limited length."""
    text = repr(value)
    return printable(text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}...")
