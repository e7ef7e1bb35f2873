"""Words cut into pieces at random: the same by any road, and in a process that dies with its parent."""

import json
import signal
from pathlib import Path
from queue import SimpleQueue

import numpy as np
import pytest

from tests.data.test_shards import ROWS, VOCABULARY, digest, make_job
from transduce.data.encoding import EncodingJob, encode_corpus
from transduce.data.order import Position, stream
from transduce.data.pairs import EncodedPairs, SampledPairs
from transduce.data.resampling import Sampler, collect, sample
from transduce.data.shards import Shards, open_shards, write_manifest
from transduce.errors import StorageError
from transduce.text.bpe_dropout import BpeDropout

DROPOUT = 0.3
CUTTERS, SIZES = [BpeDropout(VOCABULARY)] * 2, [len(VOCABULARY)] * 2


@pytest.fixture
def shards(tmp_path: Path) -> Shards:
    task = make_job(tmp_path)
    task = EncodingJob(task.folder, task.key, task.vocabularies, task.max_length, keep_text=True)
    write_manifest(tmp_path, "key", encode_corpus(task, ROWS, n_workers=0), {})
    assert any("target_text" in name for name in digest(tmp_path))
    return open_shards(tmp_path)


@pytest.fixture
def sampler(shards: Shards) -> Sampler:
    file = shards.folder / "v.model"
    sampler = Sampler(shards.folder, (file, file), DROPOUT, 256)
    yield sampler
    sampler.end()


def test_the_process_answers_what_a_call_would_give_in_any_order(
    shards: Shards, sampler: Sampler
) -> None:
    wanted = [(0, 40, 7), (40, 90, 7), (0, 40, 8), (2000, 2500, 9)]
    for asked in wanted:
        sampler.request(*asked)
    for asked in reversed(wanted):
        here = sample(shards, CUTTERS, SIZES, DROPOUT, 256, asked)
        for column, other in zip(sampler.columns(*asked), here, strict=True):
            assert np.array_equal(column.values, other.values)
            assert np.array_equal(column.ends, other.ends)


def test_a_pair_that_sampling_makes_too_long_is_cut_as_it_was_encoded(shards: Shards) -> None:
    encoded = EncodedPairs(shards).block(0, 0)
    most = max(len(example.source) for example in encoded[:300])
    source, _ = sample(shards, CUTTERS, SIZES, 0.9, most, (0, 300, 1))
    lengths = [len(source.row(i)) for i in range(300)]
    assert max(lengths) <= most
    assert any(source.row(i).tolist() == encoded[i].source.tolist() for i in range(300))


def test_every_epoch_is_cut_anew_and_the_same_position_gives_the_same_batch(
    shards: Shards, sampler: Sampler
) -> None:
    pairs = SampledPairs(shards, sampler, seed=1)
    first = next(stream(pairs, 4096, 1, Position()))[0]
    assert first.source.equal(next(stream(pairs, 4096, 1, Position()))[0].source)
    assert [len(example.source) for example in pairs.block(1, 0)] != [
        len(example.source) for example in pairs.block(1, 1)
    ]
    assert len(pairs) == len(ROWS)


def test_a_sampler_that_dies_is_reported(sampler: Sampler) -> None:
    sampler._process.send_signal(signal.SIGKILL)
    with pytest.raises(
        StorageError,
        match=r"the process of text\.dropout ended with code -9 \(out of memory\?\)",
    ):
        sampler.columns(0, 10, 1)


def test_half_an_answer_is_no_answer(tmp_path: Path) -> None:
    asked, arrays = (
        [0, 2, 1],
        [np.arange(6, dtype=np.uint16), np.array([3, 6], dtype=np.uint32)] * 2,
    )
    header = json.dumps(
        [asked, [array.dtype.str for array in arrays], [array.nbytes for array in arrays]]
    ).encode()
    whole = header + b"\n" + b"".join(array.tobytes() for array in arrays)
    for cut in (len(whole) - 4, len(whole) - 8, len(header) + 3):
        answers: SimpleQueue[object] = SimpleQueue()
        (tmp_path / "answer").write_bytes(whole[:cut])
        with (tmp_path / "answer").open("rb") as pipe:
            collect(pipe, answers)
        assert answers.get() is None
    (tmp_path / "answer").write_bytes(whole)
    with (tmp_path / "answer").open("rb") as pipe:
        collect(pipe, answers)
    assert answers.get()[0] == (0, 2, 1)
