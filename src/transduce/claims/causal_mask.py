"""The causal mask leaks nothing: no position of the decoder depends on a later one."""

import torch
from torch import Tensor

from transduce.claims.claim import Result, bars, conclude, judge
from transduce.claims.lab import Lab
from transduce.inspection.record import instrument
from transduce.model import Transformer
from transduce.model.weights import shared_copy

LENGTH = 12
MIN_LEAK = 1e-3  # a control without mask must leak at least this much


def run(lab: Lab, *, mask: bool = True, control_mask: bool = False) -> Result:
    """Replace each target token in turn; measure the change of earlier logits, and gradients."""
    change, gradient, by_position = measure_leaks(lab.translator.model, mask)
    control_change, control_gradient, control_by_position = measure_leaks(
        lab.translator.model, control_mask
    )
    return conclude(
        judge(min(control_change, control_gradient) > MIN_LEAK, change == gradient == 0),
        f"Another token at any of {LENGTH - 1} positions changes the logits before it by "
        f"{change:.2g}{', exactly nothing' if change == 0 else ''}, and the gradient from an "
        f"earlier output to it is {gradient:.2g}.",
        f"Without the mask the same change is visible: {control_change:.2g} in the logits, "
        f"gradient {control_gradient:.2g}.",
        (
            "decoder",
            "largest change of an earlier logit",
            "largest gradient from an earlier output",
        ),
        [
            ("with the mask", change, gradient),
            ("without it (control)", control_change, control_gradient),
        ],
        bars(
            "Largest change of earlier logits, by the position of the replaced token",
            range(1, LENGTH),
            {"with the mask": by_position, "without": control_by_position},
        ),
    )


def measure_leaks(model: Transformer, has_mask: bool) -> tuple[float, float, list[float]]:
    """Measure the influence of later positions on earlier outputs.

    Return the largest change of an earlier logit, the largest gradient, and the largest change for
    each replaced position.
    """
    model = shared_copy(model)
    instrument(model, [] if has_mask else [{"op": "no_mask"}], None)
    random = torch.Generator().manual_seed(1)
    n_tokens = len(model.logit_weight)
    source, target = (torch.randint(4, n_tokens, (1, LENGTH), generator=random) for _ in range(2))
    read: list[Tensor] = []

    def keep(module: torch.nn.Module, given: object, out: Tensor) -> Tensor:
        read.append(out.detach().requires_grad_())
        return read[-1]

    cache = model.start(source, torch.ones_like(source, dtype=torch.bool))
    handle = model.target_embedding.register_forward_hook(keep)
    hidden, _ = model.decode(target, cache)
    handle.remove()
    # A random projection: the sum of a LayerNorm's outputs has hardly any gradient.
    direction = torch.randn(hidden.shape[-1], generator=random)
    gradient = 0.0
    for i in range(LENGTH - 1):
        (from_output,) = torch.autograd.grad(
            (hidden[0, i] * direction).sum(), read[0], retain_graph=True
        )
        gradient = max(gradient, float(from_output[0, i + 1 :].abs().max()))
    by_position = []
    with torch.inference_mode():
        for j in range(1, LENGTH):
            other = target.clone()
            other[0, j] = 4 + (target[0, j] - 3) % (n_tokens - 4)
            changed = model.logits(model.decode(other, cache)[0]) - model.logits(
                model.decode(target, cache)[0]
            )
            by_position.append(float(changed[0, :j].abs().max()))
    return max(by_position), gradient, by_position
