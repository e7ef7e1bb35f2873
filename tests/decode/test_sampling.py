"""The distribution that is drawn from: temperature, top-k and top-p."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce.decode.sampling import draw, reshape_distribution

# So far apart that none are equal after rounding.
LOGITS = st.lists(st.integers(-90, 90), min_size=1, max_size=12, unique=True).map(
    lambda tenths: [x / 10 for x in tenths]
)


def reshape(probs: list[float], top_k: int = 0, top_p: float = 1.0) -> list[float]:
    """Return the probabilities that are left of some, at temperature 1."""
    log_probs = torch.tensor([probs]).log()
    return reshape_distribution(log_probs, 1.0, top_k, top_p).exp()[0].tolist()


@pytest.mark.parametrize("n", [2, 4, 8])
def test_tokens_that_reach_top_p_exactly_are_enough(n: int) -> None:
    """Powers of two, so that the sums are exact."""
    for n_kept in range(1, n):
        kept = [p for p in reshape([1 / n] * n, top_p=n_kept / n) if p > 0]
        assert kept == pytest.approx([1 / n_kept] * n_kept)


def test_top_p_counts_the_probability_among_the_tokens_that_top_k_has_left() -> None:
    probs = [0.4, 0.3, 0.2, 0.1]
    assert reshape(probs, top_k=2, top_p=0.5) == pytest.approx([1, 0, 0, 0])
    assert reshape(probs, top_k=2, top_p=0.6) == pytest.approx([4 / 7, 3 / 7, 0, 0])
    assert reshape(probs, top_p=0.5) == pytest.approx([4 / 7, 3 / 7, 0, 0])


@settings(deadline=None)
@given(LOGITS, st.floats(0.1, 10), st.integers(0, 13), st.floats(0.01, 1))
def test_the_result_is_a_distribution_over_the_best_tokens(
    logits: list[float], temperature: float, top_k: int, top_p: float
) -> None:
    logits = sorted(logits, reverse=True)
    shaped = reshape_distribution(torch.tensor([logits]), temperature, top_k, top_p).exp()[0]
    assert float(shaped.sum()) == pytest.approx(1, abs=1e-5)
    kept = (shaped > 0).tolist()
    assert kept == sorted(kept, reverse=True), "none is kept after one that is not"
    assert sum(kept) <= (top_k or len(logits))
    odds = torch.softmax(torch.tensor(logits) / temperature, dim=0)[: sum(kept)]
    torch.testing.assert_close(shaped[: sum(kept)], odds / odds.sum(), atol=1e-4, rtol=1e-4)


def test_a_top_k_of_the_whole_vocabulary_keeps_everything() -> None:
    probs = [0.4, 0.3, 0.2, 0.1]
    assert reshape(probs, top_k=4) == reshape(probs, top_k=5) == reshape(probs)
    assert reshape(probs, top_k=3)[3] == 0


def test_a_draw_at_the_border_of_two_tokens_takes_the_second_and_one_of_probability_0_never() -> (
    None
):
    log_probs = torch.tensor([[0.0, 0.5, 0.5, 0.0]]).log()
    uniform = (0.0, 0.49, 0.5, 0.99)
    drawn = [int(draw(log_probs, torch.tensor([u], dtype=torch.float64))) for u in uniform]
    assert drawn == [1, 1, 2, 2]
