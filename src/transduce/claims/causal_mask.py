"""The mask of the decoder leaks nothing: no position depends on a later one."""

import torch
from torch import Tensor

from transduce.claims.claim import Result, bars, conclude, judge
from transduce.claims.lab import Lab
from transduce.inspection.record import instrument
from transduce.model import Transformer
from transduce.model.weights import shared_copy

LENGTH = 12
SEEN = 1e-3  # what the control must see at least


def run(lab: Lab, *, mask: bool = True, control_mask: bool = False) -> Result:
    """Exchange each target token in turn; compare the logits before it, and the gradient."""
    (change, gradient, by_place), (control_change, control_gradient, control_by_place) = (
        measure_leaks(lab.translator.model, has_mask) for has_mask in (mask, control_mask)
    )
    title = "Largest change of earlier logits, by the place that was exchanged"
    return conclude(
        judge(min(control_change, control_gradient) > SEEN, change == gradient == 0),
        f"Another token at any of {LENGTH - 1} places changes the logits before it by {change:.2g}"
        f"{', bit for bit nothing' if change == 0 else ''}, and the gradient from an earlier "
        f"answer to it is {gradient:.2g}.",
        f"Without the mask the same change is seen: {control_change:.2g} in the logits, gradient "
        f"{control_gradient:.2g}.",
        (
            "decoder",
            "largest change of an earlier logit",
            "largest gradient from an earlier answer",
        ),
        [
            ("with the mask", change, gradient),
            ("without it (control)", control_change, control_gradient),
        ],
        bars(title, range(1, LENGTH), {"with the mask": by_place, "without": control_by_place}),
    )


def measure_leaks(model: Transformer, has_mask: bool) -> tuple[float, float, list[float]]:
    """Measure the influence of later positions on earlier answers.

    Return the largest change of an earlier logit, the largest gradient, and the changes by
    position.
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
    direction = torch.randn(
        hidden.shape[-1], generator=random
    )  # a plain sum behind LayerNorm has hardly any gradient
    gradient = 0.0
    for i in range(LENGTH - 1):
        (towards,) = torch.autograd.grad(
            (hidden[0, i] * direction).sum(), read[0], retain_graph=True
        )
        gradient = max(gradient, float(towards[0, i + 1 :].abs().max()))
    by_place = []
    with torch.inference_mode():
        for j in range(1, LENGTH):
            other = target.clone()
            other[0, j] = 4 + (target[0, j] - 3) % (n_tokens - 4)
            changed = model.logits(model.decode(other, cache)[0]) - model.logits(
                model.decode(target, cache)[0]
            )
            by_place.append(float(changed[0, :j].abs().max()))
    return max(by_place), gradient, by_place
