from collections.abc import Sequence
from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.data.batch import Example, collate
from transduce.data.order import (
    BLOCK,
    ExampleList,
    Position,
    batches_of_examples,
    cut_batches,
    in_order,
    stream,
)
from transduce.text.vocabulary import EOS, PAD, SOS


def example(n_source: int, n_target: int, first: int = 4) -> Example:
    source = np.array([*range(first, first + n_source), EOS], dtype=np.int32)
    return Example(source, np.array([SOS, *range(first, first + n_target), EOS], dtype=np.int32))


def random_examples(n: int = 211) -> list[Example]:
    random = np.random.default_rng(0)
    return [example(*random.integers(1, 30, 2).tolist(), first=4 + i) for i in range(n)]


def test_a_batch_shifts_the_target_by_one_and_counts_tokens_without_padding() -> None:
    batch = collate([example(2, 3), example(1, 1)])
    assert batch.source.tolist() == [[4, 5, EOS], [4, EOS, PAD]]
    assert batch.source_mask.tolist() == [[True, True, True], [True, True, False]]
    assert batch.target_in.tolist() == [[SOS, 4, 5, 6], [SOS, 4, EOS, PAD]]
    assert batch.target_out.tolist() == [[4, 5, 6, EOS], [4, EOS, PAD, PAD]]
    assert batch.n_tokens == 6


@given(st.lists(st.integers(1, 50), max_size=60), st.integers(1, 200))
def test_batches_keep_the_budget_and_every_example(lengths: list[int], budget: int) -> None:
    batches = cut_batches(lengths, budget)
    assert [i for batch in batches for i in batch] == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or max(lengths[i] for i in batch) * len(batch) <= budget


def epoch_of(
    examples: list[Example], budget: int, seed: int, epoch: int = 0
) -> list[list[Example]]:
    """Return the batches of one epoch."""
    batches = []
    for found, after in batches_of_examples(ExampleList(examples), budget, seed, Position(epoch)):
        batches.append(found)
        if after.epoch > epoch:
            return batches
    raise AssertionError("batches never end")


def names(batches: list[list[Example]]) -> list[list[int]]:
    """Return the first source id of each example, which identifies it."""
    return [[int(example.source[0]) for example in batch] for batch in batches]


MANY = random_examples(33 * BLOCK + 7)  # two pools, the last block not full


@pytest.mark.parametrize("examples", [random_examples(), MANY], ids=["one pool", "two pools"])
def test_an_epoch_has_every_example_exactly_once_within_the_budget(examples: list[Example]) -> None:
    batches = epoch_of(examples, 128, seed=3)
    assert sorted(name for batch in names(batches) for name in batch) == list(
        range(4, 4 + len(examples))
    )
    for batch in map(collate, batches):
        assert max(batch.source.numel(), batch.target_out.numel()) <= 128


@pytest.mark.parametrize(("n_source", "n_target"), [(3, 1), (1, 3), (3, 3)])
def test_the_budget_counts_every_token_of_the_longer_side(n_source: int, n_target: int) -> None:
    """Three tokens and [EOS]: four rows of four fill a budget of 16, and none of 15."""
    examples = [example(n_source, n_target)] * 8
    assert {len(batch) for batch in epoch_of(examples, 16, seed=0)} == {4}
    assert {len(batch) for batch in epoch_of(examples, 15, seed=0)} == {3, 2}


class ReadingList(ExampleList):
    """Examples that remember which blocks were read."""

    def __init__(self, examples: list[Example]) -> None:
        super().__init__(examples)
        self.read: list[int] = []

    def block(self, number: int, epoch: int) -> Sequence[Example]:
        self.read.append(number)
        return super().block(number, epoch)


def test_each_epoch_reads_the_blocks_in_another_order() -> None:
    orders = []
    for epoch in (0, 1, 1):
        examples = ReadingList([example(1, 1)] * (33 * BLOCK + 7))
        for _, after in batches_of_examples(examples, 65536, 3, Position(epoch)):
            if after.epoch > epoch:
                break
        assert sorted(examples.read) == list(range(34))
        orders.append(examples.read)
    assert orders[0] != orders[1] == orders[2]


def test_among_targets_of_one_length_sources_of_one_length_stand_together() -> None:
    """Sources of five lengths, eight of each, and batches of eight: no source is padded."""
    examples = [example(1 + i % 5, 5) for i in range(40)]
    for batch in (*map(collate, epoch_of(examples, 48, seed=0)), *in_order(examples, 48)):
        assert len(batch.target_in) == 8
        assert (batch.source != PAD).all()


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    examples = random_examples()
    assert names(epoch_of(examples, 128, 3, 0)) == names(epoch_of(examples, 128, 3, 0))
    assert names(epoch_of(examples, 128, 3, 0)) != names(epoch_of(examples, 128, 3, 1))
    assert names(epoch_of(examples, 128, 3, 0)) != names(epoch_of(examples, 128, 4, 0))


def test_neighbours_of_the_corpus_are_not_neighbours_of_an_epoch() -> None:
    order = [name for batch in names(epoch_of(MANY, 128, 3)) for name in batch]
    near = sum(abs(a - b) < BLOCK for a, b in pairwise(order))
    # A full shuffle would give 2 * BLOCK / len(MANY) = 0.06, the order of the corpus 1.
    assert near / len(order) < 0.1


def test_a_stream_resumed_at_a_position_continues_identically() -> None:
    for examples, budget in ((random_examples(), 128), (MANY, 65536)):
        n = len(epoch_of(examples, budget, 3))
        uninterrupted = list(
            islice(stream(ExampleList(examples), budget, 3, Position()), 2 * n + 5)
        )
        for k in (1, n // 2, n - 1, n, n + 3):
            start = uninterrupted[k - 1][1]
            resumed = list(islice(stream(ExampleList(examples), budget, 3, start), 5))
            for (batch, position), (other, other_position) in zip(
                uninterrupted[k : k + 5], resumed, strict=True
            ):
                assert position == other_position
                assert batch.source.equal(other.source)


@pytest.mark.parametrize("n_ranks", [2, 3])
def test_ranks_divide_the_batches_of_a_single_process(n_ranks: int) -> None:
    examples = ExampleList(random_examples())
    alone = list(islice(stream(examples, 128, 3, Position()), 30 * n_ranks))
    for rank in range(n_ranks):
        shared = list(islice(stream(examples, 128, 3, Position(), rank, n_ranks), 30))
        for step, (batch, after) in enumerate(shared):
            assert batch.source.equal(alone[step * n_ranks + rank][0].source)
            assert after == alone[(step + 1) * n_ranks - 1][1]


def test_buckets_by_length_waste_little_on_padding() -> None:
    batches = epoch_of(random_examples(5000), 512, 0)
    cells = sum(max(len(example.target) for example in batch) * len(batch) for batch in batches)
    assert sum(len(example.target) for batch in batches for example in batch) / cells > 0.9


def test_evaluation_reads_every_example_once() -> None:
    examples = random_examples()
    assert sum(batch.n_tokens for batch in in_order(examples, 128)) == sum(
        len(each.target) - 1 for each in examples
    )
