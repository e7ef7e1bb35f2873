import math

import pytest
import torch

from transduce.config import ModelConfig
from transduce.errors import DataError
from transduce.model.positions import LearnedPositions, sinusoids

CPU = torch.device("cpu")


def test_sinusoids_are_the_formula_of_section_3_5() -> None:
    table = sinusoids(0, 50, 14, CPU)
    for position in (0, 1, 17, 49):
        for i in range(7):
            angle = position / 10000 ** (2 * i / 14)
            assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-5)
            assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-5)


def test_sinusoids_do_not_depend_on_the_first_position_requested() -> None:
    torch.testing.assert_close(sinusoids(1000, 7, 22, CPU), sinusoids(0, 1007, 22, CPU)[1000:])


def test_a_shift_is_a_rotation_that_does_not_depend_on_the_position() -> None:
    """Section 3.5: PE(pos + k) is linear in PE(pos), a rotation of each sine-cosine pair."""
    table = sinusoids(0, 100, 22, CPU)
    rotation = torch.zeros(22, 22)
    for i in range(11):
        angle = 9 / 10000 ** (2 * i / 22)
        sine, cosine = math.sin(angle), math.cos(angle)
        pair = slice(2 * i, 2 * i + 2)
        rotation[pair, pair] = torch.tensor([[cosine, -sine], [sine, cosine]])
    torch.testing.assert_close(table[:91] @ rotation, table[9:], atol=1e-4, rtol=0)


def test_a_text_longer_than_the_learned_positions_is_an_error() -> None:
    positions = LearnedPositions(ModelConfig(max_positions=10, positions="learned"))
    assert positions(3, 7).shape == (7, 512)
    with pytest.raises(
        DataError,
        match=r"has 11 tokens, but this model has learned 10 positions.*model\.max_positions",
    ):
        positions(3, 8)
