"""Dropout (section 5.4), its masks cut from random bits."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

BITS = 16  # of chance for each number: p is met within 2^-17


class Dropout(nn.Module):
    """Zero a share `p` of the numbers while training, and scale the others so that the mean stays.

    On a CPU PyTorch draws 64 random bits for each number, one after the other, which was a sixth of a training step. Here each
    number gets 16: a share of round(p * 65536) / 65536 is dropped, and the scale belongs to that share.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """As it is when nothing is to be dropped."""
        if not self.training or not self.p:
            return x
        return x * keep_mask(x, self.p) if x.device.type == "cpu" else F.dropout(x, self.p)


def keep_mask(x: Float[Tensor, "*shape"], p: float) -> Float[Tensor, "*shape"]:
    """Zero where x is dropped, else one over the share that is kept."""
    n_values = 1 << BITS
    n_dropped = min(round(p * n_values), n_values - 1)
    words = torch.empty(math.ceil(x.numel() * BITS / 64), dtype=torch.int64).random_(
        -(1 << 63), None
    )
    bits = words.view(torch.int16)[: x.numel()].view(x.shape)  # each from -n_values / 2 on
    return (bits >= n_dropped - n_values // 2).to(x.dtype).mul_(n_values / (n_values - n_dropped))
