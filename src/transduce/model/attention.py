"""Attention: sections 3.2.1 to 3.2.3 of the paper.

Names of tensor axes in this package:
    batch       sentences
    row         hypotheses; during search there are several for each sentence
    source      positions of the source sentence
    target      positions of the target sentence
    query, key  positions that attend, positions that are attended to
    head        heads of multi-head attention (h in the paper)
    d_model, d_ff, d_k, d_v     as in the paper
Masks are boolean and True means *may attend*.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.config import ModelConfig, StackShape
from transduce.model import kernels
from transduce.model.cache import KeyValues

Mask = Bool[Tensor, "#batch #head #query key"] | None
Attention = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]


def attention_weights(
    q: Float[Tensor, "batch head query d_k"],
    k: Float[Tensor, "batch head key d_k"],
    mask: Mask = None,
) -> Float[Tensor, "batch head query key"]:
    """Return softmax(Q K^T / sqrt(d_k)), the left factor of Eq. 1 (section 3.2.1).

    Illegal connections are set to minus infinity before the softmax (section 3.2.3).
    """
    d_k = q.shape[-1]
    scores = q / math.sqrt(d_k) @ k.transpose(-2, -1)  # scales q, which is smaller than the scores
    if mask is not None:
        scores = scores.masked_fill_(~mask, float("-inf"))
    return kernels.softmax(scores)


def scaled_dot_product_attention(
    q: Float[Tensor, "batch head query d_k"],
    k: Float[Tensor, "batch head key d_k"],
    v: Float[Tensor, "batch head key d_v"],
    mask: Mask = None,
) -> Float[Tensor, "batch head query d_v"]:
    """Return Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V: Eq. 1, section 3.2.1, spelled out.

    This is the reference. A model calls `attention`, which picks the faster of this and
    `fused_attention`.
    """
    return attention_weights(q, k, mask) @ v


def fused_attention(
    q: Float[Tensor, "batch head query d_k"],
    k: Float[Tensor, "batch head key d_k"],
    v: Float[Tensor, "batch head key d_v"],
    mask: Mask = None,
) -> Float[Tensor, "batch head query d_v"]:
    """Compute Eq. 1 with PyTorch's fused kernel, which never holds all weights in memory."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def attention(
    q: Float[Tensor, "batch head query d_k"],
    k: Float[Tensor, "batch head key d_k"],
    v: Float[Tensor, "batch head key d_v"],
    mask: Mask = None,
) -> Float[Tensor, "batch head query d_v"]:
    """Compute Eq. 1 with the faster implementation for these keys: spelled out or fused."""
    if kernels.is_fused_slower(k):
        return scaled_dot_product_attention(q, k, v, mask)
    return fused_attention(q, k, v, mask)


def padding_mask(real: Bool[Tensor, "batch key"]) -> Bool[Tensor, "batch 1 1 key"]:
    """Return the mask that hides padding from every head and query; `real` is False at padding."""
    return real[:, None, None, :]


def causal_mask(n_queries: int, n_keys: int, device: torch.device) -> Bool[Tensor, "1 1 query key"]:
    """Return the mask that hides later positions (section 3.2.3).

    The last query is at the position of the last key, so with a cache n_keys exceeds n_queries.
    """
    mask = torch.ones(n_queries, n_keys, dtype=torch.bool, device=device)
    return mask.tril(diagonal=n_keys - n_queries)[None, None]


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O, section 3.2.2 and Figure 2 (right).

    head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V). The matrices of all heads are stored as one:
    `w_q` holds W_1^Q to W_h^Q side by side, and likewise `w_k` and `w_v`. d_k and d_v are
    independent of d_model, as in Table 3 (B). `attend` is the function that computes Eq. 1;
    inspection replaces it.

    Departs: with model.attention_bias each of the four linear maps adds a bias, as in Marian
    (Junczys-Dowmunt et al. 2018).
    """

    def __init__(self, config: ModelConfig, stack: StackShape) -> None:
        super().__init__()
        h, d_k, d_v = stack.n_heads, stack.key_size, stack.value_size
        d_model = config.d_model
        self.n_heads = h
        self.w_q = nn.Linear(d_model, h * d_k, bias=config.attention_bias)
        self.w_k = nn.Linear(d_model, h * d_k, bias=config.attention_bias)
        self.w_v = nn.Linear(d_model, h * d_v, bias=config.attention_bias)
        self.w_o = nn.Linear(h * d_v, d_model, bias=config.attention_bias)
        self.attend: Attention = attention

    def keys_values(self, x: Float[Tensor, "batch key d_model"]) -> KeyValues:
        """Return K W^K and V W^V of all heads, which a decoder caches."""
        return KeyValues(self.split_heads(self.w_k(x)), self.split_heads(self.w_v(x)))

    def project(
        self, x: Float[Tensor, "batch position d_model"]
    ) -> tuple[Float[Tensor, "batch position width"], KeyValues]:
        """Return Q W^Q, and K W^K with V W^V, for self-attention: all three from the same x."""
        return self.w_q(x), self.keys_values(x)

    def forward(
        self,
        x: Float[Tensor, "row query d_model"],
        keys_values: KeyValues,
        mask: Mask = None,
        queries: Float[Tensor, "row query width"] | None = None,
    ) -> Float[Tensor, "row query d_model"]:
        """Let every position of x attend to the given keys and values.

        Pass `queries` if Q W^Q has been computed already. x may have several rows for each row of
        the keys, the hypotheses of one sentence; they are treated as further queries of that
        sentence.
        """
        n_rows, n_queries = x.shape[:2]
        if queries is None:
            queries = self.w_q(x)
        n_sentences = len(keys_values.k)
        q = self.split_heads(queries.view(n_sentences, -1, queries.shape[-1]))
        heads = self.attend(q, keys_values.k, keys_values.v, mask)
        concat = heads.transpose(1, 2).reshape(n_rows, n_queries, -1)  # row query head*d_v
        return self.w_o(concat)

    def split_heads(
        self, x: Float[Tensor, "batch position width"]
    ) -> Float[Tensor, "batch head position size"]:
        """Split the last axis into heads."""
        return x.view(*x.shape[:2], self.n_heads, -1).transpose(1, 2)
