"""The folder of a prepared corpus, RUN/data: made once, used again while corpus and settings are the same.

RUN/data/manifest.json         what it was made from, what was counted, the parts
RUN/data/sentencepiece.model   the vocabulary; sentencepiece.target.model where the target has its own
RUN/data/part-*                the encoded corpus (transduce.data.shards)
RUN/data/valid.jsonl           the pairs to validate on          RUN/data/words.txt   the words of the source side
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from transduce.config import Config, Layer, differences, resolve
from transduce.data.encoding import Row, Task, encode_corpus
from transduce.data.shards import MANIFEST, check_files, find_manifest, finish
from transduce.errors import OutputError, StorageError
from transduce.model_folder import SOURCE_VOCABULARY, TARGET_VOCABULARY, WORDS
from transduce.storage import replace_file, sha256, to_json
from transduce.text.corpus import Pair, describe_changes
from transduce.text.files import Fingerprint
from transduce.text.vocabulary import Vocabulary

VALID = "valid.jsonl"
FORMAT = 1
Inputs = Mapping[str, Any]  # all that a prepared corpus depends on


def text_settings(settings: Sequence[Layer]) -> Config:
    """The settings that decide how text becomes ids; the rest may still be unknown."""
    return resolve(
        *({name: layer[name] for name in ("text", "data") if name in layer} for layer in settings)
    )


def describe_inputs(asked: Config, train: Fingerprint, valid: Fingerprint) -> dict[str, Any]:
    """All that a prepared corpus depends on."""
    data = asked.data.model_dump(include={"max_length", "valid_pairs"})
    files = [*train, *([f"valid {side}", name, digest] for side, name, digest in valid)]
    text = asked.text.model_dump(mode="json", exclude={"dropout"})
    return {
        "format": FORMAT,
        "files": files,
        "text": text,
        "data": data,
        "keep_text": asked.text.dropout > 0,
    }


def find_prepared(folder: Path, inputs: Inputs) -> dict[str, Any] | None:
    """The manifest of a prepared corpus, if it is whole and made from just this."""
    manifest = find_manifest(folder)
    if manifest is None or manifest.get("inputs") != inputs:
        return None
    check_files(folder, manifest)
    return manifest


def check_same_inputs(run: Path, before: Inputs, inputs: Inputs) -> None:
    """A run that has begun goes on with the same corpus; another one is refused, with the list of what differs."""
    changed = describe_changes(before["files"], inputs["files"])
    changed += differences(before, {section: inputs[section] for section in ("text", "data")})
    if before["keep_text"] != inputs["keep_text"]:
        changed.append("text.dropout was switched on or off")
    if changed:
        raise OutputError(
            f"{run} already holds another run: {'; '.join(changed)}. Choose a new folder, or the old files and settings"
        )


def encode_into(
    folder: Path,
    inputs: Inputs,
    vocabularies: Sequence[Vocabulary],
    rows: Iterable[Row],
    counted: Callable[[], Mapping[str, Any]],
) -> dict[str, Any]:
    """Encode rows into a folder and finish it. What `counted` gives, when all rows were read, goes into the manifest."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MANIFEST).unlink(missing_ok=True)  # it is not whole from here on
        (folder / TARGET_VOCABULARY).unlink(missing_ok=True)
        replace_file(folder / SOURCE_VOCABULARY, vocabularies[0].model)
        if vocabularies[-1] != vocabularies[0]:
            replace_file(folder / TARGET_VOCABULARY, vocabularies[-1].model)
        digests = [sha256(vocabulary.model) for vocabulary in vocabularies]
        key = sha256(to_json([inputs, digests]))
        paths = tuple(str(path) for path in vocabulary_files(folder)[: len(vocabularies)])
        task = Task(str(folder), key, paths, inputs["data"]["max_length"], inputs["keep_text"])
        n_parts = encode_corpus(task, rows)
        return finish(folder, key, n_parts, {"inputs": inputs, **counted()})
    except OSError as error:
        raise StorageError(
            f"cannot write the prepared corpus {folder}: {error.strerror}; the same command continues where this stopped"
        ) from None


def total(manifest: Mapping[str, Any], name: str) -> int:
    """A count over all parts."""
    return sum(part[name] for part in manifest["parts"])


class Vocabularies(NamedTuple):
    """The source's and the target's: one and the same where they are joint."""

    source: Vocabulary
    target: Vocabulary


def load_vocabularies(folder: Path) -> Vocabularies:
    """The vocabularies of a prepared corpus."""
    source, target = vocabulary_files(folder)
    first = Vocabulary(source.read_bytes())
    return Vocabularies(first, first if target == source else Vocabulary(target.read_bytes()))


def vocabulary_files(folder: Path) -> tuple[Path, Path]:
    """Where the vocabularies of source and target lie: one and the same file where they are joint."""
    source, target = folder / SOURCE_VOCABULARY, folder / TARGET_VOCABULARY
    return source, target if target.is_file() else source


def save_valid(folder: Path, pairs: Sequence[Pair]) -> None:
    """Keep the pairs to validate on."""
    rows = (json.dumps([pair.source, pair.target], ensure_ascii=False) for pair in pairs)
    replace_file(folder / VALID, "".join(f"{row}\n" for row in rows).encode())


def load_valid(folder: Path) -> list[Pair]:
    """The pairs to validate on."""
    rows = (folder / VALID).read_text(encoding="utf-8").split("\n")[:-1]
    return [Pair(*json.loads(row)) for row in rows]


def save_words(folder: Path, words: Iterable[str]) -> None:
    """Keep the words of the source side."""
    replace_file(folder / WORDS, "".join(f"{word}\n" for word in sorted(words)).encode())


def load_words(folder: Path) -> frozenset[str] | None:
    """The words of the source side, if they were few enough to keep."""
    path = folder / WORDS
    return frozenset(path.read_text(encoding="utf-8").split("\n")[:-1]) if path.is_file() else None
