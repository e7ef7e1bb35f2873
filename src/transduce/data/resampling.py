"""Words cut into pieces at random, in a process of their own that works while the model trains.

It is fed through its standard input and ends when that does, so it dies with its parent. What it answers depends on the rows and on
the seed alone, so that a training that is taken up again sees the same pieces.
"""

import json
import weakref
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue
from random import Random
from threading import Thread
from typing import IO, Any

import numpy as np

from transduce.data.encoding import end_worker, fits, start_worker
from transduce.data.shards import Column, Shards, make_column, open_shards
from transduce.errors import StorageError
from transduce.text.bpe_dropout import BpeDropout
from transduce.text.vocabulary import EOS, SOS, Vocabulary

WORKER = "from transduce.data.resampling import work; work(sys.argv[1:], sys.stdin.buffer, sys.stdout.buffer)"

Columns = tuple[Column, Column]
Asked = tuple[int, int, int]  # first row, row after the last, seed


def sample(
    shards: Shards,
    cutters: Sequence[BpeDropout],
    sizes: Sequence[int],
    dropout: float,
    max_length: int,
    asked: Asked,
) -> Columns:
    """Rows cut into pieces at random; a pair that this makes too long is cut as it was encoded."""
    start, stop, seed = asked
    random = Random(seed)
    drawn = [
        [
            cutter.encode(row.tobytes().decode(), dropout, random)
            for row in shards.read(start, stop, name)
        ]
        for name, cutter in zip(("source_text", "target_text"), cutters, strict=True)
    ]
    encoded = [list(shards.read(start, stop, name)) for name in ("source", "target")]
    sources: list[Sequence[int]] = []
    targets: list[Sequence[int]] = []
    for i, (source, target) in enumerate(zip(*drawn, strict=True)):
        is_short = fits(source, target, max_length)
        sources.append([*source, EOS] if is_short else encoded[0][i].tolist())
        targets.append([SOS, *target, EOS] if is_short else encoded[1][i].tolist())
    return make_column(sources, sizes[0]), make_column(targets, sizes[1])


class Sampler:
    """A process that cuts rows into pieces; ask early, take later."""

    def __init__(
        self, folder: Path, vocabularies: tuple[Path, Path], dropout: float, max_length: int
    ) -> None:
        arguments = [str(folder), *map(str, vocabularies), str(dropout), str(max_length)]
        self._process = start_worker(WORKER, *arguments)
        self._answers: SimpleQueue[tuple[Asked, Columns] | None] = SimpleQueue()
        self._asked: set[Asked] = set()
        self._made: dict[Asked, Columns] = {}
        assert self._process.stdout is not None, "a pipe"
        Thread(target=collect, args=(self._process.stdout, self._answers), daemon=True).start()
        self.end = weakref.finalize(self, end_worker, self._process)

    def ask(self, start: int, stop: int, seed: int) -> None:
        """Let rows be cut; the answer is taken by `columns`."""
        asked = (start, stop, seed)
        if asked in self._asked:
            return
        assert self._process.stdin is not None, "a pipe"
        try:
            self._process.stdin.write(json.dumps(asked).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._gone() from None
        self._asked.add(asked)

    def columns(self, start: int, stop: int, seed: int) -> Columns:
        """The columns of source and target of rows that were cut with a seed."""
        asked = (start, stop, seed)
        self.ask(*asked)
        while asked not in self._made:
            answer = self._answers.get()
            if answer is None:
                raise self._gone()
            self._made[answer[0]] = answer[1]
        self._asked.remove(asked)
        return self._made.pop(asked)

    def _gone(self) -> StorageError:
        self._process.kill()  # what it wrote last was not an answer
        return StorageError(
            f"the process that cuts words into pieces ended with code {self._process.wait()}, perhaps for want of memory; "
            "the same command continues from the last checkpoint"
        )


def collect(pipe: IO[bytes], answers: "SimpleQueue[tuple[Asked, Columns] | None]") -> None:
    """Take answers out of the pipe as they come, so that the process need not wait; None when there will be no more."""
    try:
        while header := pipe.readline():
            asked, kinds, sizes = json.loads(header)
            contents = [pipe.read(size) for size in sizes]
            if [*map(len, contents)] != sizes:
                break  # it was killed while it wrote
            arrays = [
                np.frombuffer(content, dtype=kind)
                for kind, content in zip(kinds, contents, strict=True)
            ]
            answers.put((tuple(asked), (Column(*arrays[:2]), Column(*arrays[2:]))))
    except ValueError:
        pass  # the pipe was closed under us: the sampler has ended
    answers.put(None)


def work(arguments: Sequence[str], requests: IO[bytes], answers: IO[bytes]) -> None:
    """Cut what is asked for until there is nothing more: the whole of the process."""
    folder, source, target, dropout, max_length = arguments
    shards = open_shards(Path(folder))
    vocabularies = [Vocabulary(Path(file).read_bytes(), n_threads=1) for file in (source, target)]
    cutters, sizes = (
        [BpeDropout(each) for each in vocabularies],
        [len(each) for each in vocabularies],
    )
    while line := requests.readline():
        asked: Any = json.loads(line)
        found = sample(shards, cutters, sizes, float(dropout), int(max_length), tuple(asked))
        arrays = [array for column in found for array in column]
        header = [asked, [array.dtype.str for array in arrays], [array.nbytes for array in arrays]]
        answers.write(
            json.dumps(header).encode() + b"\n" + b"".join(array.tobytes() for array in arrays)
        )
        answers.flush()
