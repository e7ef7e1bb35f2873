"""Softmax and dropout for the CPU, faster than PyTorch's and with the same results.

Nothing here is needed to understand the model. Other devices use PyTorch's own kernels. The
measurements are in docs/log.md.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

LANES = 16  # float32 numbers in the widest vector register of a CPU (AVX-512)
MIN_SCORES = 4096  # for fewer scores, padding and casting cost more than they save
MAX_SHORT_KEYS = 128  # for at most this many keys, bfloat16 attention is faster spelled out
RANDOM_BITS = 16  # per element; the dropout rate is exact to 2^-17


def softmax(scores: Float[Tensor, "*rows key"]) -> Float[Tensor, "*rows key"]:
    """Return the softmax over the last axis, in the dtype of `scores`.

    PyTorch's CPU kernel has two slow cases, which it does not vectorize: bfloat16 scores, and rows
    shorter than a vector register. Large inputs are therefore computed in float32, and short rows
    are padded with minus infinity to a full register.
    """
    if scores.numel() < MIN_SCORES or scores.device.type != "cpu":
        return scores.softmax(dim=-1)

    n_keys = scores.shape[-1]
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if n_keys >= LANES:
        return wide.softmax(dim=-1).to(scores.dtype)

    padded = F.pad(wide, (0, LANES - n_keys), value=float("-inf"))
    return padded.softmax(dim=-1)[..., :n_keys].to(scores.dtype)


def is_fused_slower(k: Float[Tensor, "batch head key d_k"]) -> bool:
    """Return whether PyTorch's fused attention is slower than Eq. 1 spelled out for these keys.

    It is for short sequences in bfloat16 on a CPU.
    """
    is_short = k.shape[-2] <= MAX_SHORT_KEYS
    return is_short and k.dtype == torch.bfloat16 and k.device.type == "cpu"


def dropout(x: Float[Tensor, "*shape"], p: float) -> Float[Tensor, "*shape"]:
    """Set each element to zero with probability `p`, and scale the others by 1 / (1 - p)."""
    if x.device.type != "cpu":
        return F.dropout(x, p)
    return x * dropout_mask(x, p)


def dropout_mask(x: Float[Tensor, "*shape"], p: float) -> Float[Tensor, "*shape"]:
    """Return a tensor shaped like `x`: zero where an element is dropped, else the scale.

    PyTorch draws 64 random bits for each element, which is slow. Here four elements share one draw.
    An element is dropped if its 16 bits, read as an integer, are among the lowest
    round(p * 65536) values. The scale is computed from that rounded rate.
    """
    n_values = 1 << RANDOM_BITS
    n_dropped = min(round(p * n_values), n_values - 1)
    n_words = math.ceil(x.numel() * RANDOM_BITS / 64)
    words = torch.empty(n_words, dtype=torch.int64).random_(-(1 << 63), None)
    bits = words.view(torch.int16)[: x.numel()].view(x.shape)  # from -n_values / 2 upwards
    is_kept = bits >= n_dropped - n_values // 2
    return is_kept.to(x.dtype).mul_(n_values / (n_values - n_dropped))
