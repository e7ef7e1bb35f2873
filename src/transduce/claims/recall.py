"""Distant information is lost in a recurrent encoder-decoder; attention reaches it."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.claims.claim import Result, bars, conclude, judge
from transduce.claims.lab import Lab
from transduce.config import ModelConfig
from transduce.model import Transformer
from transduce.text.vocabulary import EOS, SOS

N_LETTERS, BATCH = 12, 32
LENGTHS = (2, 4, 8, 16)
CLEAR = 0.15
# At the greatest length the LSTM also gets more steps: does it forget, or only learn more slowly?
LONGER = 4


class Seq2Seq(nn.Module):
    """An LSTM encoder-decoder without attention: one state carries the whole source."""

    def __init__(self, vocab_size: int, d_model: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.encoder = nn.LSTM(d_model, d_model, batch_first=True)
        self.decoder = nn.LSTM(d_model, d_model, batch_first=True)
        self.logits = nn.Linear(d_model, vocab_size)

    def forward(self, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
        """Return logits for the token after each target token, like the Transformer."""
        _, state = self.encoder(self.embedding(source))
        hidden, _ = self.decoder(self.embedding(target), state)
        scores: Tensor = self.logits(hidden)
        return scores


def run(
    lab: Lab, *, lengths: tuple[int, ...] = LENGTHS, steps: int = 500, both_attend: bool = False
) -> Result:
    """Train LSTM and Transformer of one size to repeat letters, a new model for each length."""
    steps = max(1, round(steps * lab.effort))
    shares: dict[str, list[float]] = {"Transformer": [], "LSTM": []}
    sizes: dict[str, int] = {}
    for n in lengths:
        for name in shares:
            torch.manual_seed(1)
            model = (
                transformer()
                if name == "Transformer" or both_attend
                else Seq2Seq(N_LETTERS + 4, 101)
            )
            sizes[name] = sum(parameter.numel() for parameter in model.parameters())
            shares[name].append(
                train_to_repeat(model, n, steps, 0.003 if isinstance(model, Seq2Seq) else 0.002)
            )
    ours, theirs = shares.values()
    torch.manual_seed(1)
    last = transformer() if both_attend else Seq2Seq(N_LETTERS + 4, 101)
    patient = train_to_repeat(last, lengths[-1], LONGER * steps, 0.003)
    is_lost = theirs[-1] < theirs[0] - CLEAR and theirs[-1] < ours[-1] - CLEAR
    stays_lost = is_lost and ours[-1] > 1 - CLEAR and patient < theirs[-1] + CLEAR
    return conclude(
        judge(theirs[0] > 1 - CLEAR, is_lost, stays_lost),  # what is near must be recalled
        f"Of {lengths[-1]} letters read, the LSTM ({sizes['LSTM']:,} weights) repeats "
        f"{theirs[-1]:.0%} rightly "
        f"after the same {steps} steps of training as the Transformer ({sizes['Transformer']:,}), "
        "which repeats "
        f"{ours[-1]:.0%}. After {LONGER} times the steps the LSTM repeats {patient:.0%}: "
        f"{'in part it learns slowly' if patient > theirs[-1] + CLEAR else 'no better'}.",
        f"Of {lengths[0]} letters the LSTM repeats {theirs[0]:.0%}: it can learn the task, as long "
        "as it is "
        f"short. (Guessing is {1 / N_LETTERS:.0%}.)",
        ("letters read", *shares),
        [
            *((str(n), *row) for n, *row in zip(lengths, ours, theirs, strict=True)),
            (f"{lengths[-1]}, {LONGER} times the steps", "", patient),
        ],
        bars("Share of letters repeated rightly, by letters read", lengths, shares),
    )


def transformer() -> Transformer:
    """Return a Transformer with about as many parameters as the LSTMs."""
    return Transformer(
        ModelConfig(
            vocab_size=N_LETTERS + 4,
            n_layers=2,
            d_model=64,
            d_ff=128,
            n_heads=4,
            dropout=0.0,
            norm="pre",
        )
    )


def train_to_repeat(model: nn.Module, n: int, steps: int, rate: float) -> float:
    """Train a model to repeat n letters; return the share it repeats correctly."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)

    def answers(batch: int) -> tuple[Tensor, Tensor]:
        letters = torch.randint(4, N_LETTERS + 4, (batch, n))
        source = F.pad(letters, (0, 1), value=EOS)
        return model(
            source, torch.ones_like(source, dtype=torch.bool), F.pad(letters, (1, -1), value=SOS)
        ), letters

    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 50)
        scores, letters = answers(BATCH)
        optimizer.zero_grad()
        F.cross_entropy(scores.flatten(end_dim=1), letters.flatten()).backward()  # type: ignore[no-untyped-call]  # torch's own
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    with torch.inference_mode():
        scores, letters = answers(8 * BATCH)
    return (scores.argmax(dim=-1) == letters).float().mean().item()
