"""Random segmentation: a function of rows and seed, in a process that dies with its parent."""

import json
import signal
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

import numpy as np
import pytest

from tests.data.test_shards import ROWS, VOCABULARY, digest, make_job
from transduce.data.encoding import encode_corpus
from transduce.data.order import Position, stream
from transduce.data.pairs import EncodedPairs, SampledPairs
from transduce.data.resampling import Sampler, collect, sample
from transduce.data.shards import Shards, open_shards, write_manifest
from transduce.errors import StorageError
from transduce.text.bpe_dropout import BpeDropout

DROPOUT = 0.3
SEGMENTERS, SIZES = [BpeDropout(VOCABULARY)] * 2, [len(VOCABULARY)] * 2


@pytest.fixture
def shards(tmp_path: Path) -> Shards:
    job = replace(make_job(tmp_path), keep_text=True)
    write_manifest(tmp_path, "key", encode_corpus(job, ROWS, n_workers=0), {})
    assert any("target_text" in name for name in digest(tmp_path))
    return open_shards(tmp_path)


@pytest.fixture
def sampler(shards: Shards) -> Sampler:
    file = shards.folder / "v.model"
    sampler = Sampler(shards.folder, (file, file), DROPOUT, 256)
    yield sampler
    sampler.end()


def test_the_process_gives_the_results_of_a_direct_call_in_any_order(
    shards: Shards, sampler: Sampler
) -> None:
    requests = [(0, 40, 7), (40, 90, 7), (0, 40, 8), (2000, 2500, 9)]
    for request in requests:
        sampler.request(*request)
    for request in reversed(requests):
        direct = sample(shards, SEGMENTERS, SIZES, DROPOUT, 256, request)
        for column, other in zip(sampler.columns(*request), direct, strict=True):
            assert np.array_equal(column.values, other.values)
            assert np.array_equal(column.ends, other.ends)


def test_a_pair_that_sampling_makes_too_long_keeps_its_stored_segmentation(shards: Shards) -> None:
    encoded = EncodedPairs(shards).block(0, 0)
    max_length = max(len(example.source) for example in encoded[:300])
    source, _ = sample(shards, SEGMENTERS, SIZES, 0.9, max_length, (0, 300, 1))
    lengths = [len(source.row(i)) for i in range(300)]
    assert max(lengths) <= max_length
    assert any(source.row(i).tolist() == encoded[i].source.tolist() for i in range(300))


def test_every_epoch_is_segmented_anew_and_the_same_position_gives_the_same_batch(
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
        match=r"the BPE-dropout process \(text\.dropout\) ended with code -9 \(out of memory\?\)",
    ):
        sampler.columns(0, 10, 1)


def test_an_incomplete_answer_is_discarded(tmp_path: Path) -> None:
    request = [0, 2, 1]
    arrays = [np.arange(6, dtype=np.uint16), np.array([3, 6], dtype=np.uint32)] * 2
    header = json.dumps(
        [request, [array.dtype.str for array in arrays], [array.nbytes for array in arrays]]
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
