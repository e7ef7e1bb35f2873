"""Text -> ids for a whole corpus: a part at a time, in this process or in several.

A worker is a Python process of its own that is fed through its standard input, so that it needs no guard in the user's script and
ends when its parent does. The order of the parts, and so every byte, is the same for any number of workers.
"""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

from transduce.data import shards
from transduce.errors import StorageError
from transduce.hardware import count_cores
from transduce.storage import PARTIAL
from transduce.text.running_text import FIRST, NEXT_DOCUMENT, NEXT_LINE
from transduce.text.vocabulary import EOS, SOS, Vocabulary

ROWS_PER_PART, MOST_CHARACTERS = 25_000, 10_000_000  # of a part; characters of its last column
WORKER = "from transduce.data.encoding import work; work(sys.stdin.buffer, sys.stdout.buffer)"

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Task:
    """What to do with the rows of a part: where it goes, what it is made from, and what is too long."""

    folder: str
    key: str
    vocabularies: tuple[
        str, ...
    ]  # files of SentencePiece models: of source and target, or of a text
    max_length: int
    keep_text: bool = False  # beside the ids, for sampling subwords afresh in each epoch


def encode_pairs_part(
    task: Task, number: int, rows: Sequence[Row], vocabularies: Sequence[Vocabulary]
) -> None:
    """Encode sentence pairs and write them as a part; those that are too long are left out and counted."""
    sources, targets = (
        vocabulary.encode_batch(lines)
        for vocabulary, lines in zip(vocabularies, zip(*rows, strict=True), strict=True)
    )
    kept = [i for i in range(len(rows)) if fits(sources[i], targets[i], task.max_length)]
    if len(kept) < len(rows):
        sources, targets = [sources[i] for i in kept], [targets[i] for i in kept]
    for ids in sources:
        ids.append(EOS)
    for ids in targets:
        ids.insert(0, SOS)
        ids.append(EOS)
    columns: dict[str, shards.Column] = {
        "source": shards.make_column(sources, len(vocabularies[0])),
        "target": shards.make_column(targets, len(vocabularies[1])),
    }
    n_tokens = len(columns["target"].values) - len(kept)
    if task.keep_text:
        columns["source_text"] = shards.make_text_column([rows[i][0] for i in kept])
        columns["target_text"] = shards.make_text_column([rows[i][1] for i in kept])
    counts = {"rows": len(kept), "too_long": len(rows) - len(kept), "tokens": n_tokens}
    shards.write_part(Path(task.folder), number, task.key, columns, counts)


def encode_text_part(
    task: Task, number: int, rows: Sequence[Row], vocabularies: Sequence[Vocabulary]
) -> None:
    """Encode lines of running text, each with what stands before it: a line feed, or the start of a document."""
    [vocabulary] = vocabularies
    [newline] = vocabulary.encode("\n")
    before = {FIRST: [SOS], NEXT_DOCUMENT: [EOS, SOS], NEXT_LINE: [newline]}
    ids = vocabulary.encode_batch([line for _, line in rows])
    column = shards.make_column(
        [[*before[start], *line] for (start, _), line in zip(rows, ids, strict=True)],
        len(vocabulary),
    )
    counts = {"rows": len(rows), "too_long": 0, "tokens": len(column.values)}
    shards.write_part(Path(task.folder), number, task.key, {"text": column}, counts)


def fits(source: Sequence[int], target: Sequence[int], max_length: int) -> bool:
    """Whether a pair has at most so many pieces on its longer side, [EOS] counted."""
    return max(len(source), len(target)) < max_length


def encode_part(
    task: Task, number: int, rows: Sequence[Row], vocabularies: Sequence[Vocabulary]
) -> None:
    """Encode a part: pairs with two vocabularies, running text with one."""
    (encode_pairs_part if len(vocabularies) == 2 else encode_text_part)(
        task, number, rows, vocabularies
    )


def encode_corpus(task: Task, rows: Iterable[Row], n_workers: int | None = None) -> int:
    """Encode all rows into parts, leaving alone those that are there already; returns how many parts there are.

    A corpus of one part is encoded here; a larger one by as many processes as there are cores, or as said.
    """
    folder = Path(task.folder)
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob(f"*{PARTIAL}"):  # what a killed preparation left half-written
        path.unlink()
    parts = cut(rows)
    first = list(islice(parts, 1))
    is_small = not first or len(first[0]) < ROWS_PER_PART
    if is_small:
        first += islice(parts, 1)  # there may be more, if the rows are long
    numbered = enumerate(chain(first, parts))
    if n_workers == 0 or (is_small and len(first) < 2):
        vocabularies = load_vocabularies(task)
        count = 0
        for number, part in numbered:
            if not shards.is_written(folder, number, task.key):
                encode_part(task, number, part, vocabularies)
            count += 1
        return count
    return encode_in_processes(task, numbered, n_workers or count_cores())


def cut(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Rows in lists of the size of a part, smaller if they are long."""
    part: list[Row] = []
    n_characters = 0
    for row in rows:
        part.append(row)
        n_characters += len(row[-1])
        if len(part) == ROWS_PER_PART or n_characters > MOST_CHARACTERS:
            yield part
            part, n_characters = [], 0
    if part:
        yield part


def encode_in_processes(task: Task, parts: Iterator[tuple[int, list[Row]]], n_workers: int) -> int:
    """Encode parts by several processes; at most one more part than there are processes waits in memory."""
    workers: SimpleQueue[Worker] = SimpleQueue()
    started = [Worker(task) for _ in range(n_workers)]
    for worker in started:
        workers.put(worker)

    def encode(number: int, rows: list[Row]) -> None:
        worker = workers.get()
        try:
            worker.encode(number, rows)
        finally:
            workers.put(worker)

    count = 0
    waiting: list[Future[None]] = []
    threads = ThreadPoolExecutor(n_workers)
    try:
        for number, rows in parts:
            count += 1
            if shards.is_written(Path(task.folder), number, task.key):
                continue
            if len(waiting) > n_workers:
                waiting.pop(0).result()
            waiting.append(threads.submit(encode, number, rows))
        for future in waiting:
            future.result()
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        for worker in started:
            worker.end()
        threads.shutdown()
    return count


def start_worker(code: str, *arguments: str) -> "subprocess.Popen[bytes]":
    """Start a Python process that is fed through a pipe and ends with it.

    It finds this package wherever it lies, imports nothing from the folder it is started in, and hears nothing of signals that the
    terminal sends to its parent.
    """
    root = str(Path(__file__).parents[2])
    return subprocess.Popen(
        [
            sys.executable,
            "-P",
            "-c",
            f"import sys; sys.path.append(sys.argv.pop(1)); {code}",
            root,
            *arguments,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )


def end_worker(process: "subprocess.Popen[bytes]") -> None:
    """End a process that `start_worker` began."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None, "both are pipes"
        with contextlib.suppress(BrokenPipeError):
            pipe.close()


class Worker:
    """A process that encodes parts; it ends when its standard input does."""

    def __init__(self, task: Task) -> None:
        self._process = start_worker(WORKER)
        self._send(asdict(task))

    def encode(self, number: int, rows: list[Row]) -> None:
        """Let the process encode a part, and wait for it."""
        content = "\n".join(
            chain.from_iterable(rows)
        ).encode()  # a row holds lines: no line feed inside
        self._send({"number": number, "columns": len(rows[0]), "bytes": len(content)}, content)
        assert self._process.stdout is not None, "a pipe"
        answer = self._process.stdout.readline()
        if answer.strip() != b"done":
            reason = answer.decode(errors="replace").strip()
            reason = (
                reason or f"it ended with code {self._process.wait()}, perhaps for want of memory"
            )
            raise StorageError(
                f"part {number} could not be encoded: {reason}; the same command continues where this stopped"
            )

    def end(self) -> None:
        """End the process."""
        end_worker(self._process)

    def _send(self, header: Mapping[str, Any], content: bytes = b"") -> None:
        assert self._process.stdin is not None, "a pipe"
        with contextlib.suppress(BrokenPipeError):  # the process is gone; `encode` says so
            self._process.stdin.write(json.dumps(header).encode() + b"\n" + content)
            self._process.stdin.flush()


def work(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Encode what is asked for until there is nothing more: the whole of a worker process."""
    task_values = json.loads(requests.readline())
    task = Task(**{**task_values, "vocabularies": tuple(task_values["vocabularies"])})
    vocabularies = load_vocabularies(task, n_threads=1)
    while header := requests.readline():
        asked = json.loads(header)
        content = requests.read(asked["bytes"])
        if len(content) < asked["bytes"]:
            return  # the parent was killed while it wrote: half a part is no part
        fields = iter(content.decode().split("\n"))
        rows = list(zip(*[fields] * asked["columns"], strict=True))
        try:
            encode_part(task, asked["number"], rows, vocabularies)
            answers.write(b"done\n")
        except Exception as error:  # the parent raises it
            answers.write(f"{type(error).__name__}: {error}\n".encode())
        answers.flush()


def load_vocabularies(task: Task, n_threads: int = -1) -> list[Vocabulary]:
    """The vocabularies of a task."""
    return [Vocabulary(Path(file).read_bytes(), n_threads) for file in task.vocabularies]
