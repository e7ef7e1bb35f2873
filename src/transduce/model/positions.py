"""Where a piece stands in its sentence: section 3.5 of the paper."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transduce.config import ModelConfig
from transduce.errors import DataError


def sinusoids(
    start: int, length: int, d_model: int, device: torch.device
) -> Float[Tensor, "position d_model"]:
    """Sines and cosines of positions start, start+1, ...: section 3.5.

    PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(pos / 10000^(2i/d_model)), interleaved as printed.
    Computed for whatever positions are asked, so no sentence is too long.
    """
    positions = torch.arange(start, start + length, dtype=torch.float32, device=device)
    pairs = torch.arange(0, d_model, 2, dtype=torch.float32, device=device)  # 2i
    angles = positions[:, None] * torch.exp(
        pairs * (-math.log(10000.0) / d_model)
    )  # position d_model/2
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(start_dim=1)


class LearnedPositions(nn.Module):
    """A trained vector for each position: Table 3 (E). Ends at `model.max_positions`."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.max_positions, config.d_model))

    def forward(self, start: int, length: int) -> Float[Tensor, "position d_model"]:
        """The vectors of positions start, start+1, ..."""
        if start + length > len(self.weight):
            raise DataError(
                f"a sentence of {start + length} pieces, but this model learned {len(self.weight)} positions: "
                "split it, or train with a larger model.max_positions or model.positions=sinusoidal"
            )
        return self.weight[start : start + length]
