"""The encoded corpus: deterministic, either complete or absent, and equal to encoding in memory."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from transduce.data import encoding as encoder
from transduce.data import shards
from transduce.data.batch import encode_pairs
from transduce.data.encoding import EncodingJob, Worker, encode_corpus, encode_in_processes
from transduce.data.order import BLOCK
from transduce.data.pairs import EncodedPairs
from transduce.data.shards import (
    MANIFEST,
    TokenStream,
    check_files,
    is_written,
    open_shards,
    read_manifest,
    write_manifest,
)
from transduce.errors import DataError, ModelError, StorageError
from transduce.grammar import generate
from transduce.text.running_text import FIRST, NEXT_DOCUMENT, NEXT_LINE
from transduce.text.vocabulary import EOS, SOS, Vocabulary, learn_vocabulary

PAIRS = list(generate("en-it", 2500, seed=1))
ROWS = [(pair.source, pair.target) for pair in PAIRS]
VOCABULARY = learn_vocabulary([side for row in ROWS for side in row], "bpe", 700)


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder, "ROWS_PER_PART", 300)


def make_job(folder: Path, *, max_length: int = 256, key: str = "key") -> EncodingJob:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "v.model").write_bytes(VOCABULARY.model)
    return EncodingJob(str(folder), key, (str(folder / "v.model"),) * 2, max_length)


def digest(folder: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.glob("part-*"))
    }


def test_stored_rows_equal_those_encoded_in_memory(tmp_path: Path) -> None:
    write_manifest(tmp_path, "key", encode_corpus(make_job(tmp_path), ROWS, n_workers=0), {})
    found = EncodedPairs(open_shards(tmp_path))
    expected = encode_pairs(PAIRS, VOCABULARY, VOCABULARY)
    assert len(found) == len(expected) == 2500
    examples = [
        example for number in range(-(-2500 // BLOCK)) for example in found.block(number, 0)
    ]
    for example, other in zip(examples, expected, strict=True):
        assert example.source.tolist() == other.source.tolist()
        assert example.target.tolist() == other.target.tolist()
    assert examples[0].source.dtype == np.uint16


def test_any_number_of_processes_gives_the_same_bytes(tmp_path: Path) -> None:
    for n in (0, 1, 2):
        job = make_job(tmp_path / str(n))
        write_manifest(tmp_path / str(n), "key", encode_corpus(job, ROWS, n), {})
    assert digest(tmp_path / "0") == digest(tmp_path / "1") == digest(tmp_path / "2")
    assert len(digest(tmp_path / "0")) == 9 * 5


def test_pairs_that_are_too_long_are_dropped_and_counted(tmp_path: Path) -> None:
    n_parts = encode_corpus(make_job(tmp_path, max_length=9), ROWS, n_workers=0)
    write_manifest(tmp_path, "key", n_parts, {})
    parts = read_manifest(tmp_path)["parts"]
    kept = sum(
        len(e.source) <= 9 and len(e.target) - 1 <= 9
        for e in encode_pairs(PAIRS, VOCABULARY, VOCABULARY)
    )
    assert sum(part["rows"] for part in parts) == kept == len(open_shards(tmp_path))
    assert sum(part["too_long"] for part in parts) == 2500 - kept > 0


def test_existing_parts_are_kept_and_parts_of_another_corpus_are_replaced(
    tmp_path: Path,
) -> None:
    job = make_job(tmp_path)
    encode_corpus(job, ROWS, n_workers=0)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("part-*")}
    encode_corpus(job, ROWS, n_workers=0)
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.glob("part-*")}
    other = make_job(tmp_path, key="other")
    n_parts = encode_corpus(other, ROWS[:400], n_workers=0)
    assert is_written(tmp_path, 1, "other")
    assert is_written(tmp_path, 2, "key")
    write_manifest(tmp_path, "other", n_parts, {})
    assert not (tmp_path / "part-00002.json").exists()
    assert len(open_shards(tmp_path)) == 400


KILLED = """
import sys
from pathlib import Path
from tests.data.test_shards import ROWS, encoder, make_job
from transduce.data.shards import write_manifest
encoder.ROWS_PER_PART = 300
folder = Path(sys.argv[1])
print("begin", flush=True)
write_manifest(folder, "key", encoder.encode_corpus(make_job(folder), ROWS, n_workers=2), {})
"""


@pytest.mark.parametrize("seconds", [0.0, 0.35, 0.45])
def test_a_killed_preparation_continues_and_gives_the_same_bytes(
    tmp_path: Path, seconds: float
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path / "killed")], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(seconds)
    process.kill()
    process.wait()
    process.stdout.close()
    write_manifest(
        tmp_path / "killed",
        "key",
        encode_corpus(make_job(tmp_path / "killed"), ROWS, n_workers=0),
        {},
    )
    write_manifest(
        tmp_path / "whole",
        "key",
        encode_corpus(make_job(tmp_path / "whole"), ROWS, n_workers=0),
        {},
    )
    assert digest(tmp_path / "killed") == digest(tmp_path / "whole")
    assert not list((tmp_path / "killed").glob("*.partial"))


def work_on(folder: Path, requests: bytes) -> None:
    (folder / "requests").write_bytes(requests)
    with (folder / "requests").open("rb") as asked, (folder / "answers").open("wb") as answers:
        encoder.work(asked, answers)


def test_an_incomplete_request_writes_no_part(tmp_path: Path) -> None:
    """The parent may be killed while it writes a request, after any byte."""
    content = "\n".join(field for row in ROWS[:30] for field in row).encode()
    job = json.dumps(asdict(make_job(tmp_path))).encode() + b"\n"
    header = json.dumps({"number": 0, "columns": 2, "bytes": len(content)}).encode() + b"\n"
    for cut in range(0, len(content), 29):
        work_on(tmp_path, job + header + content[:cut])
        assert not is_written(tmp_path, 0, "key")
    work_on(tmp_path, job + header + content)
    assert is_written(tmp_path, 0, "key")


def test_when_every_worker_fails_the_error_is_raised_at_once(tmp_path: Path) -> None:
    failing = EncodingJob(str(tmp_path / "gone"), "key", make_job(tmp_path).vocabularies, 256)
    with pytest.raises(StorageError, match="could not be encoded"):
        encode_in_processes(failing, enumerate([list(ROWS[:2])] * 10), 2)


def test_a_worker_imports_nothing_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "queue.py").write_text("raise RuntimeError('run by mistake')")
    monkeypatch.chdir(tmp_path)
    worker = Worker(make_job(tmp_path))
    worker.encode(0, ROWS[:5])
    worker.end()


def test_a_text_with_more_parts_than_may_be_open_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder, "MAX_CHARACTERS", 40)
    monkeypatch.setattr(shards, "MAX_OPEN_PARTS", 2)
    (tmp_path / "v.model").write_bytes(VOCABULARY.model)
    vocabulary = learn_vocabulary(
        [row[1] for row in ROWS[:50]], "char", 999, exact=False, is_text=True
    )
    (tmp_path / "v.model").write_bytes(vocabulary.model)
    rows = [(NEXT_LINE if i else FIRST, row[1]) for i, row in enumerate(ROWS[:50])]
    job = EncodingJob(str(tmp_path), "key", (str(tmp_path / "v.model"),), 256)
    n_parts = encode_corpus(job, rows, n_workers=0)
    assert n_parts > 20
    write_manifest(tmp_path, "key", n_parts, {})
    assert vocabulary.decode(TokenStream(open_shards(tmp_path))[:].tolist()) == "\n".join(
        row[1] for row in ROWS[:50]
    )


def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    script = (
        "import os, sys\nfrom pathlib import Path\n"
        "from tests.data.test_shards import Worker, make_job\n"
        "worker = Worker(make_job(Path(sys.argv[1])))\n"
        "print(worker._process.pid, flush=True)\nos.kill(os.getpid(), 9)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, check=False
    )
    pid = int(done.stdout)
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError("the worker outlived its parent")


def test_a_worker_that_dies_or_fails_is_reported(tmp_path: Path) -> None:
    worker = Worker(make_job(tmp_path))
    worker._process.send_signal(signal.SIGKILL)
    with pytest.raises(
        StorageError,
        match=r"part 3 could not be encoded: the worker ended with code -9 \(out of memory\?\)",
    ):
        worker.encode(3, ROWS[:2])
    worker.end()
    failing = EncodingJob(str(tmp_path / "gone"), "key", make_job(tmp_path).vocabularies, 256)
    with pytest.raises(
        StorageError,
        match=(
            r"part 0 could not be encoded: FileNotFoundError: .*; "
            r"run the same command to continue"
        ),
    ):
        encode_in_processes(failing, iter([(0, ROWS[:2])]), 1)


@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
@pytest.mark.parametrize("name", ["part-00001.source.npy", "v.model"])
def test_a_damaged_file_is_named(tmp_path: Path, damage: str, name: str) -> None:
    write_manifest(tmp_path, "key", encode_corpus(make_job(tmp_path), ROWS[:400], n_workers=0), {})
    check_files(tmp_path, read_manifest(tmp_path))
    path = tmp_path / name
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    if damage == "remove":
        path.unlink()
    else:
        path.write_bytes(content if damage == "flip" else content[:-8])
    with pytest.raises(
        DataError, match=rf"{name} is damaged or missing; remove the folder .* to prepare it again"
    ):
        check_files(tmp_path, read_manifest(tmp_path))


def test_a_text_reads_across_its_parts(tmp_path: Path) -> None:
    lines = [pair.target for pair in PAIRS[:700]]
    vocabulary = learn_vocabulary(lines, "char", 999, exact=False, is_text=True)
    (tmp_path / "v.model").write_bytes(vocabulary.model)
    precedes = {0: FIRST, 450: NEXT_DOCUMENT}
    rows = [(precedes.get(i, NEXT_LINE), line) for i, line in enumerate(lines)]
    job = EncodingJob(str(tmp_path), "key", (str(tmp_path / "v.model"),), 256)
    write_manifest(tmp_path, "key", encode_corpus(job, rows, n_workers=2), {})
    stream = TokenStream(open_shards(tmp_path))
    ids = stream[:].tolist()
    assert len(stream) == len(ids)
    assert [i for i in ids if i in (EOS, SOS)] == [SOS, EOS, SOS]
    cut = ids.index(EOS)
    assert Vocabulary(vocabulary.model).decode(ids[:cut]) == "\n".join(lines[:450])
    assert Vocabulary(vocabulary.model).decode(ids[cut:]) == "\n".join(lines[450:])
    assert stream.between(100, 20_000)[5:9000].tolist() == ids[105:9100]
    assert stream[10:10].tolist() == []


@pytest.mark.parametrize("vocab_size", [1 << 16, (1 << 16) + 1, 100_003])
def test_every_id_of_a_large_vocabulary_comes_back(tmp_path: Path, vocab_size: int) -> None:
    """The last id of each vocabulary, and those around the largest number of 16 bits."""
    known = [i for i in (4, 65_534, 65_535, 65_536, vocab_size - 1) if i < vocab_size]
    rows = [known, [], known[::-1]]
    counts = {"rows": 3, "too_long": 0, "tokens": 2 * len(known)}
    shards.write_part(tmp_path, 0, "key", {"text": shards.make_column(rows, vocab_size)}, counts)
    write_manifest(tmp_path, "key", 1, {})
    opened = open_shards(tmp_path)
    assert [row.tolist() for row in opened.read(0, 3, "text")] == rows
    assert TokenStream(opened)[:].tolist() == [*known, *known[::-1]]


def test_a_part_that_was_damaged_after_a_kill_is_encoded_again(tmp_path: Path) -> None:
    task = make_job(tmp_path)
    encode_corpus(task, ROWS[:700], n_workers=0)
    before = digest(tmp_path)
    (tmp_path / "part-00000.source.npy").write_bytes(b"")
    (tmp_path / "part-00001.json").write_text('{"key": "key"}')
    (tmp_path / "part-00002.source.npy.partial").mkdir()
    assert not is_written(tmp_path, 0, "key")
    assert not is_written(tmp_path, 1, "key")
    assert is_written(tmp_path, 2, "key")
    encode_corpus(task, ROWS[:700], n_workers=0)
    assert digest(tmp_path) == before


def test_an_incomplete_corpus_is_not_opened(tmp_path: Path) -> None:
    for content in ("{}", '{"files": {}, "parts": [{"rows": 1}]}', '{"files": {"../a": {}}}'):
        (tmp_path / MANIFEST).write_text(content)
        with pytest.raises(ModelError, match="is incomplete or damaged; run the same command"):
            open_shards(tmp_path)


def test_there_is_no_corpus_before_the_manifest(tmp_path: Path) -> None:
    encode_corpus(make_job(tmp_path), ROWS[:10], n_workers=0)
    assert read_manifest(tmp_path) is None
    assert not (tmp_path / MANIFEST).exists()
