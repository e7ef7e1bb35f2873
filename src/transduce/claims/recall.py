"""A recurrent encoder-decoder loses distant information; attention does not."""

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
    with_more_steps = train_to_repeat(last, lengths[-1], LONGER * steps, 0.003)
    is_lost = theirs[-1] < theirs[0] - CLEAR and theirs[-1] < ours[-1] - CLEAR
    is_slow = with_more_steps > theirs[-1] + CLEAR  # it only needed more steps
    stays_lost = is_lost and ours[-1] > 1 - CLEAR and with_more_steps < theirs[-1] + CLEAR
    return conclude(
        judge(theirs[0] > 1 - CLEAR, is_lost, stays_lost),  # what is near must be recalled
        f"Of {lengths[-1]} letters read, the LSTM ({sizes['LSTM']:,} weights) repeats "
        f"{theirs[-1]:.0%} correctly after the same {steps} training steps as the Transformer "
        f"({sizes['Transformer']:,} weights), which repeats {ours[-1]:.0%}. "
        f"After {LONGER} times the steps the LSTM repeats {with_more_steps:.0%}: "
        f"{'in part it only learns slowly' if is_slow else 'no better'}.",
        f"Of {lengths[0]} letters the LSTM repeats {theirs[0]:.0%}: it can learn the task if the "
        f"sequence is short. (Guessing gives {1 / N_LETTERS:.0%}.)",
        ("letters read", *shares),
        [
            *((str(n), *row) for n, *row in zip(lengths, ours, theirs, strict=True)),
            (f"{lengths[-1]}, {LONGER} times the steps", "", with_more_steps),
        ],
        bars("Share of letters repeated correctly, by letters read", lengths, shares),
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

    def predict(n_sequences: int) -> tuple[Tensor, Tensor]:
        """Return the logits for random sequences, and the sequences."""
        letters = torch.randint(4, N_LETTERS + 4, (n_sequences, n))
        source = F.pad(letters, (0, 1), value=EOS)
        target = F.pad(letters, (1, -1), value=SOS)
        return model(source, torch.ones_like(source, dtype=torch.bool), target), letters

    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 50)
        logits, letters = predict(BATCH)
        optimizer.zero_grad()
        loss = F.cross_entropy(logits.flatten(end_dim=1), letters.flatten())
        loss.backward()  # type: ignore[no-untyped-call]  # torch's own
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    with torch.inference_mode():
        logits, letters = predict(8 * BATCH)
    return (logits.argmax(dim=-1) == letters).float().mean().item()
