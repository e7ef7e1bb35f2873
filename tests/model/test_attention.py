import math

import pytest
import torch

from transduce.config import ModelConfig
from transduce.model.attention import (
    MultiHeadAttention,
    attention,
    attention_weights,
    causal_mask,
    fused_attention,
    padding_mask,
    scaled_dot_product_attention,
)
from transduce.model.cache import KeyValues
from transduce.model.kernels import LANES, MAX_SHORT_KEYS, MIN_SCORES, softmax


def random_qkv() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return tuple(
        torch.randn(*shape, generator=generator)
        for shape in ((2, 3, 5, 7), (2, 3, 11, 7), (2, 3, 11, 13))
    )  # type: ignore[return-value]


def test_equation_1_by_hand() -> None:
    q = torch.tensor([[[[1.0, 0.0, 0.0, 0.0]]]])
    k = torch.tensor([[[[2.0 * math.log(3), 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]]])
    v = torch.tensor([[[[4.0], [8.0]]]])
    # Scores 2 ln 3 and 0, divided by sqrt(4): ln 3 and 0. Softmax: 3/4 and 1/4.
    # 3/4 * 4 + 1/4 * 8 = 5.
    assert scaled_dot_product_attention(q, k, v).item() == 5.0


def test_fused_attention_equals_equation_1_spelled_out() -> None:
    q, k, v = random_qkv()
    for mask in (None, torch.rand(2, 1, 5, 11, generator=torch.Generator().manual_seed(1)) < 0.7):
        torch.testing.assert_close(
            fused_attention(q, k, v, mask), scaled_dot_product_attention(q, k, v, mask)
        )


def test_in_bfloat16_short_texts_use_equation_1_spelled_out_and_both_agree() -> None:
    generator = torch.Generator().manual_seed(0)
    for n_keys, implementation in (
        (MAX_SHORT_KEYS, scaled_dot_product_attention),
        (MAX_SHORT_KEYS + 1, fused_attention),
    ):
        q, k, v = (
            torch.randn(2, 3, n, 7, generator=generator).bfloat16() for n in (5, n_keys, n_keys)
        )
        mask = padding_mask(torch.rand(2, n_keys, generator=generator) < 0.7)
        assert torch.equal(attention(q, k, v, mask), implementation(q, k, v, mask))
        exact = scaled_dot_product_attention(q.float(), k.float(), v.float(), mask)
        torch.testing.assert_close(attention(q, k, v, mask).float(), exact, rtol=0.05, atol=0.02)


@pytest.mark.parametrize("n_keys", [1, 5, LANES - 1, LANES, LANES + 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_softmax_of_many_rows_and_its_gradient_equal_those_in_double_precision(
    n_keys: int, dtype: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(0)
    n_rows = MIN_SCORES // n_keys + 1
    scores = torch.randn(n_rows, n_keys, generator=generator).masked_fill(
        torch.arange(n_keys) > n_rows % 7, -math.inf
    )
    many = scores.to(dtype).requires_grad_()
    exact = many.detach().double().requires_grad_()
    pull = torch.randn(n_rows, n_keys, generator=generator)
    found, expected = softmax(many), exact.softmax(dim=-1)
    (found * pull).sum().backward()
    (expected * pull).sum().backward()
    assert found.dtype == dtype
    error = 1e-6 if dtype == torch.float32 else 1e-2
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=error)
    torch.testing.assert_close(many.grad.double(), exact.grad, rtol=0, atol=error)


def test_weights_of_allowed_keys_sum_to_one_and_of_forbidden_keys_are_zero() -> None:
    q, k, _ = random_qkv()
    mask = causal_mask(5, 11, q.device)
    weights = attention_weights(q, k, mask)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 3, 5))
    assert (weights.masked_select(~mask) == 0).all()


def test_causal_mask_lets_the_last_query_see_all_and_each_earlier_one_less() -> None:
    mask = causal_mask(3, 5, torch.device("cpu"))[0, 0]
    assert mask.tolist() == [
        [True, True, True, False, False],
        [True, True, True, True, False],
        [True, True, True, True, True],
    ]


def test_padding_mask_is_the_same_for_every_head_and_query() -> None:
    real = torch.tensor([[True, True, False], [True, False, False]])
    assert torch.equal(padding_mask(real).expand(2, 4, 5, 3)[:, 2, 3], real)


def test_multi_head_attention_is_concat_of_heads_times_w_o() -> None:
    """Section 3.2.2 as printed: each head by itself, with its own slices of the matrices."""
    config = ModelConfig(d_model=22, n_heads=3, d_k=7, d_v=5)
    torch.manual_seed(0)
    module = MultiHeadAttention(config, config.encoder)
    x, memory = torch.randn(2, 11, 22), torch.randn(2, 13, 22)
    heads = []
    for i in range(3):
        w_q, w_k = (w.weight[i * 7 : (i + 1) * 7].T for w in (module.w_q, module.w_k))
        w_v = module.w_v.weight[i * 5 : (i + 1) * 5].T
        q, k, v = x @ w_q, memory @ w_k, memory @ w_v
        heads.append(torch.softmax(q @ k.transpose(1, 2) / math.sqrt(7), dim=-1) @ v)
    by_hand = torch.cat(heads, dim=-1) @ module.w_o.weight.T
    torch.testing.assert_close(module(x, module.keys_values(memory)), by_hand)


def test_selecting_rows_repeats_and_reorders_keys_and_values() -> None:
    k, v = torch.randn(3, 2, 5, 7), torch.randn(3, 2, 5, 11)
    chosen = KeyValues(k, v).select(torch.tensor([2, 2, 0]))
    assert torch.equal(chosen.k, torch.stack((k[2], k[2], k[0])))
    assert torch.equal(chosen.v, torch.stack((v[2], v[2], v[0])))
