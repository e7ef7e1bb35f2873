"""Layers that map a sequence to a sequence: self-attention and recurrent ones (Table 1).

Only the claims use them.
"""

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from transduce.config import ModelConfig
from transduce.model.attention import scaled_dot_product_attention
from transduce.model.layers import EncoderLayer

D_MODEL = 32
WINDOW = 3  # of restricted attention: neighbours on each side


class Recurrent(nn.Module):
    """A plain RNN: h_t = tanh(W x_t + U h_(t-1)), with U an orthogonal matrix times `gain`.

    With a gain below 1 gradients vanish, above 1 they explode.
    """

    def __init__(self, d_model: int = D_MODEL, gain: float = 0.9) -> None:
        super().__init__()
        self.w = nn.Linear(d_model, d_model, bias=False)
        self.u = nn.Linear(d_model, d_model, bias=False)
        nn.init.orthogonal_(self.u.weight, gain)

    def forward(self, x: Tensor) -> Tensor:
        """Return the hidden states, computed one position after the other."""
        hidden, outputs = torch.zeros_like(x[:, 0]), []
        for t in range(x.shape[1]):
            hidden = torch.tanh(self.w(x[:, t]) + self.u(hidden))
            outputs.append(hidden)
        return torch.stack(outputs, dim=1)


class Lstm(nn.Module):
    """The LSTM of PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(D_MODEL, D_MODEL, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """Return the hidden states."""
        output: Tensor = self.lstm(x)[0]
        return output


class SelfAttention(nn.Module):
    """Encoder layers. With a window each position attends to that many neighbours on each side."""

    def __init__(self, n_layers: int = 2, window: int | None = None) -> None:
        super().__init__()
        config = ModelConfig(d_model=D_MODEL, d_ff=2 * D_MODEL, n_heads=4, dropout=0.0)
        layers = [EncoderLayer(config) for _ in range(n_layers)]
        for layer in layers:
            layer.self_attention.attend = scaled_dot_product_attention
        self.layers, self.window = nn.ModuleList(layers), window

    def forward(self, x: Tensor) -> Tensor:
        """Return the output, all positions at once."""
        n, mask = x.shape[1], None
        if self.window is not None:
            places = torch.arange(n)
            mask = ((places[:, None] - places).abs() <= self.window)[None, None]
        for layer in self.layers:
            x = layer(x, mask)
        return x


def milliseconds(layer: Callable[[Tensor], Tensor], x: Tensor, tries: int = 3) -> float:
    """Return the time of a layer in milliseconds: the shortest of a few tries."""
    found = []
    with torch.inference_mode():
        for _ in range(tries):
            start = time.perf_counter()
            layer(x)
            found.append(1000 * (time.perf_counter() - start))
    return min(found)
