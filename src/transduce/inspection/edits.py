"""Edits: interventions in a model or its input, to see what changes.

An edit is a small JSON object, the same in Python, the command line, the server and the page:

    {"op": "mute", "at": "dec.1.cross", "head": 0}
        The output of the head is zero.
    {"op": "row", "at": "dec.1.cross", "head": 0, "row": 2, "values": [...]}
        The attention weights of one query are these values, one for each key.
    {"op": "no_positions"}, {"op": "no_scale"}, {"op": "no_mask"}
        No positional encodings (section 3.5), no factor 1/sqrt(d_k), no causal mask.
    {"op": "replace", "word": 2, "with": "girl"}
        Another word in the source.
    {"op": "force", "step": 2, "piece": 17}
        Another token id in the target; the search continues after it.
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
MAX_WEIGHT = 1_000_000  # a larger attention weight makes the numbers after it infinite
MAX_KEYS = 129  # the longest side of a trace, and [SOS] or [EOS]


def parse_edits(values: Sequence[Any]) -> list[Edit]:
    """Check that parsed JSON values are objects, and return them as edits."""
    for value in values:
        if not isinstance(value, dict):
            raise UsageError(
                f'edit {value!r} is not an object; expected one such as {{"op": "no_mask"}}'
            )
    return list(values)


def check_edits(edits: Sequence[Edit], n_heads: Mapping[str, int], vocab_size: int) -> None:
    """Raise UsageError for edits that this model does not support.

    `n_heads` is the number of heads of each attention of the model, by name.
    """
    if len(edits) > MAX_EDITS:
        raise UsageError(f"{len(edits)} edits; combine at most {MAX_EDITS}")
    for edit in edits:
        fields = FIELDS.get(str(edit.get("op")))
        if fields is None:
            raise UsageError(f"unknown edit {edit.get('op')!r}; known: {', '.join(FIELDS)}")
        for name, kind in fields.items():
            if type(edit.get(name)) is not kind:
                raise UsageError(
                    f"edit {edit['op']!r}: {name} is {edit.get(name)!r}, expected {kind.__name__}"
                )
        unknown = sorted(set(edit) - set(fields) - {"op"})
        if unknown:
            raise UsageError(f"edit {edit['op']!r} has no field {unknown[0]!r}; remove it")
        if "at" in fields and edit["at"] not in n_heads:
            raise UsageError(
                f"no attention {edit['at']!r} in this model; known: {', '.join(n_heads)}"
            )
        if "at" in fields and not 0 <= edit["head"] < n_heads[edit["at"]]:
            raise UsageError(
                f"edit {edit['op']!r}: no head {edit['head']}; "
                f"{edit['at']} has heads 0 to {n_heads[edit['at']] - 1}"
            )
        if edit["op"] == "force" and not (edit["step"] >= 0 and 0 <= edit["piece"] < vocab_size):
            raise UsageError(
                f"edit 'force': no step {edit['step']} or no token {edit['piece']}; expected "
                f"a step from 0, and a token id from 0 to {vocab_size - 1}"
            )
        if edit["op"] == "row" and len(edit["values"]) > MAX_KEYS:
            raise UsageError(
                f"edit 'row': {len(edit['values'])} values; there are at most {MAX_KEYS} keys"
            )
        if edit["op"] == "row" and not all(_is_weight(x) for x in edit["values"]):
            raise UsageError(
                "edit 'row': values must be finite numbers, one for each key, "
                f"of at most {MAX_WEIGHT:,}"
            )


def _is_weight(value: Any) -> bool:
    """Return whether a value is a number that can stand for an attention weight."""
    return type(value) in (int, float) and abs(value) <= MAX_WEIGHT


def check_rows(edits: Sequence[Edit], lengths: Mapping[str, int]) -> None:
    """Raise UsageError for "row" edits that do not fit the lengths of source and target."""
    for edit in edits:
        if edit["op"] == "row":
            n_rows = lengths["src" if edit["at"].startswith("enc") else "tgt"]
            n_keys = lengths["tgt" if is_causal(edit["at"]) else "src"]
            if not 0 <= edit["row"] < n_rows:
                raise UsageError(
                    f"edit 'row': no row {edit['row']}; {edit['at']} has rows 0 to {n_rows - 1}"
                )
            if len(edit["values"]) != n_keys and not is_causal(edit["at"]):
                raise UsageError(
                    f"edit 'row': {len(edit['values'])} values, but {edit['at']} has "
                    f"{n_keys} keys; give one value for each key"
                )


def is_causal(at: str) -> bool:
    """Return whether an attention is the masked self-attention of the decoder."""
    return at.startswith("dec") and at.endswith(".self")


def replace_words(text: str, edits: Sequence[Edit]) -> str:
    """Return the text with the words of all "replace" edits replaced."""
    words = text.split()
    for edit in edits:
        if edit["op"] == "replace":
            if not 0 <= edit["word"] < len(words):
                raise UsageError(
                    f"edit 'replace': no word {edit['word']}; the text has {len(words)} words"
                )
            words[edit["word"]] = edit["with"]
    return " ".join(words) if any(edit["op"] == "replace" for edit in edits) else text


def edited_attention(
    at: str, edits: Sequence[Edit], record: Callable[[str, Tensor], None] | None = None
) -> Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]:
    """Return Eq. 1 spelled out, as a function that applies the edits of the attention `at`.

    `record` receives each intermediate tensor under its name, such as "dec.1.cross.weights".
    """
    own_edits = [edit for edit in edits if edit.get("at") == at]
    is_scaled = all(edit["op"] != "no_scale" for edit in edits)
    is_masked = not is_causal(at) or all(edit["op"] != "no_mask" for edit in edits)

    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        raw = q @ k.transpose(-2, -1)
        scores = raw / math.sqrt(q.shape[-1]) if is_scaled else raw
        if mask is not None and is_masked:
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        for edit in own_edits:
            # During search not all rows and keys exist yet.
            if edit["op"] == "row" and 0 <= edit["row"] < weights.shape[2]:
                values = torch.zeros(weights.shape[3])
                given = torch.tensor(edit["values"][: len(values)], dtype=values.dtype)
                values[: len(given)] = given
                weights = weights.clone()  # the gradient of softmax needs its own output
                weights[:, edit["head"], edit["row"]] = values
        heads = weights @ v
        for edit in own_edits:
            if edit["op"] == "mute":
                heads[:, edit["head"]] = 0
        if record is not None:
            values_by_name = {
                "q": q,
                "k": k,
                "v": v,
                "raw": raw,
                "weights": weights,
                "heads": heads,
            }
            for name, value in values_by_name.items():
                record(f"{at}.{name}", value[0])
        return heads

    return attend
