"""Attention averages over positions and so blurs them; several heads separate them."""

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
OFFSETS = (-2, -1, 1, 2)  # of the neighbors to name, all at once
CLEAR = 0.1


def run(lab: Lab, *, offsets: tuple[int, ...] = OFFSETS, steps: int = 500) -> Result:
    """Train one attention layer to name the four neighbors of each letter.

    With one head and with more, at equal numbers of parameters.
    """
    steps = max(1, round(steps * lab.effort))
    many = [train_layer(n_heads, offsets, steps) for n_heads in HEADS]
    one = train_layer(1, offsets[:1], steps)
    gains = max(many) - many[0] > CLEAR
    return conclude(
        judge(one > 1 - CLEAR, gains, gains and max(many) > 1 - CLEAR),
        f"Asked for {len(offsets)} neighbours at once, one head names {many[0]:.0%} of them; "
        f"{HEADS[1]} heads "
        f"{many[1]:.0%}, {HEADS[2]} heads {many[2]:.0%}, "
        f"{HEADS[3]} heads {many[3]:.0%}, with as many weights. (Guessing would be "
        f"{1 / N_LETTERS:.0%}.)",
        f"Asked for a single neighbour, one head names {one:.0%}: it can look sharply, only not at "
        "several places "
        "without mixing them.",
        ("heads", "neighbours asked for", "named"),
        [
            *((str(h), float(len(offsets)), share) for h, share in zip(HEADS, many, strict=True)),
            ("1 (control)", 1.0, one),
        ],
        bars("Share of four neighbours named, by heads", HEADS, {"": many}),
    )


class Neighbours(nn.Module):
    """Letters and positions, one attention layer, and one classifier for each neighbor."""

    def __init__(self, n_heads: int, n_neighbours: int) -> None:
        super().__init__()
        self.letters = nn.Embedding(N_LETTERS, D_MODEL)
        self.attention = MultiHeadAttention(ModelConfig(d_model=D_MODEL, n_heads=n_heads))
        self.classify = nn.Linear(D_MODEL, n_neighbours * N_LETTERS)

    def forward(self, letters: Tensor) -> Tensor:
        """Return logits of shape (batch, position, letter, neighbor)."""
        x = self.letters(letters) + sinusoids(0, LENGTH, D_MODEL, letters.device)
        logits: Tensor = self.classify(self.attention(x, self.attention.keys_values(x)))
        return logits.view(*letters.shape, N_LETTERS, -1)


def train_layer(n_heads: int, offsets: tuple[int, ...], steps: int) -> float:
    """Train a layer; return the share of neighbors it names correctly."""
    torch.manual_seed(1)
    model = Neighbours(n_heads, len(offsets))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    for _ in range(steps):
        letters = torch.randint(N_LETTERS, (BATCH, LENGTH))
        loss = F.cross_entropy(*inside(model(letters), letters, offsets))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch's own
        optimizer.step()
    letters = torch.randint(N_LETTERS, (8 * BATCH, LENGTH))
    with torch.inference_mode():
        scores, right = inside(model(letters), letters, offsets)
    return (scores.argmax(dim=1) == right).float().mean().item()


def inside(scores: Tensor, letters: Tensor, offsets: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return logits and correct answers of the positions that have all neighbors."""
    right = torch.stack([letters.roll(-offset, dims=1) for offset in offsets], dim=-1)
    edge = max(map(abs, OFFSETS))
    return scores[:, edge:-edge].flatten(end_dim=1), right[:, edge:-edge].flatten(end_dim=1)
