"""An encoded corpus on disk: ids in memory-mapped `.npy` files, so it may be larger than memory.

data/part-00000.source.npy        the ids of all rows of this part, concatenated (16 or 32 bits)
data/part-00000.source.ends.npy   the end of each row
data/part-00000.json              counts, and size and SHA-256 of the files; written last
data/manifest.json                all parts; written after the last part

A part without its `.json` file, or a corpus without its manifest, is incomplete. Sentence pairs
have the columns `source` and `target`; running text has one column, `text`. This module does not
import torch.
"""

import bisect
import copy
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from transduce.errors import DataError, ModelError
from transduce.storage import read_json, remove, replace_file, sha256, to_json
from transduce.text.files import sha256_of_file

MANIFEST = "manifest.json"
MAX_OPEN_PARTS = 64  # parts of a running text whose files are kept open
Ids = np.ndarray[tuple[int], np.dtype[Any]]


class Column(NamedTuple):
    """Concatenated rows of numbers, and the end of each row."""

    values: Ids
    ends: Ids

    def row(self, i: int) -> Ids:
        """Return row i."""
        start = int(self.ends[i - 1]) if i else 0
        return self.values[start : int(self.ends[i])]


def make_column(rows: Sequence[Sequence[int]], vocab_size: int) -> Column:
    """Return rows of ids as a column, with 16 bits per id if `vocab_size` allows it."""
    ends = np.fromiter(accumulate(map(len, rows)), dtype=np.uint32, count=len(rows))
    dtype = np.uint16 if vocab_size <= 1 << 16 else np.uint32
    n_values = int(ends[-1]) if rows else 0
    return Column(np.fromiter(chain.from_iterable(rows), dtype=dtype, count=n_values), ends)


def make_text_column(lines: Sequence[str]) -> Column:
    """Return lines of text as a column of UTF-8 bytes."""
    rows = [line.encode() for line in lines]
    ends = np.fromiter(accumulate(map(len, rows)), dtype=np.uint32, count=len(rows))
    return Column(np.frombuffer(b"".join(rows), dtype=np.uint8), ends)


def write_part(
    folder: Path, number: int, key: str, columns: Mapping[str, Column], counts: Mapping[str, int]
) -> None:
    """Write a part; its `.json` file comes last and marks it as complete."""
    files = {}
    for name, column in columns.items():
        for suffix, array in (("npy", column.values), ("ends.npy", column.ends)):
            buffer = io.BytesIO()
            np.save(buffer, array, allow_pickle=False)
            file = f"part-{number:05d}.{name}.{suffix}"
            replace_file(folder / file, buffer.getvalue())
            files[file] = {"bytes": len(buffer.getvalue()), "sha256": sha256(buffer.getvalue())}
    description = {"key": key, **counts, "columns": list(columns), "files": files}
    replace_file(folder / f"part-{number:05d}.json", to_json(description))


def is_written(folder: Path, number: int, key: str) -> bool:
    """Return whether a part is complete and made with this key (corpus and vocabulary)."""
    part = read_or_empty(folder / f"part-{number:05d}.json")
    return part.get("key") == key and is_part(part) and not damaged_files(folder, part)


def write_manifest(folder: Path, key: str, n_parts: int, more: Mapping[str, Any]) -> dict[str, Any]:
    """Write the manifest, which marks the corpus as complete, and return it.

    It holds the entries of `more`, all parts, and size and SHA-256 of the other files. Parts of an
    older corpus are removed.
    """
    parts = [
        read_json(folder / f"part-{number:05d}.json", "prepared corpus")
        for number in range(n_parts)
    ]
    known = {name for part in parts for name in part["files"]}
    known |= {f"part-{number:05d}.json" for number in range(n_parts)}
    for path in folder.glob("part-*"):
        if path.name not in known:
            remove(path)
    others = sorted(
        path
        for path in folder.iterdir()
        if path.name != MANIFEST and not path.name.startswith("part-") and path.is_file()
    )
    files = {
        path.name: {"bytes": path.stat().st_size, "sha256": sha256_of_file(path)} for path in others
    }
    manifest = {"key": key, **more, "files": files, "parts": parts}
    replace_file(folder / MANIFEST, to_json(manifest))
    return manifest


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """Return the manifest of an encoded corpus, or None if the corpus is incomplete."""
    manifest = read_or_empty(folder / MANIFEST)
    parts = manifest.get("parts")
    if not isinstance(parts, list) or not all(is_part(part) for part in parts):
        return None
    return manifest if lists_files(manifest) else None


def read_or_empty(path: Path) -> dict[str, Any]:
    """Read a JSON object; return {} if it is missing or damaged."""
    if not path.is_file():  # reading a pipe or a device may not end
        return {}
    try:
        return read_json(path, "prepared corpus")
    except ModelError:
        return {}


def is_part(value: object) -> bool:
    """Return whether a value from disk has the form of the description of a part."""
    return (
        isinstance(value, dict)
        and all(type(value.get(name)) is int for name in ("rows", "too_long", "tokens"))
        and lists_files(value)
    )


def lists_files(described: Mapping[str, Any]) -> bool:
    """Return whether a manifest, or the description of a part, has a valid list of files.

    Each entry has the size and SHA-256 of a file in the same folder.
    """
    files = described.get("files")
    return isinstance(files, dict) and all(
        Path(name).name == name and isinstance(entry, dict) and {"bytes", "sha256"} <= entry.keys()
        for name, entry in files.items()
    )


def damaged_files(folder: Path, described: Mapping[str, Any]) -> list[Path]:
    """Return the listed files that are missing or differ from their size or SHA-256."""
    return [
        folder / name
        for name, entry in described["files"].items()
        if not (folder / name).is_file()
        or (folder / name).stat().st_size != entry["bytes"]
        or sha256_of_file(folder / name) != entry["sha256"]
    ]


def check_files(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Check size and SHA-256 of every file; raise DataError that names the first damaged one."""
    for described in (manifest, *manifest["parts"]):
        for path in damaged_files(folder, described):
            raise damaged_file_error(path)


def damaged_file_error(path: Path) -> DataError:
    """Return the error of a file of a prepared corpus that cannot be used."""
    return DataError(
        f"{path} is damaged or missing; remove the folder {path.parent} to prepare it again"
    )


@dataclass(frozen=True)
class Shards:
    """The encoded corpus of a folder. Parts are opened when they are needed."""

    folder: Path
    rows: tuple[int, ...]  # per part
    tokens: tuple[int, ...]  # per part

    @cached_property
    def ends(self) -> list[int]:
        """The index after the last row of each part."""
        return list(accumulate(self.rows))

    def __len__(self) -> int:
        return self.ends[-1] if self.rows else 0

    def column(self, part: int, name: str) -> Column:
        """Return a column of a part, memory-mapped."""
        start = self.folder / f"part-{part:05d}.{name}"
        try:
            values, ends = (
                np.load(f"{start}.{suffix}", mmap_mode="r") for suffix in ("npy", "ends.npy")
            )
        except (OSError, ValueError):
            raise DataError(
                f"{start}.npy or {start.name}.ends.npy was damaged or removed during training; "
                "run the same command to check the prepared corpus"
            ) from None
        return Column(values, ends)

    def read(self, start: int, stop: int, name: str) -> Iterator[Ids]:
        """Yield the rows `start` to `stop` of a column."""
        for part, first, after in split_by_part(self.ends, start, stop):
            column = self.column(part, name)
            ends = column.ends[max(0, first - 1) : after].tolist()
            begin = ends.pop(0) if first else 0
            values = column.values
            for end in ends:
                yield values[begin:end]
                begin = end


def split_by_part(ends: Sequence[int], start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Split the range `start` to `stop` at the ends of parts.

    Yield (part, start in the part, stop in the part).
    """
    while start < stop:
        part = bisect.bisect_right(ends, start)
        begin, end = ends[part - 1] if part else 0, min(stop, ends[part])
        yield part, start - begin, end - begin
        start = end


def open_shards(folder: Path) -> Shards:
    """Open the encoded corpus of a folder; raise ModelError if it is incomplete."""
    manifest = read_manifest(folder)
    if manifest is None:
        raise ModelError(
            f"the prepared corpus {folder} is incomplete or damaged; run the same command again"
        )
    parts = manifest["parts"]
    return Shards(
        folder, tuple(part["rows"] for part in parts), tuple(part["tokens"] for part in parts)
    )


class TokenStream:
    """The ids of a running text over all parts: `stream[start:stop]` reads across them."""

    def __init__(self, shards: Shards) -> None:
        self._values = lru_cache(MAX_OPEN_PARTS)(lambda part: shards.column(part, "text").values)
        self._ends = list(accumulate(shards.tokens))
        self._start, self._stop = 0, self._ends[-1] if self._ends else 0

    def between(self, start: int, stop: int) -> "TokenStream":
        """Return the ids from `start` to `stop` as a stream, without reading them."""
        found = copy.copy(self)
        found._start, found._stop = self._start + start, self._start + stop
        return found

    def __len__(self) -> int:
        return self._stop - self._start

    def __getitem__(self, bounds: slice) -> Ids:
        start, stop, _ = bounds.indices(len(self))
        start, stop = start + self._start, stop + self._start
        found = (
            self._values(part)[first:after]
            for part, first, after in split_by_part(self._ends, start, stop)
        )
        return np.concatenate([np.empty(0, dtype=np.uint16), *found])
