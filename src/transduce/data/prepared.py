"""The prepared corpus on disk, RUN/data: reused as long as corpus and settings are the same.

RUN/data/manifest.json         inputs, counts, and the list of parts
RUN/data/sentencepiece.model   the vocabulary; sentencepiece.target.model if the target has its own
RUN/data/part-*                the encoded corpus (transduce.data.shards)
RUN/data/valid.jsonl           the validation pairs
RUN/data/words.txt             the words of the source side
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from transduce.config import Config, Layer, differences, resolve
from transduce.data.encoding import EncodingJob, Row, encode_corpus
from transduce.data.shards import (
    MANIFEST,
    check_files,
    damaged_file_error,
    read_manifest,
    write_manifest,
)
from transduce.errors import ModelError, OutputError, StorageError
from transduce.model_folder import SOURCE_VOCABULARY, TARGET_VOCABULARY, WORDS
from transduce.storage import parse_json, remove, replace_file, sha256, to_json
from transduce.text.corpus import Pair, describe_changes
from transduce.text.files import Fingerprint
from transduce.text.vocabulary import Vocabulary

VALID = "valid.jsonl"
FORMAT = 1
PAIR_COUNTS, TEXT_COUNTS = ("pairs", "blank", "split_off", "leaked"), ("documents", "characters")
SEVERAL = "several_sentences"  # the count of sources with several sentences, of pairs
MIXED = "mixed"  # the count of pairs of another corpus that were mixed in
Inputs = Mapping[str, Any]  # everything a prepared corpus depends on: see `describe_inputs`
Manifest = Mapping[str, Any]  # the content of manifest.json


def text_settings(settings: Sequence[Layer]) -> Config:
    """Resolve the sections `text` and `data`, which decide how text becomes ids."""
    return resolve(
        *({name: layer[name] for name in ("text", "data") if name in layer} for layer in settings)
    )


def describe_inputs(requested: Config, files: Fingerprint) -> dict[str, Any]:
    """Return everything a prepared corpus depends on: files and settings, as JSON values."""
    text = requested.text.model_dump(mode="json", exclude={"dropout"})
    if text["source_prefix"] is None:
        del text["source_prefix"]  # corpora prepared by older versions have no such entry
    return {
        "format": FORMAT,
        "files": list(files),
        "text": text,
        "data": requested.data.model_dump(include={"max_length", "valid_pairs"}),
        "keep_text": requested.text.dropout > 0,
    }


def is_inputs(value: Mapping[str, Any]) -> bool:
    """Return whether a value from disk has the form that `describe_inputs` gives."""
    files = value.get("files")
    return (
        isinstance(files, list)
        and all(
            isinstance(entry, list)
            and len(entry) == 3
            and all(isinstance(each, str) for each in entry)
            for entry in files
        )
        and all(isinstance(value.get(section), dict) for section in ("text", "data"))
        and isinstance(value.get("keep_text"), bool)
    )


def find_prepared(folder: Path, inputs: Inputs) -> Manifest | None:
    """Return the manifest of a complete corpus made from exactly these inputs, or None.

    Raise DataError if one of its files is damaged.
    """
    manifest = read_manifest(folder)
    if manifest is None or manifest.get("inputs") != inputs or not has_counts(manifest):
        return None
    check_files(folder, manifest)
    return manifest


def has_counts(manifest: Manifest) -> bool:
    """Return whether a manifest has the counts of a corpus of pairs or of a text."""
    counts = PAIR_COUNTS if "pairs" in manifest else TEXT_COUNTS
    optional = (SEVERAL, MIXED)
    return all(type(manifest.get(name)) is int for name in counts) and all(
        type(manifest.get(name, 0)) is int for name in optional
    )


def check_same_inputs(run: Path, before: Inputs, inputs: Inputs) -> None:
    """Raise OutputError with the list of differences if a run was started with other inputs."""
    changed = describe_changes(before["files"], inputs["files"])
    changed += differences(before, {section: inputs[section] for section in ("text", "data")})
    if before["keep_text"] != inputs["keep_text"]:
        changed.append("text.dropout was switched on or off")
    if changed:
        raise OutputError(
            f"{run} already holds another run: {'; '.join(changed)}. "
            "Choose a new folder, or give the same files and settings as before"
        )


def encode_into(
    folder: Path,
    inputs: Inputs,
    vocabularies: Sequence[Vocabulary],
    rows: Iterable[Row],
    count: Callable[[], Mapping[str, Any]],
) -> Manifest:
    """Encode rows into a folder, write the manifest and return it.

    `count` is called after all rows were read; its result is added to the manifest. Raise
    StorageError if the disk is full.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in (MANIFEST, TARGET_VOCABULARY):  # the corpus is incomplete from here on
            remove(folder / name)
        replace_file(folder / SOURCE_VOCABULARY, vocabularies[0].model)
        if vocabularies[-1].model != vocabularies[0].model:
            replace_file(folder / TARGET_VOCABULARY, vocabularies[-1].model)

        digests = [sha256(vocabulary.model) for vocabulary in vocabularies]
        key = sha256(to_json([inputs, digests]))
        paths = vocabulary_files(folder)[: len(vocabularies)]
        job = EncodingJob(
            folder=str(folder),
            key=key,
            vocabularies=tuple(str(path) for path in paths),
            max_length=inputs["data"]["max_length"],
            keep_text=inputs["keep_text"],
            source_prefix=vocabularies[0].prefix,
        )
        n_parts = encode_corpus(job, rows)
        return write_manifest(folder, key, n_parts, {"inputs": inputs, **count()})
    except OSError as error:
        raise StorageError(
            f"cannot write the prepared corpus {folder}: {error.strerror}; "
            "run the same command to continue"
        ) from None


def total(manifest: Manifest, name: str) -> int:
    """Return the sum of a count over all parts."""
    return sum(part[name] for part in manifest["parts"])


class Vocabularies(NamedTuple):
    """The vocabularies of source and target; the same object if they are joint."""

    source: Vocabulary
    target: Vocabulary


def load_vocabularies(folder: Path) -> Vocabularies:
    """Load the vocabularies of a prepared corpus; raise DataError if one is damaged."""
    source_file, target_file = vocabulary_files(folder)
    manifest = read_manifest(folder) or {}
    text = manifest.get("inputs", {}).get("text", {})
    prefix = text.get("source_prefix") or ()
    source = _load_vocabulary(source_file, prefix)
    if target_file == source_file and not prefix:
        return Vocabularies(source, source)
    return Vocabularies(source, _load_vocabulary(target_file))


def _load_vocabulary(path: Path, prefix: Sequence[str] = ()) -> Vocabulary:
    try:
        return Vocabulary(path.read_bytes(), prefix=prefix)
    except (OSError, ModelError):
        raise damaged_file_error(path) from None


def vocabulary_files(folder: Path) -> tuple[Path, Path]:
    """Return the files of the source and target vocabularies; the same path if they are joint."""
    source, target = folder / SOURCE_VOCABULARY, folder / TARGET_VOCABULARY
    return source, target if target.is_file() else source


def save_valid(folder: Path, pairs: Sequence[Pair]) -> None:
    """Save the validation pairs."""
    rows = (json.dumps([pair.source, pair.target], ensure_ascii=False) for pair in pairs)
    replace_file(folder / VALID, "".join(f"{row}\n" for row in rows).encode())


def load_valid(folder: Path) -> list[Pair]:
    """Load the validation pairs; raise DataError if the file is damaged."""
    path = folder / VALID
    pairs = []
    try:
        for row in path.read_text(encoding="utf-8").split("\n")[:-1]:
            source, target = parse_json(row)
            if not (isinstance(source, str) and isinstance(target, str)):
                raise damaged_file_error(path)
            pairs.append(Pair(source, target))
    except (OSError, ValueError, TypeError):
        raise damaged_file_error(path) from None
    return pairs


def save_words(folder: Path, words: Iterable[str]) -> None:
    """Save the words of the source side."""
    replace_file(folder / WORDS, "".join(f"{word}\n" for word in sorted(words)).encode())


def load_words(folder: Path) -> frozenset[str] | None:
    """Load the words of the source side; None if there were too many to keep."""
    path = folder / WORDS
    if not path.is_file():
        return None
    return frozenset(path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1])
