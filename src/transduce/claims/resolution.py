"""Attention averages over positions, which blurs them; several heads separate them."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.claims.claim import Result, bars, conclude, judge
from transduce.claims.lab import Lab
from transduce.config import ModelConfig
from transduce.model.attention import MultiHeadAttention
from transduce.model.positions import sinusoids

HEADS = (1, 2, 4, 8)
D_MODEL, N_LETTERS, LENGTH, BATCH = 64, 16, 12, 32
OFFSETS = (-2, -1, 1, 2)  # of the neighbours to name, all at once
CLEAR = 0.1


def run(lab: Lab, *, offsets: tuple[int, ...] = OFFSETS, steps: int = 500) -> Result:
    """Train one attention layer to name the four neighbours of each letter.

    The layers have 1, 2, 4 and 8 heads and equal numbers of parameters.
    """
    steps = max(1, round(steps * lab.effort))
    many = [train_layer(n_heads, offsets, steps) for n_heads in HEADS]
    one = train_layer(1, offsets[:1], steps)
    gains = max(many) - many[0] > CLEAR
    return conclude(
        judge(one > 1 - CLEAR, gains, gains and max(many) > 1 - CLEAR),
        f"Of {len(offsets)} neighbours at once, one head names {many[0]:.0%} correctly; "
        f"{HEADS[1]} heads {many[1]:.0%}, {HEADS[2]} heads {many[2]:.0%}, "
        f"{HEADS[3]} heads {many[3]:.0%}, with the same number of weights. "
        f"(Guessing gives {1 / N_LETTERS:.0%}.)",
        f"Of a single neighbour, one head names {one:.0%} correctly: it can attend to one "
        "position, but not to several without mixing them.",
        ("heads", "neighbours to name", "named correctly"),
        [
            *((str(h), float(len(offsets)), share) for h, share in zip(HEADS, many, strict=True)),
            ("1 (control)", 1.0, one),
        ],
        bars("Share of four neighbours named correctly, by heads", HEADS, {"": many}),
    )


class Neighbours(nn.Module):
    """Letters and positions, one attention layer, and one classifier for each neighbour."""

    def __init__(self, n_heads: int, n_neighbours: int) -> None:
        super().__init__()
        self.letters = nn.Embedding(N_LETTERS, D_MODEL)
        config = ModelConfig(d_model=D_MODEL, n_heads=n_heads)
        self.attention = MultiHeadAttention(config, config.encoder)
        self.classify = nn.Linear(D_MODEL, n_neighbours * N_LETTERS)

    def forward(self, letters: Tensor) -> Tensor:
        """Return logits of shape (batch, position, letter, neighbour)."""
        x = self.letters(letters) + sinusoids(0, LENGTH, D_MODEL, letters.device)
        logits: Tensor = self.classify(self.attention(x, self.attention.keys_values(x)))
        return logits.view(*letters.shape, N_LETTERS, -1)


def train_layer(n_heads: int, offsets: tuple[int, ...], steps: int) -> float:
    """Train a layer; return the share of neighbours it names correctly."""
    torch.manual_seed(1)
    model = Neighbours(n_heads, len(offsets))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    for _ in range(steps):
        letters = torch.randint(N_LETTERS, (BATCH, LENGTH))
        loss = F.cross_entropy(*without_edges(model(letters), letters, offsets))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch's own
        optimizer.step()
    letters = torch.randint(N_LETTERS, (8 * BATCH, LENGTH))
    with torch.inference_mode():
        logits, correct = without_edges(model(letters), letters, offsets)
    return (logits.argmax(dim=1) == correct).float().mean().item()


def without_edges(
    logits: Tensor, letters: Tensor, offsets: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """Return the logits and the correct letters of all positions that have every neighbour."""
    correct = torch.stack([letters.roll(-offset, dims=1) for offset in offsets], dim=-1)
    edge = max(map(abs, OFFSETS))
    return logits[:, edge:-edge].flatten(end_dim=1), correct[:, edge:-edge].flatten(end_dim=1)
