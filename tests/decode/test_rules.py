"""What rules forbid, by hand and by brute force."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce.decode.rules import begin_with, no_repeat, only_text
from transduce.decode.search import NEVER, Rows
from transduce.text.vocabulary import EOS, PAD, SOS, UNKNOWN

VOCAB = 7


def forbidden(written: list[int], n: int) -> set[int]:
    """Return the tokens that the rule forbids after some others."""
    rows = Rows(torch.tensor([[SOS, *written]]), torch.tensor([0]))
    log_probs = no_repeat(n)(rows, torch.zeros(1, VOCAB))
    return {token for token in range(VOCAB) if log_probs[0, token] == NEVER}


@settings(deadline=None)
@given(st.lists(st.integers(4, 6), max_size=7), st.integers(1, 4))
def test_exactly_the_tokens_that_would_write_a_run_a_second_time_are_forbidden(
    written: list[int], n: int
) -> None:
    def repeats(token: int) -> bool:
        text = [*written, token]
        runs = [tuple(text[i : i + n]) for i in range(len(text) - n + 1)]
        return bool(runs) and runs[-1] in runs[:-1]

    assert forbidden(written, n) == {token for token in range(VOCAB) if repeats(token)}


@pytest.mark.parametrize("length", [0, 1, 2, 3])
def test_the_last_token_of_a_prefix_is_given_and_the_next_one_is_free(length: int) -> None:
    prefix = [4, 5, UNKNOWN]  # the last is one that another rule forbids
    rows = Rows(torch.tensor([[SOS, *prefix[:length]]]), torch.tensor([0]))
    log_probs = begin_with([prefix], [only_text])(rows, torch.full((1, VOCAB), -2.0))
    allowed = {token for token in range(VOCAB) if log_probs[0, token] > NEVER}
    assert allowed == ({prefix[length]} if length < len(prefix) else {EOS, 4, 5, 6})
    assert all(float(log_probs[0, token]) == -2.0 for token in allowed)
    assert {PAD, SOS}.isdisjoint(allowed)
