"""Beam search recorded as a tree: every candidate, whether kept, ended or pruned."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from transduce.decode.engines.base import SearchInput
from transduce.decode.hypotheses import NAN_SCORES, Penalty, make_penalty
from transduce.decode.options import TranslateOptions
from transduce.decode.search import SearchStep, explore
from transduce.decode.translator import Translator
from transduce.errors import ModelError, UsageError
from transduce.inspection.edits import Edit
from transduce.model import Transformer
from transduce.text.vocabulary import EOS, Vocabulary

Node = dict[str, Any]


class Prefixes(NamedTuple):
    """The cache of a search without a cache: the tokens so far, all read again at every step."""

    ids: Tensor

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> "Prefixes":
        """Return the given rows."""
        return Prefixes(self.ids[rows])


def search_with_tree(
    worker: Translator,
    model: Transformer,
    source: Sequence[int],
    beam: int | None,
    edits: Sequence[Edit],
) -> tuple[list[int], list[Node]]:
    """Search the translation of `source`; return its token ids and the tree of the search.

    Each "force" edit fixes the token of one step; the search then continues from there. With edits
    the search runs without a cache, so that the edits act on all positions, as they do when the
    result is recorded.
    """
    options = TranslateOptions(worker.settings(beam))
    target: list[int] = []
    tree: list[Node] = []
    for forced in (None, *(edit for edit in edits if edit["op"] == "force")):
        if forced and forced["step"] > len(target):
            raise UsageError(
                f"edit 'force': no step {forced['step']}; the last step is {len(target)}"
            )
        begin = (*target[: forced["step"]], forced["piece"]) if forced else ()
        if begin and begin[-1] == EOS:
            return list(begin[:-1]), tree
        search_input = SearchInput(tuple(source), begin)
        if edits:
            with torch.inference_mode():
                plan = worker.torch_engine.plan([search_input], options)
                start = Prefixes(torch.empty(1, 0, dtype=torch.long))
                steps = list(
                    explore(
                        _uncached_step(model, source),
                        start,
                        plan.max_lengths,
                        width=plan.width,
                        select=plan.select,
                        rules=plan.rules,
                        penalty=plan.penalty,
                    )
                )
        else:
            steps = list(worker.torch_engine.stream(search_input, options))
        target, tree = _build_tree(steps, worker.target_vocabulary, make_penalty(options.config))
    return target, tree


def _uncached_step(
    model: Transformer, source: Sequence[int]
) -> Callable[[Tensor, Prefixes], tuple[Tensor, Prefixes]]:
    ids = torch.tensor([[*source, EOS]])
    mask = torch.ones_like(ids, dtype=torch.bool)
    memory = model.encode(ids, mask)

    def step(new: Tensor, cache: Prefixes) -> tuple[Tensor, Prefixes]:
        prefixes = torch.cat((cache.ids.expand(len(new), -1), new[:, None]), dim=1)
        start = model.decoder.start(memory.expand(len(new), -1, -1), mask.expand(len(new), -1))
        hidden, _ = model.decode(prefixes, start)
        return torch.log_softmax(model.logits(hidden[:, -1]), dim=-1), Prefixes(prefixes)

    return step


def _build_tree(
    steps: Sequence[SearchStep], vocabulary: Vocabulary, penalty: Penalty
) -> tuple[list[int], list[Node]]:
    """Return the best hypothesis and a node for each candidate: parent, token, scores, state."""
    nodes: list[Node] = []
    rows, sums = [-1], [0.0]  # node and score of each hypothesis
    ended: list[Any] = []
    for step, found in enumerate(steps):
        beams, pieces, scores = (each[0].tolist() for each in found.candidates)
        ended += [hypothesis for _, hypothesis in found.ended]
        kept: list[int] = []
        for i, (beam, piece, score) in enumerate(zip(beams, pieces, scores, strict=True)):
            if not math.isfinite(score):
                continue
            is_kept = bool(found.is_kept[0, i])
            # of 2 * beam candidates, only one among the best `beam` ends a hypothesis
            has_ended = piece == EOS and 2 * i < len(pieces)
            nodes.append(
                {
                    "parent": rows[beam],
                    "step": step,
                    "id": piece,
                    "piece": vocabulary.token(piece),
                    "log_prob": score - sums[beam],
                    "score": score,
                    "normalised": score / penalty(step + 1),
                    "state": "kept" if is_kept else "ended" if has_ended else "pruned",
                }
            )
            if is_kept:
                kept.append(len(nodes) - 1)
        rows, sums = kept, [nodes[i]["score"] for i in kept]
    if not ended:
        raise ModelError(NAN_SCORES)
    best = max(ended, key=lambda hypothesis: hypothesis.score)
    return list(best.ids), nodes
