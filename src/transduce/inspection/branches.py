"""Branches: traces of the same text under a few edits, for a page that has no model."""

import re

import torch
from torch import Tensor

from transduce.inspection.edits import Edit
from transduce.inspection.trace import Trace

REMOVALS = ("positions", "scale", "mask")
MAX_MUTED_HEADS = 4
# The tensors kept when the complete branches would make the page too large.
ESSENTIAL = re.compile(r"align\.\w+|logits|.*\.(weights|norm|x)")
MAX_COMPLETE_BYTES = 1 << 20


def make_branches(trace: Trace) -> list[Trace]:
    """Trace the text without positions, scaling or mask, and with single heads muted.

    A branch holds only the tensors that differ from `trace` in float16. The names of the equal ones
    are listed in `meta["same"]`, and the page takes those from the trace itself. If the branches
    together exceed `MAX_COMPLETE_BYTES`, only the `ESSENTIAL` tensors are kept.
    """
    branches = [_difference(trace, trace.edit(edit)) for edit in _branch_edits(trace)]
    n_bytes = sum(2 * tensor.numel() for branch in branches for tensor in branch.tensors.values())
    if n_bytes <= MAX_COMPLETE_BYTES:
        return branches
    return [_essential(branch) for branch in branches]


def _branch_edits(trace: Trace) -> list[Edit]:
    model = trace.meta["model"]
    kind = "cross" if "source" in trace.meta else "self"
    at = f"dec.{model['alignment_layer']}.{kind}"
    n_muted = min(MAX_MUTED_HEADS, len(trace[f"{at}.weights"]))
    removals: list[Edit] = [{"op": f"no_{part}"} for part in REMOVALS if trace.has(part)]
    return removals + [{"op": "mute", "at": at, "head": head} for head in range(n_muted)]


def _difference(trace: Trace, branch: Trace) -> Trace:
    changed: dict[str, Tensor] = {}
    same: list[str] = []
    for name, tensor in branch.tensors.items():
        if torch.equal(tensor.half(), trace.tensors[name].half()):
            same.append(name)
        else:
            changed[name] = tensor
    return Trace({**branch.meta, "vocabulary": None, "same": same}, changed)


def _essential(branch: Trace) -> Trace:
    same = [name for name in branch.meta["same"] if ESSENTIAL.fullmatch(name)]
    tensors = {name: tensor for name, tensor in branch.tensors.items() if ESSENTIAL.fullmatch(name)}
    return Trace({**branch.meta, "same": same}, tensors)
