"""A trace: everything a model computed for one text, by name, obtained by the fast search and then one pass with Eq. 1 spelled out.

For a causal decoder row t of that pass is time step t, so one pass serves all steps. Tensors, in the order of Figure 1
(S source pieces with [EOS], T target pieces from [SOS] on, h heads):
    src.emb  src.pos  src.x             [S, d_model]   embedding times sqrt(d_model), position, their sum; so is tgt.*
    enc.0.self.in                       [S, d_model]   what the sub-layer read; also dec.0.self, dec.0.cross, enc.0.ff, dec.0.ff
    enc.0.self.q .k .v                  [h, S, d_k]
    enc.0.self.raw .weights             [h, S, S]      Q K^T, and its softmax; .scaled and .masked, between them, follow from raw
    enc.0.self.heads                    [h, S, d_v]    weights times V
    enc.0.self.out .add .norm           [S, d_model]   after W^O; plus the residual; normalised (pre-norm: the sum, as it is)
    enc.0.self.wrote                    [h, S]         the length of what each head wrote into each position
    enc.0.ff.hidden                     [S, d_ff]      after the ReLU; .out .add .norm as above
    enc.out  dec.out                    [S, d_model]
    logits                              [T, V]         and probs, which follows from it
    lens.0                              [T, V]         logits if the decoder ended after this layer
    align.attention .occlusion .gradient   [T, S]      three answers to "where did it look?"
"""

import html
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from transduce.decode.alignment import Link, link_words
from transduce.decode.generator import Generator
from transduce.decode.quality import has_repetition
from transduce.decode.translator import Translator
from transduce.errors import DataError, MissingInputError, UsageError
from transduce.inspection.describe import describe
from transduce.inspection.edits import Edit, check_edits, check_rows, is_causal, replace_words
from transduce.inspection.page_export import export_html
from transduce.inspection.record import (
    heads_per_attention,
    instrument,
    record_all,
    remove_positions,
)
from transduce.inspection.tree import search_with_tree
from transduce.model import Transformer
from transduce.model.weights import shared_copy
from transduce.storage import replace_file, sha256
from transduce.text.normalize import LONE_SURROGATE, normalize
from transduce.text.vocabulary import EOS, SOS, Vocabulary

FORMAT = 1
MAX_PIECES = 128  # of a side
MAX_BYTES = 32 << 20  # of a file


@dataclass(frozen=True)
class Trace:
    """What a model computed for one text: tensors by name, and `meta`: pieces, steps, the beam tree, what was asked."""

    meta: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    worker: Translator | Generator | None = field(default=None, repr=False, compare=False)

    def __getitem__(self, name: str) -> Tensor:
        """A tensor by name: one that was recorded, or `scaled`, `masked` and `probs`, which follow from those."""
        if name in self.tensors:
            return self.tensors[name]
        place, _, last = name.rpartition(".")
        if name == "probs":
            return torch.softmax(self.tensors["logits"].float(), dim=-1)
        if last in ("scaled", "masked") and f"{place}.raw" in self.tensors:
            raw = self.tensors[f"{place}.raw"].float()
            scaled = raw / (
                math.sqrt(self.tensors[f"{place}.q"].shape[-1]) if self.has("scale") else 1.0
            )
            if last == "scaled" or not (is_causal(place) and self.has("mask")):
                return scaled
            return scaled.masked_fill(
                torch.ones_like(scaled, dtype=torch.bool).triu(1), float("-inf")
            )
        raise KeyError(f"no tensor {name!r}; there are {', '.join(sorted(self.tensors))}")

    def has(self, what: str) -> bool:
        """Whether the model ran with its positions, scale or mask."""
        return all(edit["op"] != f"no_{what}" for edit in self.meta["edits"])

    def alignment(self) -> list[Link]:
        """Which source words belong to which target words: pairs of numbers from 0."""
        if "align.attention" not in self.tensors:
            raise UsageError("a language model has no source: there is nothing to align with")
        source, target = self.meta["source"]["words"][:-1], self.meta["target"]["words"][1:]
        return link_words(self.tensors["align.attention"], source, target)

    def edit(self, *edits: Edit) -> "Trace":
        """The same text with interventions, on top of those there are."""
        if self.worker is None:
            raise UsageError(
                "a trace that was loaded from a file has no model: make one with transduce.trace(...)"
            )
        return trace(
            self.worker,
            self.meta["text"],
            beam=self.meta["beam"],
            edits=(*self.meta["edits"], *edits),
        )

    def diff(self, other: "Trace") -> dict[str, float]:
        """The largest difference of each tensor that both have; infinity where the shapes differ."""
        found = {}
        for name in sorted(self.tensors.keys() & other.tensors.keys()):
            a, b = self.tensors[name].float(), other.tensors[name].float()
            found[name] = float((a - b).abs().max()) if a.shape == b.shape else math.inf
        return found

    def to_bytes(self) -> bytes:
        """As a safetensors file: tensors in float16, `meta` as JSON in its metadata."""
        content = save(
            {name: tensor.half().contiguous() for name, tensor in self.tensors.items()},
            {"transduce.trace": json.dumps(self.meta, ensure_ascii=False)},
        )
        if len(content) > MAX_BYTES:
            raise DataError(
                f"a trace of {len(content) / 1e6:.0f} MB, at most {MAX_BYTES >> 20} are written: give a shorter text"
            )
        return content

    def save(self, path: str | Path) -> None:
        """Write it: `.safetensors`, or `.html` for the page that shows it."""
        path = Path(path)
        if path.suffix == ".html":
            replace_file(path, export_html(self).encode())
        elif path.suffix == ".safetensors":
            replace_file(path, self.to_bytes())
        else:
            raise UsageError(f"a trace is saved as .safetensors or .html, not as {path.name}")

    def _repr_html_(self) -> str:
        """In a notebook: the page, in a frame of its own."""
        page, title = (
            html.escape(text, quote=True) for text in (export_html(self), self.meta["text"])
        )
        return f'<iframe srcdoc="{page}" style="width:100%;height:800px;border:0" title="{title}"></iframe>'


def load_trace(path: str | Path) -> Trace:
    """A trace from its file."""
    try:
        with safe_open(str(path), "pt") as file:
            meta = json.loads((file.metadata() or {}).get("transduce.trace", "null"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  not a dictionary
    except FileNotFoundError:
        raise MissingInputError(f"no trace {path}") from None
    except (SafetensorError, OSError, json.JSONDecodeError) as error:
        raise DataError(f"{path} cannot be read as a trace: {error}") from None
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise DataError(f"{path} is not a trace of format {FORMAT}")
    return Trace(meta, tensors)


def trace(
    worker: Translator | Generator,
    text: str,
    *,
    beam: int | None = None,
    edits: Sequence[Edit] = (),
) -> Trace:
    """Look inside: translate a text (or let a language model read it) and keep everything that was computed."""
    folder = worker.folder
    model = shared_copy(folder.model).eval()
    check_edits(edits, heads_per_attention(model), len(folder.target_vocabulary))
    text = LONE_SURROGATE.sub("\ufffd", text)
    changed = replace_words(text, edits)
    if any(edit["op"] == "no_positions" for edit in edits):
        remove_positions(model)
    instrument(model, edits, None)
    source: list[int] = []
    tree: list[dict[str, Any]] = []
    doubts: dict[str, Any] = {}
    if isinstance(worker, Translator) and isinstance(model, Transformer):
        if len(worker.models) > 1 or worker.torch_engine.precision != "float32":
            raise UsageError("one model is looked into at a time, in float32: load it by itself")
        if not worker.clean(changed).strip():
            raise UsageError("the text is blank: there is nothing to look into")
        source = worker.source_vocabulary.encode(worker.clean(changed))
        check_length(source, MAX_PIECES, "the text", worker.source_vocabulary)
        target, tree = search_with_tree(worker, model, source, beam, edits)
        unseen, unknown = (
            list(f(worker.clean(changed))) for f in (worker.unseen_words, worker.unknown_characters)
        )
        repeats = has_repetition(target) and not has_repetition(source)
        doubts = {"doubts": {"unseen": unseen, "unknown": unknown, "repeats": repeats}}
        source = [*source, EOS]
        check_length(target, MAX_PIECES, "its translation", worker.target_vocabulary)
    else:
        assert isinstance(worker, Generator), "the other kind"
        if beam is not None or any(edit["op"] == "force" for edit in edits):
            raise UsageError(
                "a language model reads the text and searches nothing: leave out the beam and 'force'"
            )
        target = worker.vocabulary.encode(normalize(changed, folder.config.text.normalization))
        check_length(target, min(MAX_PIECES, worker.window - 1), "the text", worker.vocabulary)
    target = [SOS, *target]
    check_rows(edits, {"src": len(source), "tgt": len(target)})

    def choose(logits: Tensor) -> list[int]:
        """What was written at each step: the next piece; at the end a translation has [EOS], a language model its likeliest."""
        return [*target[1:], EOS if source else int(logits[-1].argmax())]

    tensors = record_all(model, source, target, choose, edits)
    asked = {"text": text, "beam": beam, "edits": [dict(edit) for edit in edits], "tree": tree}
    found = describe(folder, changed, source, target, choose(tensors["logits"]), tensors)
    return Trace({"format": FORMAT, **asked, **doubts, **found}, tensors, worker)


def check_length(ids: Sequence[int], most: int, what: str, vocabulary: Vocabulary) -> None:
    """Refuse what is too long to be looked into."""
    if len(ids) > most:
        raise DataError(
            f"{what} has {len(ids)} pieces, at most {most} can be looked into: it is too long from "
            f"{vocabulary.decode(ids[most : most + 12])!r} on, give a shorter text"
        )


def trace_id(meta: Mapping[str, Any]) -> str:
    """The name of a trace: follows from the model and from what was asked."""
    asked = {name: meta[name] for name in ("text", "beam", "edits")}
    return sha256(json.dumps([meta["model"]["fingerprint"], asked], sort_keys=True).encode())[:20]
