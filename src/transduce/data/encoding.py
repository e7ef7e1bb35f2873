"""Encode a whole corpus into ids, part by part, in this process or in several.

A worker is a Python process that reads requests from its standard input. So the user's script needs
no `if __name__ == "__main__"` guard, and a worker ends when its parent does. The parts, and every
byte in them, are the same for any number of workers.
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
from transduce.storage import PARTIAL, remove
from transduce.text.running_text import FIRST, NEXT_DOCUMENT, NEXT_LINE
from transduce.text.vocabulary import EOS, SOS, Vocabulary

ROWS_PER_PART = 25_000
MAX_CHARACTERS = 10_000_000  # of the last column of a part, for a part with long rows
WORKER = "from transduce.data.encoding import work; work(sys.stdin.buffer, sys.stdout.buffer)"

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EncodingJob:
    """How to encode the rows of a corpus, and where to write the parts."""

    folder: str
    key: str  # SHA-256 of all inputs; a part with another key is encoded again
    vocabularies: tuple[str, ...]  # SentencePiece files: source and target, or one for running text
    max_length: int
    keep_text: bool = False  # also store the text, for segmenting it anew in each epoch
    source_prefix: tuple[str, ...] = ()  # tokens before each source


def encode_pairs_part(
    job: EncodingJob, number: int, rows: Sequence[Row], vocabularies: Sequence[Vocabulary]
) -> None:
    """Encode sentence pairs and write them as a part; pairs that are too long are dropped."""
    sources, targets = (
        vocabulary.encode_batch(lines)
        for vocabulary, lines in zip(vocabularies, zip(*rows, strict=True), strict=True)
    )
    kept = [i for i in range(len(rows)) if fits(sources[i], targets[i], job.max_length)]
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
    n_tokens = len(columns["target"].values) - len(kept)  # without [SOS]
    if job.keep_text:
        columns["source_text"] = shards.make_text_column([rows[i][0] for i in kept])
        columns["target_text"] = shards.make_text_column([rows[i][1] for i in kept])
    counts = {"rows": len(kept), "too_long": len(rows) - len(kept), "tokens": n_tokens}
    shards.write_part(Path(job.folder), number, job.key, columns, counts)


def encode_text_part(
    job: EncodingJob, number: int, rows: Sequence[Row], vocabularies: Sequence[Vocabulary]
) -> None:
    """Encode lines of running text and write them as a part.

    A row is (what precedes the line, the line), as in `read_normalized_lines`.
    """
    [vocabulary] = vocabularies
    [newline] = vocabulary.encode("\n")
    prefixes = {FIRST: [SOS], NEXT_DOCUMENT: [EOS, SOS], NEXT_LINE: [newline]}
    lines = vocabulary.encode_batch([line for _, line in rows])
    ids = [[*prefixes[before], *line] for (before, _), line in zip(rows, lines, strict=True)]
    column = shards.make_column(ids, len(vocabulary))
    counts = {"rows": len(rows), "too_long": 0, "tokens": len(column.values)}
    shards.write_part(Path(job.folder), number, job.key, {"text": column}, counts)


def fits(source: Sequence[int], target: Sequence[int], max_length: int) -> bool:
    """Return whether both sides have at most `max_length` tokens, including [EOS]."""
    return max(len(source), len(target)) < max_length


def encode_part(
    job: EncodingJob, number: int, rows: Sequence[Row], vocabularies: Sequence[Vocabulary]
) -> None:
    """Encode a part: sentence pairs if there are two vocabularies, running text if there is one."""
    if len(vocabularies) == 2:
        encode_pairs_part(job, number, rows, vocabularies)
    else:
        encode_text_part(job, number, rows, vocabularies)


def encode_corpus(job: EncodingJob, rows: Iterable[Row], n_workers: int | None = None) -> int:
    """Encode all rows into parts and return the number of parts. Existing parts are kept.

    A corpus of one part is encoded in this process, a larger one by `n_workers` processes (default:
    one per core). `n_workers=0` always uses this process.
    """
    folder = Path(job.folder)
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob(f"*{PARTIAL}"):  # left by a run that was killed
        remove(path)

    parts = split_rows(rows)
    first = list(islice(parts, 1))
    is_small = not first or len(first[0]) < ROWS_PER_PART
    if is_small:
        first += islice(parts, 1)  # a part of long rows may be short although there are more
    numbered = enumerate(chain(first, parts))
    if n_workers == 0 or (is_small and len(first) < 2):
        vocabularies = load_vocabularies(job)
        count = 0
        for number, part in numbered:
            if not shards.is_written(folder, number, job.key):
                encode_part(job, number, part, vocabularies)
            count += 1
        return count
    return encode_in_processes(job, numbered, n_workers or count_cores())


def split_rows(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yield rows in lists of `ROWS_PER_PART`, or fewer if they exceed `MAX_CHARACTERS`."""
    part: list[Row] = []
    n_characters = 0
    for row in rows:
        part.append(row)
        n_characters += len(row[-1])
        if len(part) == ROWS_PER_PART or n_characters > MAX_CHARACTERS:
            yield part
            part, n_characters = [], 0
    if part:
        yield part


def encode_in_processes(
    job: EncodingJob, parts: Iterator[tuple[int, list[Row]]], n_workers: int
) -> int:
    """Encode parts with several processes and return the number of parts.

    At most `n_workers` + 1 parts wait in memory.
    """
    idle: SimpleQueue[Worker] = SimpleQueue()
    workers = [Worker(job) for _ in range(n_workers)]
    for worker in workers:
        idle.put(worker)

    def encode(number: int, rows: list[Row]) -> None:
        worker = idle.get()
        try:
            worker.encode(number, rows)
        finally:
            idle.put(worker)

    count = 0
    waiting: list[Future[None]] = []
    threads = ThreadPoolExecutor(n_workers)
    try:
        for number, rows in parts:
            count += 1
            if shards.is_written(Path(job.folder), number, job.key):
                continue
            if len(waiting) > n_workers:
                waiting.pop(0).result()
            waiting.append(threads.submit(encode, number, rows))
        for future in waiting:
            future.result()
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.end()
        threads.shutdown()
    return count


def start_worker(code: str, *arguments: str) -> "subprocess.Popen[bytes]":
    """Start a Python process that runs `code` and reads requests from a pipe.

    It imports this package from where it is now and nothing from the current folder. Signals that
    the terminal sends to the parent do not reach it.
    """
    root = str(Path(__file__).parents[2])
    program = f"import sys; sys.path.append(sys.argv.pop(1)); {code}"
    return subprocess.Popen(
        [sys.executable, "-P", "-c", program, root, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )


def end_worker(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process started by `start_worker` and close its pipes."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None, "both are pipes"
        with contextlib.suppress(BrokenPipeError):
            pipe.close()


class Worker:
    """A process that encodes parts. It ends when its standard input is closed."""

    def __init__(self, job: EncodingJob) -> None:
        self._process = start_worker(WORKER)
        self._send(asdict(job))

    def encode(self, number: int, rows: list[Row]) -> None:
        """Encode a part in the worker and wait for it; raise StorageError if that fails."""
        content = "\n".join(chain.from_iterable(rows)).encode()  # fields contain no line feed
        self._send({"number": number, "columns": len(rows[0]), "bytes": len(content)}, content)
        assert self._process.stdout is not None, "a pipe"
        answer = self._process.stdout.readline()
        if answer.strip() != b"done":
            reason = answer.decode(errors="replace").strip()
            if not reason:
                reason = f"the worker ended with code {self._process.wait()} (out of memory?)"
            raise StorageError(
                f"part {number} could not be encoded: {reason}; run the same command to continue"
            )

    def end(self) -> None:
        """Kill the process."""
        end_worker(self._process)

    def _send(self, header: Mapping[str, Any], content: bytes = b"") -> None:
        assert self._process.stdin is not None, "a pipe"
        with contextlib.suppress(BrokenPipeError):  # the process has died; `encode` reports it
            self._process.stdin.write(json.dumps(header).encode() + b"\n" + content)
            self._process.stdin.flush()


def work(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Encode the requested parts until there are no more: the main function of a worker."""
    values = json.loads(requests.readline())
    job = EncodingJob(
        **{
            **values,
            "vocabularies": tuple(values["vocabularies"]),
            "source_prefix": tuple(values["source_prefix"]),
        }
    )
    vocabularies = load_vocabularies(job, n_threads=1)
    while header := requests.readline():
        request = json.loads(header)
        content = requests.read(request["bytes"])
        if len(content) < request["bytes"]:
            return  # the parent was killed while it was writing
        fields = content.decode().split("\n")
        n_columns = request["columns"]
        rows = [tuple(fields[i : i + n_columns]) for i in range(0, len(fields), n_columns)]
        try:
            encode_part(job, request["number"], rows, vocabularies)
            answers.write(b"done\n")
        except Exception as error:  # the parent raises it
            answers.write(f"{type(error).__name__}: {error}\n".encode())
        answers.flush()


def load_vocabularies(job: EncodingJob, n_threads: int = -1) -> list[Vocabulary]:
    """Load the vocabularies of a job; -1 threads means one per core."""
    return [
        Vocabulary(Path(file).read_bytes(), n_threads, () if i else job.source_prefix)
        for i, file in enumerate(job.vocabularies)
    ]
