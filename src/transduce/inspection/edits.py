"""Interventions: what if a head were mute, attention were elsewhere, positions, scaling or mask were missing?

An edit is a small JSON object, the same for Python, the command line, the server and the page:
    {"op": "mute", "at": "dec.1.cross", "head": 0}                      the head writes zeros
    {"op": "row", "at": "dec.1.cross", "head": 0, "row": 2, "values": [...]}   the weights of one query, one for each key
    {"op": "no_positions"}  {"op": "no_scale"}  {"op": "no_mask"}       without section 3.5, 1/sqrt(d_k), or the causal mask
    {"op": "replace", "word": 2, "with": "girl"}                        another word in the source
    {"op": "force", "step": 2, "piece": 17}                             another piece in the target; the rest is searched anew
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from transduce.errors import UsageError

Edit = Mapping[str, Any]
FIELDS: dict[str, dict[str, type]] = {
    "mute": {"at": str, "head": int},
    "row": {"at": str, "head": int, "row": int, "values": list},
    "no_positions": {},
    "no_scale": {},
    "no_mask": {},
    "replace": {"word": int, "with": str},
    "force": {"step": int, "piece": int},
}


MAX_EDITS = 32
MAX_KEYS = 129


def parse_edits(values: Sequence[Any]) -> list[Edit]:
    """Edits out of JSON."""
    for value in values:
        if not isinstance(value, dict):
            raise UsageError(f'an edit is an object like {{"op": "no_mask"}}, not {value!r}')
    return list(values)


def check_edits(edits: Sequence[Edit], places: Mapping[str, int], vocab_size: int) -> None:
    """Refuse what cannot be done; `places` are the attentions of the model with their number of heads."""
    if len(edits) > MAX_EDITS:
        raise UsageError(f"{len(edits)} edits, at most {MAX_EDITS} are made together")
    for edit in edits:
        wanted = FIELDS.get(str(edit.get("op")))
        if wanted is None:
            raise UsageError(f"unknown edit {edit.get('op')!r}; known: {', '.join(FIELDS)}")
        for name, kind in wanted.items():
            if type(edit.get(name)) is not kind:
                raise UsageError(
                    f"edit {edit['op']!r}: {name} is {edit.get(name)!r}, wanted {kind.__name__}"
                )
        if set(edit) - set(wanted) - {"op"}:
            raise UsageError(
                f"edit {edit['op']!r} has no {sorted(set(edit) - set(wanted) - {'op'})[0]!r}"
            )
        if "at" in wanted and edit["at"] not in places:
            raise UsageError(
                f"no attention {edit['at']!r} in this model; there are {', '.join(places)}"
            )
        if "at" in wanted and not 0 <= edit["head"] < places[edit["at"]]:
            raise UsageError(
                f"{edit['at']} has heads 0 to {places[edit['at']] - 1}, not {edit['head']}"
            )
        if edit["op"] == "force" and not (edit["step"] >= 0 and 0 <= edit["piece"] < vocab_size):
            raise UsageError(
                f"edit 'force': step {edit['step']}, piece {edit['piece']}: no such step or piece"
            )
        if edit["op"] == "row" and len(edit["values"]) > MAX_KEYS:
            raise UsageError(
                f"edit 'row': {len(edit['values'])} values, there are never more than {MAX_KEYS} keys"
            )
        if edit["op"] == "row" and not all(
            type(x) in (int, float) and math.isfinite(x) for x in edit["values"]
        ):
            raise UsageError("edit 'row': values must be finite numbers, one for each key")


def check_rows(edits: Sequence[Edit], lengths: Mapping[str, int]) -> None:
    """Refuse rows that are not there, once it is known how long both sides are."""
    for edit in edits:
        if edit["op"] == "row":
            n_rows = lengths["src" if edit["at"].startswith("enc") else "tgt"]
            n_keys = lengths["tgt" if is_causal(edit["at"]) else "src"]
            if not 0 <= edit["row"] < n_rows:
                raise UsageError(
                    f"edit 'row': {edit['at']} has rows 0 to {n_rows - 1}, not {edit['row']}"
                )
            if len(edit["values"]) != n_keys and not is_causal(edit["at"]):
                raise UsageError(
                    f"edit 'row': {len(edit['values'])} values, {edit['at']} has {n_keys} keys"
                )


def is_causal(at: str) -> bool:
    """Whether an attention looks at what has been written, and not ahead."""
    return at.startswith("dec") and at.endswith(".self")


def replace_words(text: str, edits: Sequence[Edit]) -> str:
    """The text with words exchanged."""
    words = text.split()
    for edit in edits:
        if edit["op"] == "replace":
            if not 0 <= edit["word"] < len(words):
                raise UsageError(
                    f"edit 'replace': there is no word {edit['word']}, the text has {len(words)}"
                )
            words[edit["word"]] = edit["with"]
    return " ".join(words) if any(edit["op"] == "replace" for edit in edits) else text


def edited_attention(
    at: str, edits: Sequence[Edit], record: Callable[[str, Tensor], None] | None = None
) -> Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]:
    """Eq. 1 spelled out, with the edits of one attention; what it computes is recorded under `at`."""
    mine = [edit for edit in edits if edit.get("at") == at]
    is_scaled = all(edit["op"] != "no_scale" for edit in edits)
    is_masked = not is_causal(at) or all(edit["op"] != "no_mask" for edit in edits)

    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        raw = q @ k.transpose(-2, -1)
        scores = raw / math.sqrt(q.shape[-1]) if is_scaled else raw
        if mask is not None and is_masked:
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        for edit in mine:
            if (
                edit["op"] == "row" and 0 <= edit["row"] < weights.shape[2]
            ):  # a search has not written all rows yet
                values = torch.zeros(weights.shape[3])  # nor all keys
                given = torch.tensor(edit["values"][: len(values)], dtype=values.dtype)
                values[: len(given)] = given
                weights = weights.clone()  # softmax needs its own for the gradient
                weights[:, edit["head"], edit["row"]] = values
        heads = weights @ v
        for edit in mine:
            if edit["op"] == "mute":
                heads[:, edit["head"]] = 0
        if record is not None:
            for name, value in {
                "q": q,
                "k": k,
                "v": v,
                "raw": raw,
                "weights": weights,
                "heads": heads,
            }.items():
                record(f"{at}.{name}", value[0])
        return heads

    return attend
