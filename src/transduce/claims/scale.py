"""Scores are divided by sqrt(d_k) to keep the softmax from saturating."""

import math

import torch

from transduce.claims.claim import Result, conclude, judge, lines
from transduce.claims.lab import Lab, grammar_pairs
from transduce.inspection.trace import trace

SIZES = (4, 16, 64, 256, 1024)
N_KEYS, N_DRAWS = 32, 400


def run(lab: Lab, *, scaled: bool = True, control_scaled: bool = False) -> Result:
    """Draw random queries and keys of growing size; measure the model's own heads too."""
    here, control = (
        [spread(d_k, is_scaled) for d_k in SIZES] for is_scaled in (scaled, control_scaled)
    )
    found = trace(lab.translator, grammar_pairs(1)[0].source)
    raw = [tensor.std().item() for name, tensor in found.tensors.items() if name.endswith(".raw")]
    root = math.sqrt(found.tensors["enc.0.self.q"].shape[-1])
    is_stable = all(0.8 < each[0] < 1.25 for each in here) and here[-1][2] > 0.5 * here[0][2]
    saturates = control[-1][1] > 0.9 and control[-1][2] < 0.5 * control[0][2]
    rows: list[tuple[object, ...]] = [
        (f"d_k {d_k}, {what}", *numbers)
        for what, values in (("divided", here), ("not divided (control)", control))
        for d_k, numbers in zip(SIZES, values, strict=True)
    ]
    trained = sum(raw) / len(raw) / root
    rows.append(("trained heads of the model, divided", trained, "", ""))
    spreads = {
        "divided": [deviation for deviation, _, _ in here],
        "not": [deviation for deviation, _, _ in control],
    }
    gradients = {
        "divided": [gradient for _, _, gradient in here],
        "not": [gradient for _, _, gradient in control],
    }
    return conclude(
        judge(saturates, is_stable),
        f"Divided by sqrt(d_k), scores have a standard deviation of {here[0][0]:.2f} at d_k "
        f"{SIZES[0]} and {here[-1][0]:.2f} at {SIZES[-1]}; the largest of {N_KEYS} weights is "
        f"{here[-1][1]:.2f}, and the gradient of the softmax is {here[-1][2]:.3f}. Trained heads "
        f"may spread their scores more: those of this model by {trained:.1f} after the division.",
        f"Not divided, the standard deviation is {control[-1][0]:.0f} at d_k {SIZES[-1]}: one key "
        f"gets {control[-1][1]:.0%} of the weight, and the gradient falls from "
        f"{control[0][2]:.3f} to {control[-1][2]:.4f}.",
        ("scores", "spread (standard deviation)", "largest weight", "gradient of the softmax"),
        rows,
        lines("Spread of scores, by d_k", SIZES, spreads),
        lines("Gradient of the softmax, by d_k", SIZES, gradients),
    )


def spread(d_k: int, is_scaled: bool) -> tuple[float, float, float]:
    """Draw random queries and keys; return what the softmax makes of their scores.

    Returns the standard deviation of the scores, the mean of the largest weight, and the mean norm
    of the Jacobian of the softmax.
    """
    random = torch.Generator().manual_seed(1)
    q = torch.randn(N_DRAWS, 1, d_k, generator=random)
    k = torch.randn(N_DRAWS, N_KEYS, d_k, generator=random)
    scores = (q @ k.transpose(1, 2))[:, 0] / (math.sqrt(d_k) if is_scaled else 1.0)
    weights = torch.softmax(scores, dim=-1)
    jacobian = torch.diag_embed(weights) - weights[:, :, None] * weights[:, None, :]
    largest, size = weights.amax(dim=-1), jacobian.flatten(start_dim=1).norm(dim=1)
    return scores.std().item(), largest.mean().item(), size.mean().item()
