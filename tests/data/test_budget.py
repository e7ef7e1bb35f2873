"""Batches are as large as the budget allows, and lengths are counted as the budget counts them."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from transduce.data.batch import encode_example
from transduce.data.budget import cut_batches
from transduce.data.order import length


@given(st.lists(st.integers(1, 12), max_size=40), st.integers(1, 60))
def test_a_batch_ends_only_where_one_more_example_would_exceed_the_budget(
    lengths: list[int], budget: int
) -> None:
    batches = cut_batches(lengths, budget)
    assert [i for batch in batches for i in batch] == list(range(len(lengths)))
    for batch, after in pairwise(batches):
        larger = [*batch, after[0]]
        assert max(lengths[i] for i in larger) * len(larger) > budget


def test_the_length_of_an_example_is_that_of_the_longer_side_with_its_end() -> None:
    assert length(encode_example([5], [6, 6, 6])) == 4  # three tokens and [EOS]; [SOS] is not read
    assert length(encode_example([5, 5, 5], [6])) == 4
    assert length(encode_example([5, 5], [6, 6])) == 3
