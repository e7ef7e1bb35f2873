"""Sinusoids encode relative position: a shift is a linear map, the same everywhere."""

import torch
from torch import Tensor

from transduce.claims.claim import Result, conclude, judge, lines
from transduce.claims.lab import Lab
from transduce.model.positions import sinusoids

D_MODEL, N_POSITIONS = 64, 512
SHIFTS = (1, 2, 5, 10, 20, 50)
EXACT, ROUGH = 1e-3, 0.1  # relative errors of a linear map that exists, and of one that does not


def run(lab: Lab, *, table: str = "sinusoids", control_table: str = "random") -> Result:
    """Fit one matrix M with PE(p + k) = M PE(p) for each shift k; test it on other positions."""
    here, control = positions(table), positions(control_table)
    fits, control_fits = ([misfit(each, k) for k in SHIFTS] for each in (here, control))
    (products, spread), (control_products, _) = by_distance(here), by_distance(control)
    is_linear = max(fits) < EXACT
    falls = products[1] > products[20] > products[100]
    depends_on_distance = spread < EXACT and falls
    distances = range(0, 120, 4)
    shown = {
        "sinusoids": [products[k] for k in distances],
        "random vectors": [control_products[k] for k in distances],
    }
    return conclude(
        judge(min(control_fits) > ROUGH, is_linear and depends_on_distance),
        f"One matrix shifts every position by {SHIFTS[-1]} with a relative error of "
        f"{fits[-1]:.0e}. The dot product of two positions depends on their distance alone "
        f"(spread {spread:.0e}) and falls: {products[0]:.0f}, {products[1]:.1f}, "
        f"{products[10]:.1f}, {products[100]:.1f} at distances 0, 1, 10, 100.",
        "For random vectors no such matrix exists: the relative error is at least "
        f"{min(control_fits):.2f}.",
        ("shift k", "relative error, sinusoids", "relative error, random vectors (control)"),
        [(str(k), *errors) for k, *errors in zip(SHIFTS, fits, control_fits, strict=True)],
        lines("Dot product of two positions, by distance", distances, shown),
    )


def positions(table: str) -> Tensor:
    """Return the vectors of all positions; random ones have the same mean length as sinusoids."""
    if table == "sinusoids":
        return sinusoids(0, N_POSITIONS, D_MODEL, torch.device("cpu")).double()
    random = torch.Generator().manual_seed(1)
    return torch.randn(N_POSITIONS, D_MODEL, generator=random).double() / 2**0.5


def misfit(table: Tensor, shift: int) -> float:
    """Return the relative error of the best linear map for a shift, on held-out positions.

    The map is fitted on the even positions and tested on the odd ones.
    """
    before, after = table[:-shift], table[shift:]
    is_even = torch.arange(len(before)) % 2 == 0
    best = torch.linalg.lstsq(before[is_even], after[is_even]).solution
    error = before[~is_even] @ best - after[~is_even]
    return (error.norm() / after[~is_even].norm()).item()


def by_distance(table: Tensor) -> tuple[list[float], float]:
    """Return the mean dot product of two positions by distance, and its largest spread.

    The spread is the standard deviation at one distance below 100, relative to the dot product at
    distance 0.
    """
    products = table @ table.T
    diagonals = [products.diagonal(k) for k in range(N_POSITIONS - 2)]
    spread = max(each.std().item() for each in diagonals[:100])
    return [each.mean().item() for each in diagonals], spread / products[0, 0].item()
