"""Attention averages over positions and so blurs them; several heads keep them apart."""

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
WANTED = (-2, -1, 1, 2)  # neighbours that each word is asked for, all at once
CLEAR = 0.1


def run(lab: Lab, *, wanted: tuple[int, ...] = WANTED, steps: int = 500) -> Result:
    """One attention layer learns to tell each word's four neighbours; with one head and with more, at equal numbers of weights."""
    steps = max(1, round(steps * lab.effort))
    many = [learnt(n_heads, wanted, steps) for n_heads in HEADS]
    one = learnt(1, wanted[:1], steps)
    gains = max(many) - many[0] > CLEAR
    return conclude(
        judge(one > 1 - CLEAR, gains, gains and max(many) > 1 - CLEAR),
        f"Asked for {len(wanted)} neighbours at once, one head names {many[0]:.0%} of them; {HEADS[1]} heads "
        f"{many[1]:.0%}, {HEADS[2]} heads {many[2]:.0%}, "
        f"{HEADS[3]} heads {many[3]:.0%}, with as many weights. (Guessing would be {1 / N_LETTERS:.0%}.)",
        f"Asked for a single neighbour, one head names {one:.0%}: it can look sharply, only not at several places "
        "without mixing them.",
        ("heads", "neighbours asked for", "named"),
        [
            *((str(h), float(len(wanted)), share) for h, share in zip(HEADS, many, strict=True)),
            ("1 (control)", 1.0, one),
        ],
        bars("Share of four neighbours named, by heads", HEADS, {"": many}),
    )


class Neighbours(nn.Module):
    """Letters and their positions, one attention, and one classifier for each neighbour asked for."""

    def __init__(self, n_heads: int, n_wanted: int) -> None:
        super().__init__()
        self.letters = nn.Embedding(N_LETTERS, D_MODEL)
        self.attention = MultiHeadAttention(ModelConfig(d_model=D_MODEL, n_heads=n_heads))
        self.tell = nn.Linear(D_MODEL, n_wanted * N_LETTERS)

    def forward(self, letters: Tensor) -> Tensor:
        """Scores of letters for each neighbour: batch, position, letter, neighbour."""
        x = self.letters(letters) + sinusoids(0, LENGTH, D_MODEL, letters.device)
        told: Tensor = self.tell(self.attention(x, self.attention.keys_values(x)))
        return told.view(*letters.shape, N_LETTERS, -1)


def learnt(n_heads: int, wanted: tuple[int, ...], steps: int) -> float:
    """The share of neighbours that a layer names after so many steps of training."""
    torch.manual_seed(1)
    model = Neighbours(n_heads, len(wanted))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    for _ in range(steps):
        letters = torch.randint(N_LETTERS, (BATCH, LENGTH))
        loss = F.cross_entropy(*inside(model(letters), letters, wanted))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch's own
        optimizer.step()
    letters = torch.randint(N_LETTERS, (8 * BATCH, LENGTH))
    with torch.inference_mode():
        scores, right = inside(model(letters), letters, wanted)
    return (scores.argmax(dim=1) == right).float().mean().item()


def inside(scores: Tensor, letters: Tensor, wanted: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Scores and right answers where all neighbours exist."""
    right = torch.stack([letters.roll(-offset, dims=1) for offset in wanted], dim=-1)
    edge = max(map(abs, WANTED))
    return scores[:, edge:-edge].flatten(end_dim=1), right[:, edge:-edge].flatten(end_dim=1)
