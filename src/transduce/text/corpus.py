"""Sentence pairs: the type, and where they come from.

A source of pairs can be read again and again, is read a pair at a time, and knows its fingerprint without being parsed:
`PairFiles` (two parallel files, or several), `PairTables` (TSV or JSONL) and `PairList` (in memory).
"""

import hashlib
import json
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from transduce.errors import DataError, UsageError
from transduce.text.drift import likely_drift
from transduce.text.files import (
    Errors,
    Fingerprint,
    content_suffixes,
    display_name,
    find_files,
    fingerprint_of,
    read_lines,
)
from transduce.text.normalize import LONE_SURROGATE

LANGUAGE = re.compile(r"\.([a-z]{2})")
TABLES = (".tsv", ".jsonl")
MOST_COMPARED = 2_000_000  # lines whose lengths are compared to find where two files drifted apart

Languages = tuple[str, str]


class Pair(NamedTuple):
    """A sentence and its translation, with gold word alignments where they are known.

    `alignment` holds (i, j): word i of the source corresponds to word j of the target, words being what `str.split` gives, from 0.
    """

    source: str
    target: str
    alignment: tuple[tuple[int, int], ...] = ()

    @property
    def is_blank(self) -> bool:
        """A side has nothing to read: the pair cannot be learnt from."""
        return not self.source or self.source.isspace() or not self.target or self.target.isspace()


@dataclass(frozen=True, slots=True)
class PairFiles:
    """Parallel files: line n of a source file is translated by line n of the target file of the same place."""

    sources: tuple[Path, ...]
    targets: tuple[Path, ...]

    @property
    def name(self) -> str:
        """The names of the first two files."""
        more = f" and {len(self.sources) - 1} more" if len(self.sources) > 1 else ""
        return f"{display_name(self.sources[0])} and {display_name(self.targets[0])}{more}"

    @property
    def languages(self) -> Languages | None:
        """From the suffixes: `train.en` and `train.de.gz` are English and German."""
        found = {
            languages_of(source, target)
            for source, target in zip(self.sources, self.targets, strict=True)
        }
        return found.pop() if len(found) == 1 else None

    def read(self, errors: Errors = "strict") -> Iterator[Pair]:
        """All pairs in order; files of unequal length are an error that says where they likely drifted apart."""
        for source, target in zip(self.sources, self.targets, strict=True):
            for lines in zip_longest(read_lines(source, errors), read_lines(target, errors)):
                if None in lines:
                    raise unequal(source, target)
                yield Pair(*lines)

    def fingerprint(self) -> Fingerprint:
        """Of each file, as it lies there."""
        return [*fingerprint_of("source", self.sources), *fingerprint_of("target", self.targets)]


@dataclass(frozen=True, slots=True)
class PairTables:
    """Files that hold both sides: TSV (source, tab, target) or JSONL with two named fields."""

    paths: tuple[Path, ...]
    fields: Languages | None = None

    @property
    def name(self) -> str:
        """The names of the files."""
        return ", ".join(map(display_name, self.paths))

    @property
    def languages(self) -> Languages | None:
        """The names of the fields, where they are languages."""
        if self.fields and all(LANGUAGE.fullmatch(f".{field}") for field in self.fields):
            return self.fields
        return None

    def read(self, errors: Errors = "strict") -> Iterator[Pair]:
        """All pairs in order."""
        for path in self.paths:
            is_json = ".jsonl" in content_suffixes(path)[-1:]
            for number, line in enumerate(read_lines(path, errors), start=1):
                yield (
                    from_json(line, self.fields, path, number, errors)
                    if is_json
                    else from_tsv(line, path, number)
                )

    def fingerprint(self) -> Fingerprint:
        """Of each file, as it lies there, and the fields that are read."""
        return [*fingerprint_of("pairs", self.paths), ["fields", ",".join(self.fields or ()), ""]]


@dataclass(frozen=True, slots=True)
class PairList:
    """Pairs that are in memory already."""

    pairs: Sequence[Pair]
    languages: Languages | None = None
    name: str = "the pairs"

    def read(self, errors: Errors = "strict") -> Iterator[Pair]:
        """All pairs in order, each side as one line."""
        return (Pair(join_lines(pair.source), join_lines(pair.target)) for pair in self.pairs)

    def fingerprint(self) -> Fingerprint:
        """Of all pairs together."""
        digest = hashlib.sha256()
        for pair in self.pairs:
            digest.update(json.dumps(pair[:2]).encode())
        return [["pairs", self.name, digest.hexdigest()]]


PairSource = PairFiles | PairTables | PairList  # where pairs come from


def open_pairs(
    source: Sequence[str | Path] = (),
    target: Sequence[str | Path] = (),
    pairs: Sequence[str | Path] = (),
    fields: Languages | None = None,
) -> PairSource:
    """The pairs of parallel files, or of tables; patterns like `part-*.en` are expanded, `-` is standard input."""
    if pairs:
        if source or target:
            raise UsageError(
                "give either --source and --target, or --pairs with both sides in one file"
            )
        return PairTables(find_files(pairs), fields)
    sources, targets = find_files(source), find_files(target)
    for path in (*sources, *targets):
        if set(content_suffixes(path)[-1:]) & set(TABLES) and not (sources and targets):
            raise UsageError(f"{path} holds both sides: give it by --pairs {path}")
    if not sources or not targets:
        raise UsageError("give both --source and --target, or --pairs with both sides in one file")
    if len(sources) != len(targets):
        raise UsageError(
            f"{len(sources)} source files and {len(targets)} target files: each needs its translation"
        )
    if "-" in [*map(str, source)] and "-" in [*map(str, target)]:
        raise UsageError(
            "--source and --target cannot both be standard input: use --pairs - for TSV"
        )
    return PairFiles(sources, targets)


def unequal(source: Path, target: Path) -> DataError:
    """The error of two files that are not parallel, with the line at which they most likely drift apart."""
    lengths = [
        array("I", (len(line) for line in read_lines(path, "replace"))) for path in (source, target)
    ]
    drift = likely_drift(*lengths) if max(map(len, lengths)) <= MOST_COMPARED else None
    near = f" They most likely drift apart near line {drift:,}." if drift is not None else ""
    counts = f"{display_name(source)} has {len(lengths[0]):,} lines, {display_name(target)} has {len(lengths[1]):,}"
    return DataError(
        f"{counts}: line n of one must be the translation of line n of the other.{near} transduce doctor shows the place"
    )


def from_tsv(line: str, path: Path, number: int) -> Pair:
    """A line of a TSV file: source, tab, target; what follows a second tab is left alone."""
    columns = line.split("\t")
    if len(columns) < 2:
        if not line.strip():
            return Pair("", "")
        hint = (
            "; JSON is read from a file whose name ends in .jsonl"
            if line.lstrip().startswith("{")
            else ""
        )
        raise DataError(
            f"{display_name(path)}, line {number}: no tab; wanted source, tab, target{hint}"
        )
    return Pair(columns[0], columns[1])


def from_json(
    line: str, fields: Languages | None, path: Path, number: int, errors: Errors = "strict"
) -> Pair:
    """A line of a JSONL file: an object with two named fields, perhaps inside `translation`, as Hugging Face writes them.

    Half of a surrogate pair, which JSON can write and UTF-8 cannot, is an error, or stays with `errors="replace"`.
    """
    if not line.strip():
        return Pair("", "")
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{display_name(path)}, line {number}: not valid JSON: {error}") from None
    if isinstance(row, dict) and isinstance(row.get("translation"), dict):
        row = row["translation"]
    wanted = fields or ("source", "target")
    if not isinstance(row, dict) or not all(isinstance(row.get(field), str) for field in wanted):
        found = (
            f"the fields {', '.join(row)}" if isinstance(row, dict) else f"a {type(row).__name__}"
        )
        raise DataError(
            f"{display_name(path)}, line {number}: {found}, wanted text in {wanted[0]!r} and {wanted[1]!r}; "
            "name yours by --fields SOURCE,TARGET"
        )
    for field in wanted:
        if errors == "strict" and (half := LONE_SURROGATE.search(row[field])):
            raise DataError(
                f"{display_name(path)}, line {number}: {field!r} holds half of a surrogate pair (U+{ord(half[0]):04X}), which is "
                "no character; leave such lines out: transduce doctor --write"
            )
    return Pair(join_lines(row[wanted[0]]), join_lines(row[wanted[1]]))


def join_lines(text: str) -> str:
    """A text without line feeds, which JSON or a program may have put into it: a sentence of a pair has none."""
    return text.replace("\r\n", " ").replace("\n", " ") if "\n" in text else text


def languages_of(source: Path, target: Path) -> Languages | None:
    """The languages of two files, from their last suffixes, if both look like a language and differ."""
    found = [
        LANGUAGE.fullmatch(suffix)
        for path in (source, target)
        for suffix in content_suffixes(path)[-1:]
    ]
    if len(found) == 2 and found[0] and found[1] and found[0][1] != found[1][1]:
        return found[0][1], found[1][1]
    return None


def describe_changes(before: Fingerprint, after: Fingerprint) -> list[str]:
    """What differs between two fingerprints, a line each."""
    old, new = ({(side, name): digest for side, name, digest in each} for each in (before, after))
    changed = [
        f"{name} has changed"
        for (side, name), digest in new.items()
        if old.get((side, name), digest) != digest
    ]
    changed += [f"{name} is now given ({side})" for side, name in new if (side, name) not in old]
    changed += [
        f"{name} is no longer given ({side})" for side, name in old if (side, name) not in new
    ]
    return changed or (["the files are given in another order"] if before != after else [])
