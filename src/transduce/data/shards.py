"""An encoded corpus on disk, larger than memory if need be: numbers in `.npy` files that are mapped, not read.

data/part-00000.source.npy        the pieces of all rows of this part, one after the other (16 bits if the vocabulary allows)
data/part-00000.source.ends.npy   where each row ends
data/part-00000.json              counts, size and SHA-256 of its files: written last, so a part is whole or not there
data/manifest.json                all parts, written when the last one is there

A row of sentence pairs has the columns `source` and `target`; a running text has one column, `text`. Nothing here imports torch.
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
from transduce.storage import read_json, replace_file, sha256, to_json
from transduce.text.files import sha256_of_file

MANIFEST = "manifest.json"
OPEN_PARTS = 64  # of a text, at once: each holds a file open
Ids = np.ndarray[tuple[int], np.dtype[Any]]


class Column(NamedTuple):
    """Rows of numbers, one after the other, and where each of them ends."""

    values: Ids
    ends: Ids

    def row(self, i: int) -> Ids:
        """Row i."""
        return self.values[int(self.ends[i - 1]) if i else 0 : int(self.ends[i])]


def make_column(rows: Sequence[Sequence[int]], n_pieces: int) -> Column:
    """Rows of ids below `n_pieces` as a column."""
    ends = np.fromiter(accumulate(map(len, rows)), dtype=np.uint32, count=len(rows))
    kind = np.uint16 if n_pieces <= 1 << 16 else np.uint32
    return Column(
        np.fromiter(chain.from_iterable(rows), dtype=kind, count=int(ends[-1]) if rows else 0), ends
    )


def make_text_column(lines: Sequence[str]) -> Column:
    """Lines as a column of UTF-8 bytes."""
    rows = [line.encode() for line in lines]
    ends = np.fromiter(accumulate(map(len, rows)), dtype=np.uint32, count=len(rows))
    return Column(np.frombuffer(b"".join(rows), dtype=np.uint8), ends)


def write_part(
    folder: Path, number: int, key: str, columns: Mapping[str, Column], counts: Mapping[str, int]
) -> None:
    """Write a part; its description, which says that it is whole, comes last."""
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
    """Whether a part is there, whole, and made from the same corpus and vocabulary."""
    return read_if_whole(folder / f"part-{number:05d}.json").get("key") == key


def finish(folder: Path, key: str, n_parts: int, more: Mapping[str, Any]) -> dict[str, Any]:
    """Write the manifest, with the SHA-256 of what lies beside the parts: all is whole. What is left of others is removed."""
    parts = [read_json(folder / f"part-{number:05d}.json") for number in range(n_parts)]
    known = {name for part in parts for name in part["files"]}
    known |= {f"part-{number:05d}.json" for number in range(n_parts)}
    for path in folder.glob("part-*"):
        if path.name not in known:
            path.unlink()
    beside = sorted(
        path
        for path in folder.iterdir()
        if path.name != MANIFEST and not path.name.startswith("part-")
    )
    files = {
        path.name: {"bytes": path.stat().st_size, "sha256": sha256_of_file(path)} for path in beside
    }
    manifest = {"key": key, **more, "files": files, "parts": parts}
    replace_file(folder / MANIFEST, to_json(manifest))
    return manifest


def find_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of an encoded corpus, if it is whole."""
    return read_if_whole(folder / MANIFEST) or None


def read_if_whole(path: Path) -> dict[str, Any]:
    """A description, or nothing if it is not there or was damaged: then what it describes is made again."""
    try:
        return read_json(path)
    except ModelError:
        return {}


def check_files(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Every file is as it was written; a damaged one is named."""
    for described in (manifest, *manifest["parts"]):
        for name, entry in described["files"].items():
            path = folder / name
            if (
                not path.is_file()
                or path.stat().st_size != entry["bytes"]
                or sha256_of_file(path) != entry["sha256"]
            ):
                raise DataError(
                    f"{path} is damaged or missing: remove the folder {folder}, it will be made again"
                )


@dataclass(frozen=True)
class Shards:
    """The encoded corpus of a folder: parts that are opened when they are needed."""

    folder: Path
    rows: tuple[int, ...]  # of each part
    tokens: tuple[int, ...]

    @cached_property
    def ends(self) -> list[int]:
        """The number of the first row after each part."""
        return list(accumulate(self.rows))

    def __len__(self) -> int:
        return self.ends[-1] if self.rows else 0

    def column(self, part: int, name: str) -> Column:
        """A column of a part, mapped into memory."""
        start = self.folder / f"part-{part:05d}.{name}"
        values, ends = (
            np.load(f"{start}.{suffix}", mmap_mode="r") for suffix in ("npy", "ends.npy")
        )
        return Column(values, ends)

    def read(self, start: int, stop: int, name: str) -> Iterator[Ids]:
        """A column of rows start to stop, a row at a time."""
        for part, first, after in stretches(self.ends, start, stop):
            column = self.column(part, name)
            ends = column.ends[max(0, first - 1) : after].tolist()
            begin = ends.pop(0) if first else 0
            values = column.values
            for end in ends:
                yield values[begin:end]
                begin = end


def stretches(ends: Sequence[int], start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Start to stop, cut where parts end, as (part, first in it, after the last in it)."""
    while start < stop:
        part = bisect.bisect_right(ends, start)
        begin, end = ends[part - 1] if part else 0, min(stop, ends[part])
        yield part, start - begin, end - begin
        start = end


def open_shards(folder: Path) -> Shards:
    """The encoded corpus of a folder, which must be whole."""
    parts = read_json(folder / MANIFEST)["parts"]
    return Shards(
        folder, tuple(part["rows"] for part in parts), tuple(part["tokens"] for part in parts)
    )


class Stream:
    """One running text that lies in several parts: `stream[start:stop]` reads across them."""

    def __init__(self, shards: Shards) -> None:
        self._values = lru_cache(OPEN_PARTS)(lambda part: shards.column(part, "text").values)
        self._ends = list(accumulate(shards.tokens))
        self._start, self._stop = 0, self._ends[-1] if self._ends else 0

    def between(self, start: int, stop: int) -> "Stream":
        """A stretch of the text."""
        found = copy.copy(self)
        found._start, found._stop = self._start + start, self._start + stop
        return found

    def __len__(self) -> int:
        return self._stop - self._start

    def __getitem__(self, place: slice) -> Ids:
        start, stop, _ = place.indices(len(self))
        start, stop = start + self._start, stop + self._start
        found = (
            self._values(part)[first:after]
            for part, first, after in stretches(self._ends, start, stop)
        )
        return np.concatenate([np.empty(0, dtype=np.uint16), *found])
