"""Positional encodings: section 3.5 of the paper.

Absolute encodings, as here, are added to the embeddings (`Embedding` in transformer.py). Rotary
encodings would instead rotate q and k by their positions, in `MultiHeadAttention.project`
(attention.py), which only self-attention calls, and before k is cached.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transduce.config import ModelConfig
from transduce.errors import DataError


def sinusoids(
    start: int, length: int, d_model: int, device: torch.device
) -> Float[Tensor, "position d_model"]:
    """Return the sinusoidal encodings of positions start, start+1, ...: section 3.5.

    PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(pos / 10000^(2i/d_model)),
    interleaved as printed. They are computed on demand, so there is no longest sentence.
    """
    positions = torch.arange(start, start + length, dtype=torch.float32, device=device)
    even = torch.arange(0, d_model, 2, dtype=torch.float32, device=device)  # 2i
    frequencies = torch.exp(even * (-math.log(10000.0) / d_model))
    angles = positions[:, None] * frequencies  # position d_model/2
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(start_dim=1)


class LearnedPositions(nn.Module):
    """A learned vector for each of the first `model.max_positions` positions: Table 3 (E)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.max_positions, config.d_model))

    def forward(self, start: int, length: int) -> Float[Tensor, "position d_model"]:
        """Return the vectors of positions start, start+1, ...; raise DataError past the end."""
        end = start + length
        if end > len(self.weight):
            raise DataError(
                f"the sentence has {end} tokens, but this model has learned {len(self.weight)} "
                "positions; split the sentence, or train with a larger model.max_positions or with "
                "model.positions=sinusoidal"
            )
        return self.weight[start:end]
