"""Sinusoids encode relative position: a shift is a linear map, the same everywhere."""

import torch
from torch import Tensor

from transduce.claims.claim import Result, conclude, judge, lines
from transduce.claims.lab import Lab
from transduce.model.positions import sinusoids

D_MODEL, N_POSITIONS = 64, 512
SHIFTS = (1, 2, 5, 10, 20, 50)
EXACT, ROUGH = 1e-3, 0.1


def run(lab: Lab, *, table: str = "sinusoids", control_table: str = "random") -> Result:
    """Fit one matrix M with PE(p + k) = M PE(p) for each shift k; test it on other positions."""
    here, control = positions(table), positions(control_table)
    fits, control_fits = ([misfit(each, k) for k in SHIFTS] for each in (here, control))
    (near, scatter), (control_near, _) = by_distance(here), by_distance(control)
    is_linear, says_distance = max(fits) < EXACT, scatter < EXACT and near[1] > near[20] > near[100]
    shown = {"sinusoids": near[:120:4], "random vectors": control_near[:120:4]}
    return conclude(
        judge(min(control_fits) > ROUGH, is_linear and says_distance),
        f"One matrix moves every position by {SHIFTS[-1]} with a relative error of {fits[-1]:.0e}. "
        "The dot product of "
        f"two positions depends on their distance alone (scatter {scatter:.0e}) and falls: "
        f"{near[0]:.0f}, "
        f"{near[1]:.1f}, {near[10]:.1f}, {near[100]:.1f} at distances 0, 1, 10, 100.",
        f"For random vectors no such matrix exists: the relative error is {min(control_fits):.2f} "
        "or more.",
        ("shift k", "relative error, sinusoids", "relative error, random vectors (control)"),
        [(str(k), *errors) for k, *errors in zip(SHIFTS, fits, control_fits, strict=True)],
        lines("Dot product of two positions, by distance", range(0, 120, 4), shown),
    )


def positions(table: str) -> Tensor:
    """Return the vectors of all positions."""
    if table == "sinusoids":
        return sinusoids(0, N_POSITIONS, D_MODEL, torch.device("cpu")).double()
    return (
        torch.randn(N_POSITIONS, D_MODEL, generator=torch.Generator().manual_seed(1)).double()
        / 2**0.5
    )


def misfit(table: Tensor, shift: int) -> float:
    """Return the relative error of the best linear map for a shift, on unseen positions."""
    before, after = table[:-shift], table[shift:]
    best = torch.linalg.lstsq(before[::2], after[::2]).solution
    return ((before[1::2] @ best - after[1::2]).norm() / after[1::2].norm()).item()


def by_distance(table: Tensor) -> tuple[list[float], float]:
    """Return the mean dot product by distance, and the largest scatter at one distance.

    The scatter is relative to the product at distance 0, over distances below 100.
    """
    products = table @ table.T
    diagonals = [products.diagonal(k) for k in range(N_POSITIONS - 2)]
    scatter = max(each.std().item() for each in diagonals[:100])
    return [each.mean().item() for each in diagonals], scatter / products[0, 0].item()
