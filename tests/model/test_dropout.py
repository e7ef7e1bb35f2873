import pytest
import torch

from transduce.model.dropout import Dropout


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_the_dropped_share_is_p_and_the_mean_stays_the_same(p: float) -> None:
    torch.manual_seed(1)
    x = torch.ones(401, 1009)
    y = Dropout(p).train()(x)
    n, spread = x.numel(), (p * (1 - p) / x.numel()) ** 0.5
    assert abs((y == 0).sum().item() / n - p) < 5 * spread + 2**-17
    assert abs(y.mean().item() - 1) < 5 * spread / (1 - p)
    torch.testing.assert_close(
        y[y != 0], torch.full_like(y[y != 0], 1 / (1 - p)), rtol=2e-4, atol=0
    )


def test_numbers_are_dropped_independently() -> None:
    """Four adjacent elements share one 64-bit draw; they must still be independent."""
    torch.manual_seed(2)
    dropped = (Dropout(0.3).train()(torch.ones(1003, 997)) == 0).float()
    for shift, axis in ((1, 1), (2, 1), (3, 1), (4, 1), (1, 0)):
        together = (dropped * dropped.roll(shift, axis)).mean().item()
        assert abs(together - 0.09) < 0.002


def test_the_gradient_passes_only_where_an_element_was_kept() -> None:
    torch.manual_seed(3)
    x = torch.randn(7, 11, requires_grad=True)
    y = Dropout(0.5).train()(x)
    y.sum().backward()
    torch.testing.assert_close(x.grad, (y / x).detach())


def test_nothing_is_dropped_outside_training_or_without_p() -> None:
    x = torch.randn(3, 5)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0).train()(x) is x
