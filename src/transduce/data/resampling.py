"""Random segmentation (BPE-dropout) in a process that works while the model trains.

The process reads requests from its standard input and ends when that is closed, so it dies with its
parent. Its answers depend on the rows and the seed only, so a resumed training sees the same
tokens.
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

WORKER = (
    "from transduce.data.resampling import work; "
    "work(sys.argv[1:], sys.stdin.buffer, sys.stdout.buffer)"
)

Columns = tuple[Column, Column]
Request = tuple[int, int, int]  # first row, row after the last, seed


def sample(
    shards: Shards,
    segmenters: Sequence[BpeDropout],
    sizes: Sequence[int],
    dropout: float,
    max_length: int,
    request: Request,
) -> Columns:
    """Segment rows at random and return the columns of source and target.

    `segmenters` and `sizes` (of the vocabularies) are those of source and target. A pair that would
    become too long keeps its stored segmentation.
    """
    start, stop, seed = request
    random = Random(seed)
    drawn = [
        [
            segmenter.encode(row.tobytes().decode(), dropout, random)
            for row in shards.read(start, stop, name)
        ]
        for name, segmenter in zip(("source_text", "target_text"), segmenters, strict=True)
    ]
    stored = [list(shards.read(start, stop, name)) for name in ("source", "target")]
    sources: list[Sequence[int]] = []
    targets: list[Sequence[int]] = []
    for i, (source, target) in enumerate(zip(*drawn, strict=True)):
        if fits(source, target, max_length):
            sources.append([*source, EOS])
            targets.append([SOS, *target, EOS])
        else:
            sources.append(stored[0][i].tolist())
            targets.append(stored[1][i].tolist())
    return make_column(sources, sizes[0]), make_column(targets, sizes[1])


class Sampler:
    """A process that segments rows. Call `request` early and `columns` when they are needed."""

    def __init__(
        self, folder: Path, vocabularies: tuple[Path, Path], dropout: float, max_length: int
    ) -> None:
        arguments = [str(folder), *map(str, vocabularies), str(dropout), str(max_length)]
        self._process = start_worker(WORKER, *arguments)
        self._answers: SimpleQueue[tuple[Request, Columns] | None] = SimpleQueue()
        self._requested: set[Request] = set()
        self._done: dict[Request, Columns] = {}
        assert self._process.stdout is not None, "a pipe"
        Thread(target=collect, args=(self._process.stdout, self._answers), daemon=True).start()
        self.end = weakref.finalize(self, end_worker, self._process)

    def request(self, start: int, stop: int, seed: int) -> None:
        """Request the segmentation of rows `start` to `stop`; `columns` returns the result."""
        request = (start, stop, seed)
        if request in self._requested:
            return
        assert self._process.stdin is not None, "a pipe"
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._kill() from None
        self._requested.add(request)

    def columns(self, start: int, stop: int, seed: int) -> Columns:
        """Return the columns of source and target; wait for the process if necessary."""
        request = (start, stop, seed)
        self.request(*request)
        while request not in self._done:
            answer = self._answers.get()
            if answer is None:
                raise self._kill()
            answered, columns = answer
            self._done[answered] = columns
        self._requested.remove(request)
        return self._done.pop(request)

    def _kill(self) -> StorageError:
        """End a process that no longer answers, and return the error about it."""
        self._process.kill()  # it may be alive, but have sent an invalid answer
        return StorageError(
            f"the BPE-dropout process (text.dropout) ended with code {self._process.wait()} "
            "(out of memory?); run the same command to resume from the last checkpoint"
        )


def collect(pipe: IO[bytes], answers: "SimpleQueue[tuple[Request, Columns] | None]") -> None:
    """Move answers from the pipe to the queue, so that the process never blocks.

    None in the queue means that there are no more answers.
    """
    try:
        while header := pipe.readline():
            request, dtypes, sizes = json.loads(header)
            contents = [pipe.read(size) for size in sizes]
            if [len(content) for content in contents] != sizes:
                break  # the process was killed while it was writing
            arrays = [
                np.frombuffer(content, dtype=dtype)
                for dtype, content in zip(dtypes, contents, strict=True)
            ]
            answers.put((tuple(request), (Column(*arrays[:2]), Column(*arrays[2:]))))
    except ValueError:
        pass  # the pipe was closed: the sampler has ended
    answers.put(None)


def work(arguments: Sequence[str], requests: IO[bytes], answers: IO[bytes]) -> None:
    """Segment the requested rows until there are no more: the main function of the process."""
    folder, source, target, dropout, max_length = arguments
    shards = open_shards(Path(folder))
    vocabularies = [Vocabulary(Path(file).read_bytes(), n_threads=1) for file in (source, target)]
    segmenters = [BpeDropout(vocabulary) for vocabulary in vocabularies]
    vocab_sizes = [len(vocabulary) for vocabulary in vocabularies]
    while line := requests.readline():
        request: Any = json.loads(line)
        columns = sample(
            shards, segmenters, vocab_sizes, float(dropout), int(max_length), tuple(request)
        )
        arrays = [array for column in columns for array in column]
        dtypes = [array.dtype.str for array in arrays]
        sizes = [array.nbytes for array in arrays]
        header = [request, dtypes, sizes]
        answers.write(
            json.dumps(header).encode() + b"\n" + b"".join(array.tobytes() for array in arrays)
        )
        answers.flush()
