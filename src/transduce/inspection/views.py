"""What of a trace is shown in the terminal: each view is a function from a trace to matrices and lists.

For people layers, heads and time steps count from 1; in `Selection` and in names of tensors layers, heads and positions from 0.
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
    """What of a trace is wanted; what is left out is chosen, or is all of it."""

    layer: int | None = None
    head: int | None = None
    step: int | None = None
    kind: str | None = None


def matrix(tensor: Tensor) -> list[list[float]]:
    """Numbers, short enough to be read."""
    return [[round(x, 6) for x in row] for row in tensor.float().tolist()]


def tokens(trace: Trace, selection: Selection) -> list[Element]:
    """The pieces of both sides, with ids and words; of the source also what is near."""
    parts: list[Element] = []
    for side in [name for name in ("source", "target") if name in trace.meta]:
        has = trace.meta[side]
        near = has.get("near")
        rows = [
            [i, piece, number, word, *([near[i]] if near else [])]
            for i, (piece, number, word) in enumerate(
                zip(has["pieces"], has["ids"], has["words"], strict=True)
            )
        ]
        names = ["position", "piece", "id", "word", *(["near, by cosine"] if near else [])]
        parts.append(Listing(f"{side}: {has['text']}", names, rows))
    return parts


def positions(trace: Trace, selection: Selection) -> list[Element]:
    """The positional encodings (section 3.5)."""
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
    """The weights of all heads, of all layers, at a glance."""
    model = trace.meta["model"]
    at, rows, columns = place(trace, selection)
    what = f"{name_of(at).partition(', ')[2]}, in tenths"
    found: list[Element] = [
        Listing(what, ["rows", "columns"], [[", ".join(rows), " ".join(columns)]])
    ]
    for layer in range(model["n_layers"]) if selection.layer is None else [selection.layer]:
        at, _, columns = place(trace, Selection(layer, kind=selection.kind))
        numbers = range(model["n_heads"]) if selection.head is None else [selection.head]
        each = {
            f"layer {layer + 1} head {h + 1}": matrix(trace[f"{at}.weights"][h]) for h in numbers
        }
        found += [Grid(name, (), columns, values, is_small=True) for name, values in each.items()]
    return found


def scores(trace: Trace, selection: Selection) -> list[Element]:
    """Eq. 1 of one head, stage by stage."""
    at, rows, columns = place(trace, selection)
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
    """Three answers to the question where it looked, for each piece written."""
    if "source" not in trace.meta:
        raise UsageError("a language model has no source: there is nothing to align with")
    said = {
        "attention": "cross-attention, mean of the heads, in hundredths",
        "occlusion": "log-probability lost when a source piece is hidden",
        "gradient": "gradient x input",
    }
    columns = trace.meta["source"]["pieces"]
    return [
        Grid(f"{what} (align.{name})", written(trace), columns, matrix(trace[f"align.{name}"]))
        for name, what in said.items()
    ]


def probs(trace: Trace, selection: Selection) -> list[Element]:
    """The likeliest pieces of a time step, or of each."""
    names = ["piece", "id", "logit", "probability"]
    tops = [[[p, i, logit, x] for i, p, logit, x in step["top"]] for step in trace.meta["steps"]]
    return [
        Listing(f"step {t + 1}: {piece}", names, top, bar="probability")
        for t, (top, piece) in enumerate(zip(tops, written(trace), strict=True))
        if selection.step in (None, t + 1)
    ]


def beam(trace: Trace, selection: Selection) -> list[Element]:
    """The tree of the search: each candidate below the one it continues."""
    tree = trace.meta["tree"]
    if not tree:
        raise UsageError("a language model searches nothing: there is no beam")
    below: dict[int, list[int]] = {}
    for number, node in enumerate(tree):
        below.setdefault(node["parent"], []).append(number)
    names = ["piece", "log_prob", "score", "normalised", "state"]
    rows: list[list[Any]] = []
    stack = [(number, 0) for number in reversed(below[-1])]
    while stack:
        number, depth = stack.pop()
        node = tree[number]
        rows.append(["  " * depth + node["piece"], *(node[name] for name in names[1:])])
        stack += [(child, depth + 1) for child in reversed(below.get(number, []))]
    return [Listing("the search: scores are log-probabilities", names, rows)]


def steps(trace: Trace, selection: Selection) -> list[Element]:
    """What was read, written and thought of at each time step."""
    read = trace.meta["target"]["pieces"]
    best = [[[p, x] for _, p, _, x in step["top"][:N_CANDIDATES]] for step in trace.meta["steps"]]
    rows = [
        [t + 1, " ".join(read[: t + 1]), piece, best[t], step["entropy"] / math.log(2)]
        for t, (step, piece) in enumerate(zip(trace.meta["steps"], written(trace), strict=True))
        if selection.step in (None, t + 1)
    ]
    title = f"{trace.meta.get('source', trace.meta['target'])['text']} -> {trace.meta['target']['text']}"
    return [Listing(title, ["step", "read", "written", "candidates", "bits"], rows)]


def layers(trace: Trace, selection: Selection) -> list[Element]:
    """What would be written if the decoder ended after each layer."""
    vocabulary, n_layers = trace.meta["vocabulary"], trace.meta["model"]["n_layers"]
    best = [trace[f"lens.{i}"].float().softmax(dim=-1).max(dim=-1) for i in range(n_layers)]
    rows = [
        [
            t + 1,
            piece,
            *([[vocabulary[int(each.indices[t])], float(each.values[t])]] for each in best),
        ]
        for t, piece in enumerate(written(trace))
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
    """Why each piece was written, in words made of the numbers."""
    rows = []
    for t, piece in enumerate(written(trace)):
        probs, line = trace["probs"][t], ""
        mine = trace.meta["steps"][t]["chosen"]
        other = next(i for i in probs.topk(2).indices.tolist() if i != mine)
        if "source" in trace.meta:
            source = trace.meta["source"]["pieces"]
            looked, harm = trace["align.attention"][t], trace["align.occlusion"][t]
            less = float(f"{harm.max().exp():.2g}")
            line += f'it looked {percent(float(looked.max()))} at "{source[looked.argmax()]}"; hiding "{source[harm.argmax()]}" '
            line += f'makes "{piece}" {less:,.{0 if less >= 10 else 1}f} times less likely; '
        line += f'"{piece}" got {percent(float(probs[mine]))}, "{trace.meta["vocabulary"][other]}" {percent(float(probs[other]))}'
        rows.append([t + 1, line])
    return [
        Listing(
            "why", ["step", "because"], [row for row in rows if selection.step in (None, row[0])]
        )
    ]


def written(trace: Trace) -> list[str]:
    """The piece that each step wrote."""
    return [trace.meta["vocabulary"][step["chosen"]] for step in trace.meta["steps"]]


def place(trace: Trace, selection: Selection) -> tuple[str, list[str], list[str]]:
    """The attention that is meant, and the names of its queries and keys."""
    model = trace.meta["model"]
    kind = selection.kind or ("cross" if "source" in trace.meta else "self")
    if "source" not in trace.meta and kind != "self":
        raise UsageError(f"--kind {kind}: a language model has self-attention only")
    layer = selection.layer
    if layer is None:
        layer = model["alignment_layer"] if kind == "cross" else model["n_layers"] - 1
    queries = trace.meta["source" if kind == "enc" else "target"]["pieces"]
    if kind != "enc":
        queries = [
            f"{read} -> {piece}" for read, piece in zip(queries, written(trace), strict=True)
        ]
    keys = trace.meta["target" if kind == "self" else "source"]["pieces"]
    return (f"enc.{layer}.self" if kind == "enc" else f"dec.{layer}.{kind}"), queries, keys


def name_of(at: str, head: int | None = None) -> str:
    """A head as people call it: `decoder layer 2, cross-attention, head 3`."""
    stack, layer, kind = at.replace("enc", "encoder").replace("dec", "decoder").split(".")
    part = {"decoder self": "masked self-attention"}.get(f"{stack} {kind}", f"{kind}-attention")
    return f"{stack} layer {int(layer) + 1}, {part}{'' if head is None else f', head {head + 1}'}"


View = Callable[[Trace, Selection], list[Element]]
VIEWS: dict[str, View] = {
    each.__name__: each for each in (tokens, positions, heads, scores, alignment, probs, beam, steps, layers, why)
}  # fmt: skip


def build_view(trace: Trace, view: str, selection: Selection) -> list[Element]:
    """A view of a trace; what the model does not have is refused."""
    model = trace.meta["model"]
    counts = {
        "layer": (0, model["n_layers"]),
        "head": (0, model["n_heads"]),
        "step": (1, len(trace.meta["steps"])),
    }
    for name, (first, n) in counts.items():
        given = getattr(selection, name)
        if given is not None and not first <= given < first + n:
            raise UsageError(f"--{name} {given}: here they go from {first} to {first + n - 1}")
    return VIEWS[view](trace, selection)
