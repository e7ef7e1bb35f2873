import math

import pytest
import torch
from torch.nn import functional as F

from tests.data.test_order import example
from transduce.data.batch import collate
from transduce.model import Transformer, cross_entropy
from transduce.model.cross_entropy import projected_loss
from transduce.training.loss import batch_loss


def test_label_smoothing_by_hand() -> None:
    """Probabilities 1/2, 1/4, 1/4; target token 0; eps 0.3: weights 0.8, 0.1, 0.1 on -ln p."""
    weight = torch.log(torch.tensor([[0.5], [0.25], [0.25]]))
    by_hand = 0.8 * math.log(2) + 0.2 * math.log(4)
    assert projected_loss(torch.ones(1, 1), weight, torch.tensor([0]), 0.3).item() == pytest.approx(
        by_hand
    )


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("max_logits", [1, 3 * 53, 1 << 22])
def test_loss_and_gradients_in_chunks_equal_those_of_all_logits_at_once(
    smoothing: float, max_logits: int, has_bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cross_entropy, "MAX_LOGITS", max_logits)
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(11, 7, generator=generator, requires_grad=True)
    weight = torch.randn(53, 7, generator=generator, requires_grad=True)
    target = torch.randint(53, (11,), generator=generator)
    bias = torch.randn(53, generator=generator, requires_grad=True) if has_bias else None
    inputs = (hidden, weight) if bias is None else (hidden, weight, bias)
    logits = F.linear(hidden, weight, bias)
    expected = F.cross_entropy(logits, target, label_smoothing=smoothing, reduction="sum")
    gradients = torch.autograd.grad(expected / 3, inputs)
    found = projected_loss(hidden, weight, target, smoothing, bias=bias)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.autograd.grad(found / 3, inputs), gradients)
    with torch.no_grad():
        found = projected_loss(hidden, weight, target, smoothing, bias=bias)
    torch.testing.assert_close(found, expected)


def test_a_nearly_impossible_token_has_a_finite_loss() -> None:
    weight = torch.tensor([[0.0], [200.0]])
    assert projected_loss(torch.ones(1, 1), weight, torch.tensor([0]), 0.0).item() == 200


def test_the_loss_of_a_batch_is_the_sum_over_its_sentences_padding_or_not(
    model: Transformer,
) -> None:
    examples = [example(3, 7), example(11, 2), example(5, 5)]
    alone = sum(batch_loss(model, collate([each]), 0.1) for each in examples)
    torch.testing.assert_close(batch_loss(model, collate(examples), 0.1), alone)


@pytest.mark.parametrize("max_logits", [1, 7 * 53, 1 << 22])
def test_the_consistency_loss_and_its_gradients_agree_with_autograd(
    max_logits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cross_entropy, "MAX_LOGITS", max_logits)
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(22, 7, generator=generator, requires_grad=True)
    weight = torch.randn(53, 7, generator=generator, requires_grad=True)
    target = torch.randint(53, (11,), generator=generator).repeat(2)
    logits = hidden @ weight.T
    p, q = torch.log_softmax(logits, dim=-1).chunk(2)
    divergence = F.kl_div(p, q, reduction="sum", log_target=True) + F.kl_div(
        q, p, reduction="sum", log_target=True
    )
    expected = (
        F.cross_entropy(logits, target, label_smoothing=0.1, reduction="sum") + 5.0 / 2 * divergence
    )
    gradients = torch.autograd.grad(expected, (hidden, weight))
    found = projected_loss(hidden, weight, target, 0.1, consistency=5.0)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(
        torch.autograd.grad(found, (hidden, weight)), gradients, atol=1e-4, rtol=1e-4
    )


def test_without_dropout_the_consistency_loss_is_the_plain_loss(
    model: Transformer,
) -> None:
    batch = collate([example(3, 7), example(11, 2)])
    torch.testing.assert_close(
        batch_loss(model, batch, 0.1, consistency=5.0), batch_loss(model, batch, 0.1)
    )
    model.source_embedding.dropout.p = 0.5
    model.train()
    torch.manual_seed(0)
    stronger = batch_loss(model, batch, 0.1, consistency=5.0)
    torch.manual_seed(0)
    assert stronger > batch_loss(model, batch, 0.1, consistency=1.0) > 0


@pytest.mark.parametrize("consistency", [0.0, 5.0])
def test_the_gradients_agree_with_finite_differences(consistency: float) -> None:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(6, 5, generator=generator, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(11, 5, generator=generator, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(11, generator=generator, dtype=torch.float64, requires_grad=True)
    target = torch.tensor([1, 2, 3]).repeat(2)
    assert torch.autograd.gradcheck(
        lambda h, w, b: projected_loss(h, w, target, 0.1, consistency, b), (hidden, weight, bias)
    )


def test_under_autocast_loss_and_gradients_are_nearly_those_of_float32() -> None:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(40, 16, generator=generator, requires_grad=True)
    weight = torch.randn(53, 16, generator=generator, requires_grad=True)
    target = torch.randint(53, (40,), generator=generator)
    exact = projected_loss(hidden, weight, target, 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        rough = projected_loss(hidden, weight, target, 0.1)
    assert rough.item() == pytest.approx(exact.item(), rel=0.01)
    for a, b in zip(
        *(torch.autograd.grad(loss, (hidden, weight)) for loss in (exact, rough)), strict=True
    ):
        assert (a - b).norm() < 0.02 * a.norm()
