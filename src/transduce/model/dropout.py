"""Dropout, section 5.4."""

from jaxtyping import Float
from torch import Tensor, nn

from transduce.model import kernels


class Dropout(nn.Module):
    """Dropout with rate `p` while training; the identity otherwise.

    Used where section 5.4 puts it: on the output of each sub-layer before it is added and
    normalized, and on the sums of embeddings and positional encodings.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Drop each element with probability `p`; scale the others to keep the expected value."""
        if not self.training or not self.p:
            return x
        return kernels.dropout(x, self.p)
