"""Attention: sections 3.2.1 to 3.2.3 of the paper.

The words used for the axes of every tensor in this package:
    batch       sentences side by side                  row      hypotheses side by side, several a sentence while searching
    source      positions of the source sentence        target   positions of the target sentence
    query, key  positions that ask, positions that are asked
    head        heads of multi-head attention (h in the paper)
    d_model, d_ff, d_k, d_v                              the paper's
Masks are boolean and True means *may attend*.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.config import ModelConfig
from transduce.model.cache import KeyValues

Mask = Bool[Tensor, "#batch #head #query key"] | None
MOST_KEYS = 128  # for which the spelled-out road is faster in bfloat16 on a CPU (docs/decisions.md)
LANES = 16  # float32 numbers that a CPU takes at once, at most
MANY = 4096  # scores; for fewer, bringing them into another form takes longer than it saves
Attention = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]


def attention_weights(
    q: Float[Tensor, "batch head query d_k"],
    k: Float[Tensor, "batch head key d_k"],
    mask: Mask = None,
) -> Float[Tensor, "batch head query key"]:
    """How much each query attends to each key: softmax(Q K^T / sqrt(d_k)).

    The left factor of Eq. 1, section 3.2.1. Illegal connections get minus infinity before the softmax (section 3.2.3).
    """
    scores = q / math.sqrt(q.shape[-1]) @ k.transpose(-2, -1)  # q is smaller than the scores
    if mask is not None:
        scores = scores.masked_fill_(~mask, float("-inf"))
    return softmax(scores)


def softmax(scores: Float[Tensor, "*rows key"]) -> Float[Tensor, "*rows key"]:
    """Softmax of each row; of many rows in float32, whatever the scores are in.

    A CPU takes numbers in bfloat16, and rows shorter than a vector register, one by one: filled up it is 12 times faster.
    """
    if scores.numel() < MANY or scores.device.type != "cpu":
        return scores.softmax(dim=-1)
    n_keys = scores.shape[-1]
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if n_keys >= LANES:
        return wide.softmax(dim=-1).to(scores.dtype)
    filled = F.pad(wide, (0, LANES - n_keys), value=float("-inf"))
    return filled.softmax(dim=-1)[..., :n_keys].to(scores.dtype)


def scaled_dot_product_attention(
    q: Float[Tensor, "batch head query d_k"],
    k: Float[Tensor, "batch head key d_k"],
    v: Float[Tensor, "batch head key d_v"],
    mask: Mask = None,
) -> Float[Tensor, "batch head query d_v"]:
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V: Eq. 1, section 3.2.1, spelled out.

    The reference. A model runs `attention`, which takes the faster of this and `fused_attention`.
    """
    return attention_weights(q, k, mask) @ v


def fused_attention(
    q: Float[Tensor, "batch head query d_k"],
    k: Float[Tensor, "batch head key d_k"],
    v: Float[Tensor, "batch head key d_v"],
    mask: Mask = None,
) -> Float[Tensor, "batch head query d_v"]:
    """Eq. 1 as one call into PyTorch, which never has all weights in memory and picks the kernel of the device."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def attention(
    q: Float[Tensor, "batch head query d_k"],
    k: Float[Tensor, "batch head key d_k"],
    v: Float[Tensor, "batch head key d_v"],
    mask: Mask = None,
) -> Float[Tensor, "batch head query d_v"]:
    """Eq. 1 by the faster road, which a model runs by default: spelled out for short texts in bfloat16 on a CPU, else fused."""
    is_short = k.shape[-2] <= MOST_KEYS and k.dtype == torch.bfloat16 and k.device.type == "cpu"
    return (scaled_dot_product_attention if is_short else fused_attention)(q, k, v, mask)


def padding_mask(real: Bool[Tensor, "batch key"]) -> Bool[Tensor, "batch 1 1 key"]:
    """May attend to real pieces, not to padding; the same for every head and query."""
    return real[:, None, None, :]


def causal_mask(n_queries: int, n_keys: int, device: torch.device) -> Bool[Tensor, "1 1 query key"]:
    """May attend to oneself and leftward: the last query stands at the last key (section 3.2.3)."""
    mask = torch.ones(n_queries, n_keys, dtype=torch.bool, device=device)
    return mask.tril(diagonal=n_keys - n_queries)[None, None]


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O, section 3.2.2 and Figure 2 (right).

    head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V). The matrices of all heads lie side by side in one: W^Q is `w_q`, and so on.
    d_k and d_v are free of d_model, as in Table 3 (B). `attend` is Eq. 1 as a function, so that whoever looks inside may swap it.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        h, d_model, d_k, d_v = config.n_heads, config.d_model, config.key_size, config.value_size
        self.n_heads = h
        self.w_q = nn.Linear(d_model, h * d_k, bias=False)
        self.w_k = nn.Linear(d_model, h * d_k, bias=False)
        self.w_v = nn.Linear(d_model, h * d_v, bias=False)
        self.w_o = nn.Linear(h * d_v, d_model, bias=False)
        self.attend: Attention = attention

    def keys_values(self, x: Float[Tensor, "batch key d_model"]) -> KeyValues:
        """K W^K and V W^V by head. Computed once for a source and remembered for a target."""
        return KeyValues(self.split_heads(self.w_k(x)), self.split_heads(self.w_v(x)))

    def project(
        self, x: Float[Tensor, "batch position d_model"]
    ) -> tuple[Float[Tensor, "batch position width"], KeyValues]:
        """Q W^Q, K W^K and V W^V of positions that attend to themselves."""
        return self.w_q(x), self.keys_values(x)

    def forward(
        self,
        x: Float[Tensor, "row query d_model"],
        keys_values: KeyValues,
        mask: Mask = None,
        queries: Float[Tensor, "row query width"] | None = None,
    ) -> Float[Tensor, "row query d_model"]:
        """Let every position of x attend to the given keys and values; `queries` is Q W^Q where it is known already.

        x may have several rows for each row of the keys: the hypotheses of one sentence, side by side, ask as further queries.
        """
        n_rows, n_queries = x.shape[:2]
        queries = self.w_q(x) if queries is None else queries
        q = self.split_heads(queries.view(len(keys_values.k), -1, queries.shape[-1]))
        heads = self.attend(q, keys_values.k, keys_values.v, mask)
        concat = heads.transpose(1, 2).reshape(n_rows, n_queries, -1)  # row query head*d_v
        return self.w_o(concat)

    def split_heads(
        self, x: Float[Tensor, "batch position width"]
    ) -> Float[Tensor, "batch head position size"]:
        """What lies side by side in one vector, by head."""
        return x.view(*x.shape[:2], self.n_heads, -1).transpose(1, 2)
