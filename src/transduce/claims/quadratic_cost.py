"""Self-attention costs n^2 d, a recurrent layer n d^2.

Attention is cheaper while there are fewer words than vector dimensions.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from transduce.claims.claim import Result, conclude, judge, lines
from transduce.claims.lab import Lab
from transduce.claims.sequence_layers import Recurrent, milliseconds
from transduce.model.attention import attention_weights

LENGTHS = (64, 128, 256, 512, 1024)
D_MODEL, WINDOW = 256, 16


def run(lab: Lab, *, window: int | None = None, control_window: int | None = WINDOW) -> Result:
    """Count the operations of both, and the bytes of all attention weights, by length.

    Times are shown but do not count for the verdict.
    """
    torch.manual_seed(1)
    makers: dict[str, Callable[[Tensor], Tensor]] = {
        "self-attention": lambda x: attend(x, window)[0],
        "RNN": Recurrent(D_MODEL),
        f"attention to {WINDOW} neighbours (control)": lambda x: attend(x, control_window)[0],
    }
    counts = {name: [operations(layer, n) for n in LENGTHS] for name, layer in makers.items()}
    weights = [4.0 * attend(torch.zeros(1, n, D_MODEL), window)[1] for n in LENGTHS]
    times = [milliseconds(makers["self-attention"], torch.randn(1, n, D_MODEL)) for n in LENGTHS]
    here, recurrent, control = (slope(values) for values in counts.values())
    equal = cross_over(counts["self-attention"], counts["RNN"])
    is_quadratic = abs(here - 2) < 0.1 and abs(slope(weights) - 2) < 0.1
    crosses_near_d = abs(math.log2(equal / D_MODEL)) < 0.25
    millions = {name: [value / 1e6 for value in values] for name, values in counts.items()}
    shown = {name.split(" (")[0]: values for name, values in millions.items()}
    return conclude(
        judge(abs(control - 1) < 0.1, is_quadratic, is_quadratic and crosses_near_d),
        f"For twice the words self-attention needs {2**here:.2f} times the operations and "
        f"{2 ** slope(weights):.2f} times the bytes, an RNN {2**recurrent:.2f} times the "
        f"operations. With {D_MODEL} dimensions, both cost the same at {equal:.0f} words.",
        f"For twice the words attention to {WINDOW} neighbours needs {2**control:.2f} times the "
        "operations.",
        ("", *(f"{n} words" for n in LENGTHS)),
        [
            *((f"{name}, million operations", *values) for name, values in millions.items()),
            ("weights of self-attention, megabytes", *(value / 1e6 for value in weights)),
            ("self-attention, milliseconds", *times),
        ],
        lines("Million operations, by words", LENGTHS, shown, is_log=True),
        lines(
            "Milliseconds of self-attention, by words (noisy)", LENGTHS, {"": times}, is_log=True
        ),
    )


def attend(x: Tensor, window: int | None) -> tuple[Tensor, int]:
    """Compute Eq. 1 with x as queries, keys and values; return output and number of weights.

    With a window each position attends to that many neighbours in all.
    """
    if window is None:
        weights = attention_weights(x[:, None], x[:, None])
        return (weights @ x[:, None])[:, 0], weights.numel()
    padded = torch.nn.functional.pad(x, (0, 0, window // 2, window - window // 2 - 1))
    near = padded.unfold(1, window, 1).transpose(2, 3)
    weights = attention_weights(x[:, :, None], near)  # one query and its neighbours per position
    return (weights @ near)[:, :, 0], weights.numel()


def operations(layer: Callable[[Tensor], Tensor], n: int) -> float:
    """Return the floating-point operations of a layer at length n, counted by PyTorch."""
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        layer(torch.randn(1, n, D_MODEL))
    return float(counter.get_total_flops())


def slope(values: list[float]) -> float:
    """Return the power of the length by which values grow, without the first doubling."""
    return math.log2(values[-1] / values[1]) / (len(values) - 2)


def cross_over(quadratic: list[float], linear: list[float]) -> float:
    """Return the length at which both cost the same, extrapolated; infinity if they never do."""
    steeper = slope(quadratic) - slope(linear)
    if steeper <= 0.1:
        return math.inf
    return LENGTHS[-1] * (linear[-1] / quadratic[-1]) ** (1 / steeper)
