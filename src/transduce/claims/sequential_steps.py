"""A recurrent layer needs one sequential step per word, attention a constant number."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from transduce.claims.claim import Result, conclude, judge, lines
from transduce.claims.lab import Lab
from transduce.claims.sequence_layers import D_MODEL, Recurrent, SelfAttention, milliseconds

LENGTHS = (8, 16, 32, 64, 128)


def run(
    lab: Lab, *, one_by_one: bool = False, control_waits: bool = True, tries: int = 5
) -> Result:
    """Measure the longest chain of operations that depend on each other.

    Times are shown but do not count for the verdict.
    """
    torch.manual_seed(1)
    attention = SelfAttention(n_layers=1)
    recurrent = Recurrent() if control_waits else SelfAttention(n_layers=1)
    write = partial(word_by_word, attention)
    layers: dict[str, Callable[[Tensor], Tensor]] = {
        "self-attention, all words given": write if one_by_one else attention,
        "plain RNN (control)": recurrent,
        "self-attention that writes word by word": write,
    }
    chains = {name: [chain(layer, n) for n in LENGTHS] for name, layer in layers.items()}
    times = {
        name: [milliseconds(each, torch.randn(1, n, D_MODEL), tries) for n in LENGTHS]
        for name, each in layers.items()
    }
    here, control, writing = chains.values()
    titles = ("Longest chain of operations, by words", "Milliseconds, best of a few, by words")
    lengths = {name: list(map(float, each)) for name, each in chains.items()}
    shown = [
        {name.split(",")[0].split(" (")[0]: each[name] for name in layers}
        for each in (lengths, times)
    ]
    return conclude(
        judge(control[-1] > control[0], here[-1] == here[0]),
        f"With the words given, as in training, self-attention is a chain of {here[0]} operations "
        f"at length {LENGTHS[0]} and {here[-1]} at {LENGTHS[-1]}. When it writes, each word "
        f"depends on the one before, and the chain grows to {writing[-1]}: the paper's claim is "
        "about reading and training.",
        f"The RNN's chain grows with the words: {control[0]} to {control[-1]}.",
        ("layer", *(f"chain at {n}" for n in LENGTHS), *(f"ms at {n}" for n in LENGTHS)),
        [(name, *lengths[name], *times[name]) for name in layers],
        *[
            lines(title, LENGTHS, values, is_log=True)
            for title, values in zip(titles, shown, strict=True)
        ],
    )


def word_by_word(layer: nn.Module, x: Tensor) -> Tensor:
    """Make each word from the layer's last output, as in generating text."""
    written = x[:, :1]
    for _ in range(x.shape[1] - 1):
        written = torch.cat((written, layer(written)[:, -1:]), dim=1)
    return written


def chain(layer: Callable[[Tensor], Tensor], n: int) -> int:
    """Return the longest chain of operations in PyTorch's autograd graph."""
    x = torch.randn(1, n, D_MODEL, requires_grad=True)
    depth: dict[Any, int] = {}
    stack: list[Any] = [layer(x)[:, -1].sum().grad_fn]
    while stack:
        node = stack[-1]
        parents = [parent for parent, _ in node.next_functions if parent is not None]
        waiting = [parent for parent in parents if parent not in depth]
        if waiting:
            stack += waiting
        else:
            depth[stack.pop()] = 1 + max((depth[parent] for parent in parents), default=0)
    return max(depth.values())
