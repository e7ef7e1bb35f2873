"""Self-attention ignores the order of its inputs; positions provide it."""

import copy

import torch
from torch import Tensor

from transduce.claims.claim import SHOWN, Result, bars, conclude, judge
from transduce.claims.lab import Lab, grammar_pairs
from transduce.inspection.record import remove_positions
from transduce.model import Transformer

# Differences relative to the largest number: of equal vectors in double precision, and of others.
SAME = 1e-9
OTHER = 1e-2


def run(
    lab: Lab, *, order_counts: bool = False, control_knows_order: bool = True, n_sentences: int = 20
) -> Result:
    """Shuffle the tokens of sentences and compare the encoder's vectors, put back in order."""
    rows = []
    for what, has_positions in (
        ("without positions", order_counts),
        ("with positions (control)", control_knows_order),
    ):
        model = copy.deepcopy(lab.translator.model).double()
        if not has_positions:
            remove_positions(model)
        rows.append((what, *differences(lab, model, n_sentences)))
    (_, without, size), (_, with_them, _) = rows
    verdict = judge(with_them > OTHER * size, without < SAME * size)
    if verdict == SHOWN:
        says = (
            f"Without positions, {n_sentences} shuffled sentences gave the same vectors as before, "
            f"only in another order: the largest difference is {without:.1e}, while the numbers "
            f"themselves go up to {size:.1f}."
        )
    else:
        says = (
            f"The largest difference without positions is {without:.1e}, with them {with_them:.1e}."
        )
    return conclude(
        verdict,
        says,
        f"With positions the same shuffling changes the vectors by up to {with_them:.2g}.",
        ("encoder", "largest difference after shuffling", "largest number"),
        rows,
        bars("Largest difference after shuffling", ["without", "with"], {"": [without, with_them]}),
    )


def differences(lab: Lab, model: Transformer, n_sentences: int) -> tuple[float, float]:
    """Return the largest difference after shuffling, and the largest number in the vectors."""
    worst = size = 0.0
    generator = torch.Generator().manual_seed(1)
    for pair in grammar_pairs(n_sentences):
        ids = torch.tensor([lab.translator.source_vocabulary.encode(pair.source)])
        order = torch.randperm(ids.shape[1], generator=generator)
        plain, shuffled = encode(model, ids), encode(model, ids[:, order])
        worst = max(worst, float((plain[:, order] - shuffled).abs().max()))
        size = max(size, float(plain.abs().max()))
    return worst, size


def encode(model: Transformer, ids: Tensor) -> Tensor:
    """Return the encoder's vectors."""
    with torch.inference_mode():
        return model.encode(ids, torch.ones_like(ids, dtype=torch.bool))
