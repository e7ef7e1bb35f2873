import math

import pytest
import torch

from tests.data.test_stream import example
from transduce.data.batch import collate
from transduce.model import Transformer
from transduce.training.loss import batch_loss, smoothed_cross_entropy


def test_label_smoothing_by_hand() -> None:
    """Probabilities 1/2, 1/4, 1/4; right piece 0; eps 0.3: weights 0.8, 0.1, 0.1 on -ln p."""
    logits = torch.log(torch.tensor([[0.5, 0.25, 0.25]]))
    by_hand = 0.8 * math.log(2) + 0.2 * math.log(4)
    assert smoothed_cross_entropy(logits, torch.tensor([0]), 0.3).item() == pytest.approx(by_hand)


def test_without_smoothing_it_is_the_negative_log_likelihood() -> None:
    logits = torch.randn(7, 11, generator=torch.Generator().manual_seed(0))
    target = torch.arange(7)
    by_hand = -torch.log_softmax(logits, dim=-1)[torch.arange(7), target].sum()
    torch.testing.assert_close(smoothed_cross_entropy(logits, target, 0.0), by_hand)


def test_the_loss_of_a_batch_is_the_sum_over_its_sentences_padding_or_not(model: Transformer) -> None:
    examples = [example(3, 7), example(11, 2), example(5, 5)]
    alone = sum(batch_loss(model, collate([each]), 0.1) for each in examples)
    torch.testing.assert_close(batch_loss(model, collate(examples), 0.1), alone)
