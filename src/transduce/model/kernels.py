"""CPU forms of softmax, attention and dropout that are faster than PyTorch's, with the same result.

Nothing here is needed to understand the model. Figures are in docs/log.md; on other devices
PyTorch's own kernels are used.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

LANES = 16  # float32 numbers in the widest vector register of a CPU (AVX-512)
MIN_SCORES = 4096  # below this, padding and casting cost more than they save
MAX_SHORT_KEYS = 128  # up to this length bfloat16 attention is faster spelled out than fused
RANDOM_BITS = 16  # per number; the dropout rate is exact to 2^-17


def softmax(scores: Float[Tensor, "*rows key"]) -> Float[Tensor, "*rows key"]:
    """Return the softmax over the last axis, in the dtype of `scores`.

    PyTorch's CPU kernel has two slow cases, which it computes one number at a time: bfloat16
    scores, and rows shorter than a vector register. Large inputs are therefore computed in float32,
    and short rows are padded with minus infinity to a full register, which is 12 times faster.
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
    """Return True if PyTorch's fused attention is slower than Eq. 1 spelled out for these keys.

    This is so for short sequences in bfloat16 on a CPU.
    """
    is_short = k.shape[-2] <= MAX_SHORT_KEYS
    return is_short and k.dtype == torch.bfloat16 and k.device.type == "cpu"


def dropout(x: Float[Tensor, "*shape"], p: float) -> Float[Tensor, "*shape"]:
    """Set a share `p` of the numbers to zero and scale the others by 1 / (1 - p)."""
    if x.device.type != "cpu":
        return F.dropout(x, p)
    return x * dropout_mask(x, p)


def dropout_mask(x: Float[Tensor, "*shape"], p: float) -> Float[Tensor, "*shape"]:
    """Return a tensor shaped like `x`: zero where a number is dropped, else the scale.

    PyTorch draws 64 random bits for each number, one after the other, which took a sixth of a
    training step. Here four numbers share one draw of 64 bits. A number is dropped if its 16 bits,
    read as an integer, are among the lowest round(p * 65536) values, and the scale is computed from
    that rounded share.
    """
    n_values = 1 << RANDOM_BITS
    n_dropped = min(round(p * n_values), n_values - 1)
    n_words = math.ceil(x.numel() * RANDOM_BITS / 64)
    words = torch.empty(n_words, dtype=torch.int64).random_(-(1 << 63), None)
    bits = words.view(torch.int16)[: x.numel()].view(x.shape)  # from -n_values / 2 upwards
    is_kept = bits >= n_dropped - n_values // 2
    return is_kept.to(x.dtype).mul_(n_values / (n_values - n_dropped))
