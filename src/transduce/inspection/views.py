"""Views of a trace for the terminal. Each view is a function from a trace to matrices and lists.

Titles count layers, heads and steps from 1. `Selection` and tensor names count layers and heads
from 0.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from transduce.errors import UsageError
from transduce.inspection.terminal import Element, Grid, Listing, percent
from transduce.inspection.trace import Trace

N_CANDIDATES = 3


@dataclass(frozen=True, slots=True)
class Selection:
    """The part of a trace to show; None means all, or a default that depends on the view."""

    layer: int | None = None
    head: int | None = None
    step: int | None = None
    kind: str | None = None


DEFAULT = Selection()


def matrix(tensor: Tensor) -> list[list[float]]:
    """Return the numbers of a tensor, rounded to six decimals."""
    return [[round(x, 6) for x in row] for row in tensor.float().tolist()]


def tokens(trace: Trace, selection: Selection) -> list[Element]:
    """Show the tokens of both sides with ids and words, and similar tokens of the source."""
    parts: list[Element] = []
    for side in [name for name in ("source", "target") if name in trace.meta]:
        described = trace.meta[side]
        names = ["position", "token", "id", "word"]
        columns = [described["pieces"], described["ids"], described["words"]]
        if "near" in described:
            names.append("similar, by cosine")
            columns.append(described["near"])
        rows = [[i, *row] for i, row in enumerate(zip(*columns, strict=True))]
        parts.append(Listing(f"{side}: {described['text']}", names, rows))
    return parts


def positions(trace: Trace, selection: Selection) -> list[Element]:
    """Show the positional encodings (section 3.5)."""
    side, name = ("source", "src.pos") if "source" in trace.meta else ("target", "tgt.pos")
    values = matrix(trace[name])
    columns = [str(i) for i in range(len(values[0]))]
    return [
        Grid(
            f"{name} [{len(values)}, {len(columns)}]",
            trace.meta[side]["pieces"],
            columns,
            values,
            is_small=True,
        )
    ]


def heads(trace: Trace, selection: Selection) -> list[Element]:
    """Show the attention weights of all heads of all layers."""
    at, rows, columns = selected_attention(trace, selection)
    what = f"{name_of(at).partition(', ')[2]}, in tenths"
    found: list[Element] = [
        Listing(what, ["rows", "columns"], [[", ".join(rows), " ".join(columns)]])
    ]
    stack = selected_stack(trace, selection)
    for layer in range(stack["n_layers"]) if selection.layer is None else [selection.layer]:
        at, _, columns = selected_attention(trace, Selection(layer, kind=selection.kind))
        numbers = range(stack["n_heads"]) if selection.head is None else [selection.head]
        each = {
            f"layer {layer + 1} head {h + 1}": matrix(trace[f"{at}.weights"][h]) for h in numbers
        }
        found += [Grid(name, (), columns, values, is_small=True) for name, values in each.items()]
    return found


def scores(trace: Trace, selection: Selection) -> list[Element]:
    """Show each stage of Eq. 1 for one head."""
    at, rows, columns = selected_attention(trace, selection)
    h = selection.head or 0
    names = {
        "raw": "Q K^T",
        "scaled": "/ sqrt(d_k)",
        "masked": "masked",
        "weights": "softmax, in hundredths",
    }
    stages: list[Element] = [
        Grid(
            f"{name_of(at, h)}: {what} ({at}.{name}[{h}])",
            rows,
            columns,
            matrix(trace[f"{at}.{name}"][h]),
        )
        for name, what in names.items()
    ]
    values = matrix(trace[f"{at}.heads"][h])
    dimensions = [str(i) for i in range(len(values[0]))]
    mixed = f"{name_of(at, h)}: weights times V ({at}.heads[{h}])"
    return [*stages, Grid(mixed, rows, dimensions, values, is_small=True)]


def alignment(trace: Trace, selection: Selection) -> list[Element]:
    """Show three measures of how each written token depends on the source."""
    if "source" not in trace.meta:
        raise UsageError("a language model has no source; alignment needs a translation model")
    titles = {
        "attention": "cross-attention, mean of the heads, in hundredths",
        "occlusion": "log-probability lost when a source token is hidden",
        "gradient": "gradient x input",
    }
    columns = trace.meta["source"]["pieces"]
    return [
        Grid(f"{what} (align.{name})", written(trace), columns, matrix(trace[f"align.{name}"]))
        for name, what in titles.items()
    ]


def probs(trace: Trace, selection: Selection) -> list[Element]:
    """Show the most probable tokens of one step, or of each."""
    names = ["token", "id", "logit", "probability"]
    tops = [
        [[name, i, logit, probability] for i, name, logit, probability in step["top"]]
        for step in trace.meta["steps"]
    ]
    return [
        Listing(f"step {t + 1}: {token}", names, top, bar="probability")
        for t, (top, token) in enumerate(zip(tops, written(trace), strict=True))
        if selection.step in (None, t + 1)
    ]


def beam(trace: Trace, selection: Selection) -> list[Element]:
    """Show the tree of the search: each candidate below the one it continues."""
    tree = trace.meta["tree"]
    if not tree:
        raise UsageError(
            "a language model is traced without search; --view beam needs a translation model"
        )
    children: dict[int, list[int]] = {}
    for number, node in enumerate(tree):
        children.setdefault(node["parent"], []).append(number)
    fields = ["log_prob", "score", "normalised", "state"]
    rows: list[list[Any]] = []
    stack = [(number, 0) for number in reversed(children[-1])]
    while stack:
        number, depth = stack.pop()
        node = tree[number]
        rows.append(["  " * depth + node["piece"], *(node[name] for name in fields)])
        stack += [(child, depth + 1) for child in reversed(children.get(number, []))]
    return [Listing("the search: scores are log-probabilities", ["token", *fields], rows)]


def steps(trace: Trace, selection: Selection) -> list[Element]:
    """Show the tokens read, the token written and the candidates of each step."""
    read = trace.meta["target"]["pieces"]
    best = [
        [[name, probability] for _, name, _, probability in step["top"][:N_CANDIDATES]]
        for step in trace.meta["steps"]
    ]
    rows = [
        [t + 1, " ".join(read[: t + 1]), token, best[t], step["entropy"] / math.log(2)]
        for t, (step, token) in enumerate(zip(trace.meta["steps"], written(trace), strict=True))
        if selection.step in (None, t + 1)
    ]
    read_text = trace.meta.get("source", trace.meta["target"])["text"]
    title = f"{read_text} -> {trace.meta['target']['text']}"
    return [Listing(title, ["step", "read", "written", "candidates", "bits"], rows)]


def layers(trace: Trace, selection: Selection) -> list[Element]:
    """Show the prediction if the decoder ended after each layer."""
    vocabulary, n_layers = trace.meta["vocabulary"], selected_stack(trace)["n_layers"]
    best = [trace[f"lens.{i}"].float().softmax(dim=-1).max(dim=-1) for i in range(n_layers)]
    rows = [
        [
            t + 1,
            token,
            *([[vocabulary[int(each.indices[t])], float(each.values[t])]] for each in best),
        ]
        for t, token in enumerate(written(trace))
        if selection.step in (None, t + 1)
    ]
    return [
        Listing(
            "layer by layer",
            ["step", "written", *(f"layer {i + 1}" for i in range(n_layers))],
            rows,
        )
    ]


def why(trace: Trace, selection: Selection) -> list[Element]:
    """Explain each written token by attention, occlusion and probability."""
    rows = [
        [t + 1, _reason(trace, t, token)]
        for t, token in enumerate(written(trace))
        if selection.step in (None, t + 1)
    ]
    return [Listing("why", ["step", "because"], rows)]


def _reason(trace: Trace, t: int, token: str) -> str:
    parts = []
    if "source" in trace.meta:
        source = trace.meta["source"]["pieces"]
        attention, loss = trace["align.attention"][t], trace["align.occlusion"][t]
        factor = float(f"{loss.max().exp():.2g}")
        digits = 0 if factor >= 10 else 1
        parts.append(
            f'it looked {percent(float(attention.max()))} at "{source[attention.argmax()]}"'
        )
        parts.append(
            f'hiding "{source[loss.argmax()]}" makes "{token}" '
            f"{factor:,.{digits}f} times less likely"
        )

    probs = trace["probs"][t]
    chosen = trace.meta["steps"][t]["chosen"]
    other = next(i for i in probs.topk(2).indices.tolist() if i != chosen)
    parts.append(
        f'"{token}" got {percent(float(probs[chosen]))}, '
        f'"{trace.meta["vocabulary"][other]}" {percent(float(probs[other]))}'
    )
    return "; ".join(parts)


def written(trace: Trace) -> list[str]:
    """Return the token written at each step."""
    return [trace.meta["vocabulary"][step["chosen"]] for step in trace.meta["steps"]]


def selected_stack(trace: Trace, selection: Selection = DEFAULT) -> dict[str, Any]:
    """Return the sizes of the stack that the selected attention is part of."""
    model: dict[str, Any] = trace.meta["model"]
    is_encoder = selection.kind == "enc"
    return model if is_encoder else model.get("decoder", model)  # older traces have equal stacks


def selected_attention(trace: Trace, selection: Selection) -> tuple[str, list[str], list[str]]:
    """Return the name of the selected attention, and the labels of its queries and keys."""
    kind = selection.kind or ("cross" if "source" in trace.meta else "self")
    if "source" not in trace.meta and kind != "self":
        raise UsageError(
            f"--kind {kind}: a language model has only self-attention; use --kind self"
        )
    layer = selection.layer
    if layer is None:
        n_layers = selected_stack(trace, selection)["n_layers"]
        layer = trace.meta["model"]["alignment_layer"] if kind == "cross" else n_layers - 1
    queries = trace.meta["source" if kind == "enc" else "target"]["pieces"]
    if kind != "enc":
        queries = [
            f"{read} -> {token}" for read, token in zip(queries, written(trace), strict=True)
        ]
    keys = trace.meta["target" if kind == "self" else "source"]["pieces"]
    return (f"enc.{layer}.self" if kind == "enc" else f"dec.{layer}.{kind}"), queries, keys


def name_of(at: str, head: int | None = None) -> str:
    """Return the name of an attention or head: "decoder layer 2, cross-attention, head 3"."""
    stack, layer, kind = at.split(".")
    stack_name = {"enc": "encoder", "dec": "decoder"}[stack]
    masked = "masked " if stack == "dec" and kind == "self" else ""
    name = f"{stack_name} layer {int(layer) + 1}, {masked}{kind}-attention"
    return name if head is None else f"{name}, head {head + 1}"


View = Callable[[Trace, Selection], list[Element]]
VIEWS: dict[str, View] = {
    "tokens": tokens,
    "positions": positions,
    "heads": heads,
    "scores": scores,
    "alignment": alignment,
    "probs": probs,
    "beam": beam,
    "steps": steps,
    "layers": layers,
    "why": why,
}


def build_view(trace: Trace, view: str, selection: Selection) -> list[Element]:
    """Return the elements of a view; raise UsageError if the selection is out of range."""
    stack = selected_stack(trace, selection)
    counts = {
        "layer": (0, stack["n_layers"]),
        "head": (0, stack["n_heads"]),
        "step": (1, len(trace.meta["steps"])),
    }
    for name, (first, n) in counts.items():
        given = getattr(selection, name)
        if given is not None and not first <= given < first + n:
            raise UsageError(
                f"--{name} {given} is out of range; expected {first} to {first + n - 1}"
            )
    return VIEWS[view](trace, selection)
