"""Attention connects any two positions in a constant number of steps.

Through an RNN a gradient vanishes or explodes with distance.
"""

from collections.abc import Callable

import torch
from torch import nn

from transduce.claims.claim import Result, conclude, judge, lines
from transduce.claims.lab import Lab
from transduce.claims.sequence_layers import D_MODEL, WINDOW, Lstm, Recurrent, SelfAttention

LENGTHS = (8, 16, 32, 64, 128, 256)
N_DRAWS = 8
GROWS = 1.5  # gain of an RNN whose gradients explode
VANISHED, EXPLODED = 1e-3, 1e3  # ratios of the far to the near gradient


def run(lab: Lab, *, window: int | None = None, recurrent: bool = True) -> Result:
    """Compare the gradients from the last output to the first input and to the last but one.

    The layers are untrained.
    """
    makers = {
        "self-attention, 2 layers": lambda: SelfAttention(window=window),
        "plain RNN, gain 0.9": lambda: Recurrent(gain=0.9) if recurrent else SelfAttention(),
        f"plain RNN, gain {GROWS}": lambda: Recurrent(gain=GROWS) if recurrent else SelfAttention(),
        "LSTM": lambda: Lstm() if recurrent else SelfAttention(),
        f"attention to {WINDOW} neighbours only (control)": lambda: SelfAttention(window=WINDOW),
    }
    ratios = {name: [far_over_near(make, n) for n in LENGTHS] for name, make in makers.items()}
    attention, vanishing, exploding, lstm, control = ratios.values()
    reaches = all(0.1 < ratio < 10 for ratio in attention)
    failures = [min(vanishing) < VANISHED, max(exploding) > EXPLODED, min(lstm) < VANISHED]
    shown = {
        "self-attention": attention,
        "RNN 0.9": vanishing,
        f"RNN {GROWS}": exploding,
        "LSTM": lstm,
    }
    return conclude(
        judge(control[-1] < VANISHED and any(failures), *(reaches and fails for fails in failures)),
        f"At length {LENGTHS[-1]} the first word influences the last output of self-attention "
        f"{attention[-1]:.2f} times as much as the last word but one. Through an RNN with a gain "
        f"below 1 it is {vanishing[-1]:.0e}, with a gain above 1 {exploding[-1]:.0e}, through an "
        f"LSTM {lstm[-1]:.0e}. All layers are untrained.",
        f"Attention to {WINDOW} neighbours only needs many layers to reach that far: with two, "
        f"{control[-1]:.2g}.",
        ("layer", *(f"length {n}" for n in LENGTHS)),
        [(name, *values) for name, values in ratios.items()],
        lines(
            "Gradient to the first input / to the last but one, by length",
            LENGTHS,
            shown,
            is_log=True,
        ),
    )


def far_over_near(make: Callable[[], nn.Module], n: int) -> float:
    """Return the gradient to the first of n inputs divided by that to the last but one."""
    torch.manual_seed(1)
    layer = make().double()
    x = (0.01 * torch.randn(N_DRAWS, n, D_MODEL, dtype=torch.float64)).requires_grad_()
    direction = torch.randn(D_MODEL, dtype=torch.float64)
    (gradient,) = torch.autograd.grad((layer(x)[:, -1] @ direction).sum(), x)
    sizes = gradient.norm(dim=-1).mean(dim=0)
    return (sizes[0] / sizes[-2]).item()
