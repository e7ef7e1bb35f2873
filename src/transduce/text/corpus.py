"""Sentence pairs, and the sources they are read from.

A source can be read many times, yields one pair at a time, and has a fingerprint of its content:

- `PairFiles`: parallel files
- `PairTables`: TSV or JSONL files with both sides
- `PairList`: pairs in memory
"""

import hashlib
import json
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import NamedTuple

from transduce.errors import DataError, UsageError
from transduce.storage import parse_json
from transduce.text.drift import likely_drift
from transduce.text.files import (
    Errors,
    Fingerprint,
    content_suffix,
    display_name,
    find_files,
    fingerprint_files,
    read_lines,
)
from transduce.text.normalize import LONE_SURROGATE
from transduce.text.printable import list_words

LANGUAGE_SUFFIX = re.compile(r"\.([a-z]{2})")
TABLE_SUFFIXES = (".tsv", ".jsonl")
DEFAULT_FIELDS = ("source", "target")
MAX_LINES_FOR_DRIFT = 2_000_000  # in longer files the drift is not located

Languages = tuple[str, str]  # of source and target
Fields = tuple[str, str]  # names of the JSON fields that hold source and target


class Pair(NamedTuple):
    """A sentence and its translation, with gold word alignments if they are known.

    `alignment` holds pairs (i, j): word i of the source corresponds to word j of the target. Words
    are those of `str.split`, counted from 0.
    """

    source: str
    target: str
    alignment: tuple[tuple[int, int], ...] = ()

    @property
    def is_blank(self) -> bool:
        """Return whether a side is empty or white space, so that nothing can be learned."""
        return not self.source or self.source.isspace() or not self.target or self.target.isspace()


@dataclass(frozen=True, slots=True)
class PairFiles:
    """Parallel files: line n of `targets[i]` is the translation of line n of `sources[i]`."""

    sources: tuple[Path, ...]
    targets: tuple[Path, ...]

    @property
    def name(self) -> str:
        """Return the names of the first two files, and how many pairs of files follow."""
        more = f" and {len(self.sources) - 1} more" if len(self.sources) > 1 else ""
        return f"{display_name(self.sources[0])} and {display_name(self.targets[0])}{more}"

    @property
    def languages(self) -> Languages | None:
        """Return the languages shown by the suffixes (`train.en`, `train.de.gz`), if they agree."""
        found = {
            languages_from_suffixes(source, target)
            for source, target in zip(self.sources, self.targets, strict=True)
        }
        return found.pop() if len(found) == 1 else None

    def read(self, errors: Errors = "strict") -> Iterator[Pair]:
        """Yield all pairs in order; raise DataError if two files have unequal lengths."""
        for source, target in zip(self.sources, self.targets, strict=True):
            for lines in zip_longest(read_lines(source, errors), read_lines(target, errors)):
                if None in lines:
                    raise unequal_lengths_error(source, target)
                yield Pair(*lines)

    def fingerprint(self) -> Fingerprint:
        """Return the fingerprint of all files."""
        return [
            *fingerprint_files("source", self.sources),
            *fingerprint_files("target", self.targets),
        ]


@dataclass(frozen=True, slots=True)
class PairTables:
    """Files with both sides: TSV (source, tab, target), or JSONL with two named fields."""

    paths: tuple[Path, ...]
    fields: Fields | None = None

    @property
    def name(self) -> str:
        """Return the names of the files."""
        return ", ".join(map(display_name, self.paths))

    @property
    def languages(self) -> Languages | None:
        """Return the field names if they look like languages."""
        if self.fields and all(LANGUAGE_SUFFIX.fullmatch(f".{field}") for field in self.fields):
            return self.fields
        return None

    def read(self, errors: Errors = "strict") -> Iterator[Pair]:
        """Yield all pairs in order."""
        for path in self.paths:
            is_json = content_suffix(path) == ".jsonl"
            for number, line in enumerate(read_lines(path, errors), start=1):
                if is_json:
                    yield parse_json_line(line, self.fields, path, number, errors)
                else:
                    yield parse_tsv_line(line, path, number)

    def fingerprint(self) -> Fingerprint:
        """Return the fingerprint of all files, and the fields that are read."""
        fields = ["fields", ",".join(self.fields or ()), ""]
        return [*fingerprint_files("pairs", self.paths), fields]


@dataclass(frozen=True, slots=True)
class PairList:
    """Pairs in memory."""

    pairs: Sequence[Pair]
    languages: Languages | None = None
    name: str = "the pairs"

    def read(self, errors: Errors = "strict") -> Iterator[Pair]:
        """Yield all pairs in order, with line breaks inside a side replaced by spaces."""
        return (Pair(join_lines(pair.source), join_lines(pair.target)) for pair in self.pairs)

    def fingerprint(self) -> Fingerprint:
        """Return one fingerprint of all pairs."""
        digest = hashlib.sha256()
        for pair in self.pairs:
            digest.update(json.dumps(pair[:2]).encode())
        return [["pairs", self.name, digest.hexdigest()]]


PairSource = PairFiles | PairTables | PairList


def open_pairs(
    source: Sequence[str | Path] = (),
    target: Sequence[str | Path] = (),
    pairs: Sequence[str | Path] = (),
    fields: Fields | None = None,
) -> PairSource:
    """Return the pairs of parallel files (`source`, `target`) or of tables (`pairs`).

    Patterns like `part-*.en` are expanded; `-` is standard input. Raise UsageError if the files do
    not go together.
    """
    if pairs:
        if source or target:
            raise UsageError(
                "give either --source and --target, or --pairs with both sides in one file"
            )
        return PairTables(find_files(pairs), fields)

    sources, targets = find_files(source), find_files(target)
    if not sources or not targets:
        for path in (*sources, *targets):
            if content_suffix(path) in TABLE_SUFFIXES:
                raise UsageError(f"{path} has both sides in one file; use --pairs {path}")
        raise UsageError("give both --source and --target, or --pairs with both sides in one file")
    if len(sources) != len(targets):
        raise UsageError(
            f"{len(sources)} source files but {len(targets)} target files; "
            "give one target file per source file"
        )
    if "-" in map(str, source) and "-" in map(str, target):
        raise UsageError(
            "--source and --target cannot both be standard input; use --pairs - for TSV"
        )
    return PairFiles(sources, targets)


def unequal_lengths_error(source: Path, target: Path) -> DataError:
    """Return the error for files of unequal length, with the likely place of the drift."""
    (n_source, source_lengths), (n_target, target_lengths) = map(_count_lines, (source, target))
    place = ""
    if max(n_source, n_target) <= MAX_LINES_FOR_DRIFT:
        drift = likely_drift(source_lengths, target_lengths)
        if drift is not None:
            place = f" They probably drift apart near line {drift:,}."
    return DataError(
        f"{display_name(source)} has {n_source:,} lines, {display_name(target)} has {n_target:,}; "
        f"line n of one must be the translation of line n of the other.{place} "
        "Run transduce doctor to see the place"
    )


def _count_lines(path: Path) -> "tuple[int, array[int]]":
    """Return the number of lines, and the lengths of the first MAX_LINES_FOR_DRIFT."""
    lines = read_lines(path, "replace")
    lengths = array("I", map(len, islice(lines, MAX_LINES_FOR_DRIFT)))
    return len(lengths) + sum(1 for _ in lines), lengths


def parse_tsv_line(line: str, path: Path, number: int) -> Pair:
    """Parse source, tab, target; further columns are ignored. An empty line is a blank pair.

    `path` and `number` are for the message if there is no tab.
    """
    columns = line.split("\t")
    if len(columns) >= 2:
        return Pair(columns[0], columns[1])
    if not line.strip():
        return Pair("", "")
    hint = ""
    if line.lstrip().startswith("{"):
        hint = "; if this is JSON, the name of the file must end in .jsonl"
    raise DataError(
        f"{display_name(path)}, line {number}: no tab; expected source, tab, target{hint}"
    )


def parse_json_line(
    line: str, fields: Fields | None, path: Path, number: int, errors: Errors = "strict"
) -> Pair:
    """Parse a JSON object with two text fields, at top level or inside `translation`.

    Hugging Face datasets have them inside `translation`. An empty line is a blank pair. A lone
    surrogate, which JSON can express and UTF-8 cannot, raises DataError, or is kept with
    `errors="replace"`. `path` and `number` are for messages.
    """
    place = f"{display_name(path)}, line {number}"
    if not line.strip():
        return Pair("", "")
    try:
        row = parse_json(line)
    except ValueError as error:
        raise DataError(f"{place}: not valid JSON: {error}") from None
    if isinstance(row, dict) and isinstance(row.get("translation"), dict):
        row = row["translation"]

    names = fields or DEFAULT_FIELDS
    if not isinstance(row, dict) or not all(isinstance(row.get(name), str) for name in names):
        if isinstance(row, dict):
            found = f"fields {list_words(list(row))}"
        else:
            found = f"a {type(row).__name__}"
        raise DataError(
            f"{place}: found {found}; expected text in {names[0]!r} and {names[1]!r}: "
            "name the fields with --fields SOURCE,TARGET"
        )
    for name in names:
        if errors == "strict" and (surrogate := LONE_SURROGATE.search(row[name])):
            raise DataError(
                f"{place}: {name!r} has a lone surrogate (U+{ord(surrogate[0]):04X}), "
                "which is not a character; drop such lines with transduce doctor --write"
            )
    return Pair(join_lines(row[names[0]]), join_lines(row[names[1]]))


def join_lines(text: str) -> str:
    """Replace line breaks by spaces, since each side of a pair is one line."""
    return text.replace("\r\n", " ").replace("\n", " ") if "\n" in text else text


def languages_from_suffixes(source: Path, target: Path) -> Languages | None:
    """Return the languages of two files if both have a language as suffix and they differ."""
    languages = []
    for path in (source, target):
        match = LANGUAGE_SUFFIX.fullmatch(content_suffix(path))
        if match is None:
            return None
        languages.append(match[1])
    a, b = languages
    return (a, b) if a != b else None


def describe_changes(before: Fingerprint, after: Fingerprint) -> list[str]:
    """Return the differences between two fingerprints, one line each."""
    old = {(side, name): digest for side, name, digest in before}
    new = {(side, name): digest for side, name, digest in after}
    changes = [
        f"{name} has changed"
        for (side, name), digest in new.items()
        if old.get((side, name), digest) != digest
    ]
    changes += [f"{name} is now given ({side})" for side, name in new if (side, name) not in old]
    changes += [
        f"{name} is no longer given ({side})" for side, name in old if (side, name) not in new
    ]
    if not changes and before != after:
        changes.append("the files are given in another order")
    return changes
