import pytest

from transduce.config import ModelConfig
from transduce.convert.ctranslate2 import unsupported_shape


@pytest.mark.parametrize(
    ("sizes", "is_supported"),
    [
        ({}, True),
        ({"d_k": 4, "d_v": 4}, True),
        ({"d_k": 4, "d_v": 5}, False),
        ({"d_k": 5, "d_v": 4}, False),
        ({"d_k": 5, "d_v": 5}, False),
        ({"n_heads_decoder": 4}, True),
        ({"d_k": 4, "d_v": 4, "n_heads_decoder": 4}, False),
    ],
)
def test_only_heads_that_share_d_model_equally_can_be_converted(
    sizes: dict[str, int], is_supported: bool
) -> None:
    config = ModelConfig(vocab_size=9, n_layers=1, d_model=8, d_ff=3, n_heads=2, **sizes)
    assert (unsupported_shape(config) is None) == is_supported
