"""Sentence pairs: the type, and where they come from.

A source of pairs can be read again and again, is read a pair at a time, and knows its fingerprint without being parsed:
`PairFiles` (two parallel files, or several), `PairTables` (TSV or JSONL) and `PairList` (in memory).
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from transduce.errors import DataError, UsageError
from transduce.text.drift import likely_drift
from transduce.text.files import Errors, bare_suffixes, find_files, read_lines, sha256_of_file

LANGUAGE = re.compile(r"\.([a-z]{2})")
TABLES = (".tsv", ".jsonl")
MOST_COMPARED = 2_000_000  # lines whose lengths are kept to find where two files drifted apart

Languages = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Pair:
    """A sentence and its translation, with gold word alignments where they are known.

    `alignment` holds (i, j): word i of the source corresponds to word j of the target, words being what `str.split` gives, from 0.
    """

    source: str
    target: str
    alignment: tuple[tuple[int, int], ...] = ()

    @property
    def is_blank(self) -> bool:
        """A side has nothing to read: the pair cannot be learnt from."""
        return not (self.source.strip() and self.target.strip())


@runtime_checkable
class PairSource(Protocol):
    """Where pairs come from."""

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def languages(self) -> Languages | None:
        """The languages of source and target, if they can be told from the names of the files."""

    def read(self, errors: Errors = "strict") -> Iterator[Pair]:
        """All pairs in order, blank ones too."""

    def fingerprint(self) -> dict[str, str]:
        """SHA-256 by the name of what is read."""


@dataclass(frozen=True, slots=True)
class PairFiles:
    """Parallel files: line n of a source file is translated by line n of the target file of the same place."""

    sources: tuple[Path, ...]
    targets: tuple[Path, ...]

    @property
    def name(self) -> str:
        """The names of the first two files."""
        more = f" and {len(self.sources) - 1} more" if len(self.sources) > 1 else ""
        return f"{self.sources[0]} and {self.targets[0]}{more}"

    @property
    def languages(self) -> Languages | None:
        """From the suffixes: `train.en` and `train.de.gz` are English and German."""
        found = {languages_of(source, target) for source, target in zip(self.sources, self.targets, strict=True)}
        return found.pop() if len(found) == 1 else None

    def read(self, errors: Errors = "strict") -> Iterator[Pair]:
        """All pairs in order; files of unequal length are an error that says where they likely drifted apart."""
        for source, target in zip(self.sources, self.targets, strict=True):
            yield from read_parallel(source, target, errors)

    def fingerprint(self) -> dict[str, str]:
        """Of each file, as it lies there."""
        return {str(path): sha256_of_file(path) for path in (*self.sources, *self.targets)}


@dataclass(frozen=True, slots=True)
class PairTables:
    """Files that hold both sides: TSV (source, tab, target) or JSONL with two named fields."""

    paths: tuple[Path, ...]
    fields: Languages | None = None

    @property
    def name(self) -> str:
        """The names of the files."""
        return ", ".join(map(str, self.paths))

    @property
    def languages(self) -> Languages | None:
        """The names of the fields, where they are languages."""
        if self.fields and all(LANGUAGE.fullmatch(f".{field}") for field in self.fields):
            return self.fields
        return None

    def read(self, errors: Errors = "strict") -> Iterator[Pair]:
        """All pairs in order."""
        for path in self.paths:
            is_json = ".jsonl" in bare_suffixes(path)[-1:]
            for number, line in enumerate(read_lines(path, errors), start=1):
                yield from_json(line, self.fields, path, number) if is_json else from_tsv(line, path, number)

    def fingerprint(self) -> dict[str, str]:
        """Of each file, as it lies there."""
        return {str(path): sha256_of_file(path) for path in self.paths}


@dataclass(frozen=True, slots=True)
class PairList:
    """Pairs that are in memory already."""

    pairs: Sequence[Pair]
    languages: Languages | None = None
    name: str = "the pairs"

    def read(self, errors: Errors = "strict") -> Iterator[Pair]:
        """All pairs in order."""
        yield from self.pairs

    def fingerprint(self) -> dict[str, str]:
        """Of all pairs together."""
        digest = hashlib.sha256()
        for pair in self.pairs:
            digest.update(f"{pair.source}\n{pair.target}\n".encode(errors="surrogatepass"))
        return {self.name: digest.hexdigest()}


def open_pairs(
    source: Sequence[str | Path] = (),
    target: Sequence[str | Path] = (),
    pairs: Sequence[str | Path] = (),
    fields: Languages | None = None,
) -> PairSource:
    """The pairs of parallel files, or of tables; patterns like `part-*.en` are expanded, `-` is standard input."""
    if pairs:
        if source or target:
            raise UsageError("give either --source and --target, or --pairs with both sides in one file")
        return PairTables(find_files(pairs), fields)
    sources, targets = find_files(source), find_files(target)
    for path in (*sources, *targets):
        if set(bare_suffixes(path)[-1:]) & set(TABLES) and not (sources and targets):
            raise UsageError(f"{path} holds both sides: give it by --pairs {path}")
    if not sources or not targets:
        raise UsageError("give both --source and --target, or --pairs with both sides in one file")
    if len(sources) != len(targets):
        raise UsageError(f"{len(sources)} source files and {len(targets)} target files: each needs its translation")
    if "-" in [*map(str, source)] and "-" in [*map(str, target)]:
        raise UsageError("--source and --target cannot both be standard input: use --pairs - for TSV")
    return PairFiles(sources, targets)


def read_parallel(source: Path, target: Path, errors: Errors = "strict") -> Iterator[Pair]:
    """The pairs of two parallel files."""
    lengths: tuple[list[int], list[int]] = ([], [])
    counts = [0, 0]
    for lines in zip_longest(read_lines(source, errors), read_lines(target, errors)):
        for side, line in enumerate(lines):
            if line is not None:
                counts[side] += 1
                if counts[side] <= MOST_COMPARED:
                    lengths[side].append(len(line))
        if lines[0] is not None and lines[1] is not None:
            yield Pair(*lines)
    if counts[0] != counts[1]:
        drift = likely_drift(*lengths)
        near = f" They most likely drift apart near line {drift:,}." if drift is not None else ""
        raise DataError(
            f"{source} has {counts[0]:,} lines, {target} has {counts[1]:,}: line n of one must be the translation of line n of the "
            f"other.{near} transduce doctor shows the place"
        )


def from_tsv(line: str, path: Path, number: int) -> Pair:
    """A line of a TSV file: source, tab, target; what follows a second tab is left alone."""
    columns = line.split("\t")
    if len(columns) < 2:
        if not line.strip():
            return Pair("", "")
        raise DataError(f"{path}, line {number}: no tab; wanted source, tab, target")
    return Pair(columns[0], columns[1])


def from_json(line: str, fields: Languages | None, path: Path, number: int) -> Pair:
    """A line of a JSONL file: an object with two named fields, perhaps inside `translation`, as Hugging Face writes them."""
    if not line.strip():
        return Pair("", "")
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}, line {number}: not valid JSON: {error}") from None
    if isinstance(row, dict) and isinstance(row.get("translation"), dict):
        row = row["translation"]
    wanted = fields or ("source", "target")
    if not isinstance(row, dict) or not all(isinstance(row.get(field), str) for field in wanted):
        found = f"the fields {', '.join(row)}" if isinstance(row, dict) else f"a {type(row).__name__}"
        raise DataError(
            f"{path}, line {number}: {found}, wanted text in {wanted[0]!r} and {wanted[1]!r}; name yours by --fields SOURCE,TARGET"
        )
    return Pair(one_line(row[wanted[0]]), one_line(row[wanted[1]]))


def one_line(text: str) -> str:
    """JSON may hold line feeds inside a text; a sentence of a pair has none."""
    return text.replace("\r\n", " ").replace("\n", " ")


def languages_of(source: Path, target: Path) -> Languages | None:
    """The languages of two files, from their last suffixes, if both look like a language and differ."""
    found = [LANGUAGE.fullmatch(suffix) for path in (source, target) for suffix in bare_suffixes(path)[-1:]]
    if len(found) == 2 and found[0] and found[1] and found[0][1] != found[1][1]:
        return found[0][1], found[1][1]
    return None


def changed_files(before: Mapping[str, Any], after: Mapping[str, str]) -> list[str]:
    """What differs between two fingerprints, a line each."""
    return [
        f"{name} is another file"
        if name in before and name in after
        else f"{name} is new"
        if name in after
        else f"{name} is gone"
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]
