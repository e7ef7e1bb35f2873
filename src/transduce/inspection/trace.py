"""A trace: every tensor a model computes for one text, by name.

First the text is translated by a search. Then the text and its translation are read in a single
pass with Eq. 1 spelled out, which is recorded. The decoder is causal, so row t of that pass is time
step t, and one pass covers all steps.

Tensors, in the order of Figure 1 (S source tokens with [EOS], T target tokens from [SOS], h heads).
The tensors of enc.0.self exist also for dec.0.self and dec.0.cross, and tgt.* corresponds to src.*:

    src.emb .pos .x               [S, d_model]  embedding times sqrt(d_model), position, their sum
    enc.0.self.in                 [S, d_model]  input of the sub-layer; also of enc.0.ff, dec.0.ff
    enc.0.self.q .k .v            [h, S, d_k]
    enc.0.self.raw .weights       [h, S, S]     Q K^T, and its softmax; .scaled, .masked are derived
    enc.0.self.heads              [h, S, d_v]   weights times V
    enc.0.self.out .add .norm     [S, d_model]  after W^O; plus the residual; normalized (post-norm)
    enc.0.self.wrote              [h, S]        norm of what each head adds to each position
    enc.0.ff.hidden               [S, d_ff]     after the activation; .out .add .norm as above
    enc.out  dec.out              [S, d_model]
    logits                        [T, V]        probs is derived
    lens.0                        [T, V]        logits if the decoder ended after this layer
    align.attention .occlusion .gradient  [T, S]   three measures of how target depends on source
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
from transduce.outputs import write_output
from transduce.storage import parse_json, sha256
from transduce.text.normalize import LONE_SURROGATE, normalize
from transduce.text.vocabulary import EOS, SOS, Vocabulary

FORMAT = 1
MAX_TOKENS = 128  # on each side
MAX_BYTES = 32 << 20  # of a file


@dataclass(frozen=True)
class Trace:
    """What a model computed for one text.

    `tensors` are listed in the docstring of this module. `meta` is a JSON value with the request,
    tokens, steps and the tree of the search. `worker` made the trace and can make another with
    edits; a trace loaded from a file has none.
    """

    meta: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    worker: Translator | Generator | None = field(default=None, repr=False, compare=False)

    def __getitem__(self, name: str) -> Tensor:
        """Return a recorded tensor, or `scaled`, `masked` or `probs` derived from them."""
        if name in self.tensors:
            return self.tensors[name]
        place, _, last = name.rpartition(".")
        if name == "probs":
            return torch.softmax(self.tensors["logits"].float(), dim=-1)
        if last in ("scaled", "masked") and f"{place}.raw" in self.tensors:
            raw = self.tensors[f"{place}.raw"].float()
            d_k = self.tensors[f"{place}.q"].shape[-1]
            scaled = raw / math.sqrt(d_k) if self.has("scale") else raw
            if last == "scaled" or not (is_causal(place) and self.has("mask")):
                return scaled
            is_later = torch.ones_like(scaled, dtype=torch.bool).triu(1)
            return scaled.masked_fill(is_later, float("-inf"))
        raise KeyError(f"no tensor {name!r}; known: {', '.join(sorted(self.tensors))}")

    def has(self, what: str) -> bool:
        """Return False if an edit removed `what`: "positions", "scale" or "mask"."""
        return all(edit["op"] != f"no_{what}" for edit in self.meta["edits"])

    def alignment(self) -> list[Link]:
        """Return the links between source words and target words, as pairs of indices from 0."""
        if "align.attention" not in self.tensors:
            raise UsageError("a language model has no source; alignment needs a translation model")
        source, target = self.meta["source"]["words"][:-1], self.meta["target"]["words"][1:]
        attention = self.tensors["align.attention"].float().numpy()
        return link_words(attention, source, target)

    def edit(self, *edits: Edit) -> "Trace":
        """Trace the same text with further edits, in addition to those of this trace."""
        if self.worker is None:
            raise UsageError(
                "a trace loaded from a file has no model; make a new one with transduce.trace(...)"
            )
        return trace(
            self.worker,
            self.meta["text"],
            beam=self.meta["beam"],
            edits=(*self.meta["edits"], *edits),
        )

    def diff(self, other: "Trace") -> dict[str, float]:
        """Return the largest absolute difference of each common tensor.

        It is infinity where the shapes differ.
        """
        found = {}
        for name in sorted(self.tensors.keys() & other.tensors.keys()):
            a, b = self.tensors[name].float(), other.tensors[name].float()
            found[name] = float((a - b).abs().max()) if a.shape == b.shape else math.inf
        return found

    def to_bytes(self) -> bytes:
        """Return a safetensors file: tensors in float16, `meta` as JSON in its metadata."""
        content = save(
            {name: tensor.half().contiguous() for name, tensor in self.tensors.items()},
            {"transduce.trace": json.dumps(self.meta, ensure_ascii=False)},
        )
        if len(content) > MAX_BYTES:
            raise DataError(
                f"the trace has {len(content) / 1e6:.0f} MB, more than {MAX_BYTES >> 20} MB; "
                "shorten the text"
            )
        return content

    def save(self, path: str | Path) -> None:
        """Write the trace as `.safetensors`, or as an `.html` page that shows it."""
        path = Path(path)
        if path.suffix == ".html":
            write_output(path, export_html(self).encode())
        elif path.suffix == ".safetensors":
            write_output(path, self.to_bytes())
        else:
            raise UsageError(f"cannot save a trace as {path.name!r}; use .safetensors or .html")

    def _repr_html_(self) -> str:
        """Show the page in a notebook, in its own frame."""
        page, title = (
            html.escape(text, quote=True) for text in (export_html(self), self.meta["text"])
        )
        style = "width:100%;height:800px;border:0"
        return f'<iframe srcdoc="{page}" style="{style}" title="{title}"></iframe>'


def load_trace(path: str | Path) -> Trace:
    """Load a trace from a .safetensors file."""
    try:
        with safe_open(str(path), "pt") as file:
            meta = parse_json((file.metadata() or {}).get("transduce.trace", "null"))
            names = file.keys()  # `file` itself is not iterable
            tensors = {name: file.get_tensor(name) for name in names}
    except FileNotFoundError:
        raise MissingInputError(f"{path} does not exist; give the path of a saved trace") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise DataError(
            f"{path} cannot be read as a trace: {error}; make it again with transduce inspect"
        ) from None
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise DataError(
            f"{path} is not a trace of format {FORMAT}; make it again with transduce inspect"
        )
    return Trace(meta, tensors)


def trace(
    worker: Translator | Generator,
    text: str,
    *,
    beam: int | None = None,
    edits: Sequence[Edit] = (),
) -> Trace:
    """Translate a text and record everything that is computed; a language model only reads it.

    `beam` defaults to the setting of the model. See `edits.py` for the edits. Raises UsageError for
    a blank text or invalid edits, and DataError for a text of more than `MAX_TOKENS` tokens.
    """
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
    flags: dict[str, Any] = {}
    if isinstance(worker, Translator) and isinstance(model, Transformer):
        if len(worker.models) > 1 or worker.torch_engine.precision != "float32":
            raise UsageError(
                "a trace needs a single model in float32; load one model, without --precision"
            )
        if not worker.clean(changed).strip():
            raise UsageError("the text is blank; give a text with at least one word")
        source = worker.source_vocabulary.encode(worker.clean(changed))
        check_length(source, MAX_TOKENS, "the text", worker.source_vocabulary)
        target, tree = search_with_tree(worker, model, source, beam, edits)
        flags = {
            "doubts": {
                "unseen": list(worker.unseen_words(worker.clean(changed))),
                "unknown": list(worker.unknown_characters(worker.clean(changed))),
                "repeats": has_repetition(target) and not has_repetition(source),
            }
        }
        source = [*source, EOS]
        check_length(target, MAX_TOKENS, "its translation", worker.target_vocabulary)
    else:
        assert isinstance(worker, Generator), "a worker is a Translator or a Generator"
        if beam is not None or any(edit["op"] == "force" for edit in edits):
            raise UsageError(
                "a language model is traced without search; remove the beam and 'force' edits"
            )
        target = worker.vocabulary.encode(normalize(changed, folder.config.text.normalization))
        check_length(target, min(MAX_TOKENS, worker.window - 1), "the text", worker.vocabulary)
    target = [SOS, *target]
    check_rows(edits, {"src": len(source), "tgt": len(target)})

    def choose(logits: Tensor) -> list[int]:
        """Return the token written at each step, given the logits.

        The last one is [EOS] in a translation; for a language model it is the most probable token.
        """
        return [*target[1:], EOS if source else int(logits[-1].argmax())]

    tensors = record_all(model, source, target, choose, edits)
    request = {"text": text, "beam": beam, "edits": [dict(edit) for edit in edits], "tree": tree}
    described = describe(folder, changed, source, target, choose(tensors["logits"]), tensors)
    return Trace({"format": FORMAT, **request, **flags, **described}, tensors, worker)


def check_length(ids: Sequence[int], limit: int, what: str, vocabulary: Vocabulary) -> None:
    """Raise DataError if there are more than `limit` tokens; `what` names the text."""
    if len(ids) > limit:
        raise DataError(
            f"{what} has {len(ids)} tokens, at most {limit} can be traced; shorten it, "
            f"the excess begins at {vocabulary.decode(ids[limit : limit + 12])!r}"
        )


def trace_id(meta: Mapping[str, Any]) -> str:
    """Return the id of a trace: a hash of the model and of the request."""
    request = {name: meta[name] for name in ("text", "beam", "edits")}
    return sha256(json.dumps([meta["model"]["fingerprint"], request], sort_keys=True).encode())[:20]
