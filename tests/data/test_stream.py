from itertools import islice

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from transduce.data.batch import Example, collate
from transduce.data.stream import Position, cut_batches, in_order, length, plan_epoch, stream
from transduce.text.vocabulary import EOS, PAD, SOS


def example(n_source: int, n_target: int, first: int = 4) -> Example:
    source = np.array([*range(first, first + n_source), EOS], dtype=np.int32)
    return Example(source, np.array([SOS, *range(first, first + n_target), EOS], dtype=np.int32))


def random_examples(n: int = 211) -> list[Example]:
    random = np.random.default_rng(0)
    return [example(*random.integers(1, 30, 2).tolist(), first=4 + i) for i in range(n)]


def test_a_batch_shifts_the_target_by_one_and_counts_real_pieces() -> None:
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


def test_an_epoch_has_every_example_exactly_once_within_the_budget() -> None:
    examples = random_examples()
    plan = plan_epoch(examples, 128, seed=3, epoch=0)
    assert sorted(i for batch in plan for i in batch) == list(range(len(examples)))
    assert all(max(length(examples[i]) for i in batch) * len(batch) <= 128 for batch in plan)


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    examples = random_examples()
    assert plan_epoch(examples, 128, 3, 0) == plan_epoch(examples, 128, 3, 0)
    assert plan_epoch(examples, 128, 3, 0) != plan_epoch(examples, 128, 3, 1)
    assert plan_epoch(examples, 128, 3, 0) != plan_epoch(examples, 128, 4, 0)


def test_a_stream_taken_up_at_a_position_goes_on_as_the_unbroken_one() -> None:
    examples = random_examples()
    n = len(plan_epoch(examples, 128, 3, 0))
    unbroken = list(islice(stream(examples, 128, 3, Position()), 2 * n + 5))
    for k in (1, n - 1, n, n + 3):
        again = list(islice(stream(examples, 128, 3, unbroken[k - 1][1]), 5))
        for (batch, position), (other, other_position) in zip(unbroken[k:], again, strict=False):
            assert position == other_position
            assert batch.source.equal(other.source)


def test_buckets_by_length_waste_little_on_padding() -> None:
    examples = random_examples(5000)
    plan = plan_epoch(examples, 512, 0, 0)
    target_cells = sum(max(len(examples[i].target) for i in batch) * len(batch) for batch in plan)
    assert sum(len(each.target) for each in examples) / target_cells > 0.9


def test_measuring_sees_every_example_once() -> None:
    examples = random_examples()
    assert sum(batch.n_tokens for batch in in_order(examples, 128)) == sum(len(each.target) - 1 for each in examples)
