"""Record a beam search as a tree of all candidates: kept, ended and pruned."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from transduce.config import DecodeConfig
from transduce.decode.engines.base import SearchInput
from transduce.decode.hypotheses import (
    NAN_SCORES,
    Hypothesis,
    Penalty,
    make_penalty,
    needs_greedy,
)
from transduce.decode.options import TranslateOptions
from transduce.decode.search import SearchStep, explore
from transduce.decode.translator import Translator
from transduce.errors import ModelError, UsageError
from transduce.inspection.edits import Edit
from transduce.model import Transformer
from transduce.text.vocabulary import EOS, Vocabulary

Node = dict[str, Any]


class Prefixes(NamedTuple):
    """The tokens so far, in the place of a cache: all are read again at every step."""

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
    """Search for a translation of `source`; return its token ids and the tree of the search.

    Each "force" edit fixes the token of one step, and the search continues after it. With edits the
    search runs without a cache, so that the edits act on all positions, as they do in the recorded
    pass. If the stop rule has greedy search run too, and that finds the better translation, the
    tree is that of greedy search.
    """
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
        edited = model if edits else None
        best, tree = _search_once(worker, edited, search_input, worker.settings(beam))
        if worker.settings(beam).beam > 1 and needs_greedy([best]):
            greedy, greedy_tree = _search_once(worker, edited, search_input, worker.settings(1))
            if greedy.ids != best.ids and greedy.score > best.score:
                best, tree = greedy, greedy_tree
        target = list(best.ids)
    return target, tree


def _search_once(
    worker: Translator, edited: Transformer | None, search_input: SearchInput, config: DecodeConfig
) -> tuple[Hypothesis, list[Node]]:
    """Return the best hypothesis of one search and its tree; `edited` is run without a cache."""
    options = TranslateOptions(config)
    if edited is None:
        steps = list(worker.torch_engine.stream(search_input, options))
    else:
        with torch.inference_mode():
            plan = worker.torch_engine.plan([search_input], options)
            steps = list(
                explore(
                    _uncached_step(edited, search_input.ids),
                    Prefixes(torch.empty(1, 0, dtype=torch.long)),
                    plan.max_lengths,
                    width=plan.width,
                    select=plan.select,
                    rules=plan.rules,
                    penalty=plan.penalty,
                )
            )
    return _build_tree(steps, worker.target_vocabulary, make_penalty(config))


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
) -> tuple[Hypothesis, list[Node]]:
    """Return the best hypothesis and a node for each candidate: parent, token, scores, state."""
    nodes: list[Node] = []
    rows, sums = [-1], [0.0]  # index of its node, and score, of each hypothesis
    ended: list[Hypothesis] = []
    for step, found in enumerate(steps):
        beams, tokens, scores = (each[0].tolist() for each in found.candidates)
        ended += [hypothesis for _, hypothesis in found.ended]
        kept: list[int] = []
        for i, (beam, token, score) in enumerate(zip(beams, tokens, scores, strict=True)):
            if not math.isfinite(score):
                continue
            is_kept = bool(found.is_kept[0, i])
            # Of the 2 * width candidates, only the best `width` can end a hypothesis.
            has_ended = token == EOS and 2 * i < len(tokens)
            if is_kept:
                state = "kept"
            elif has_ended:
                state = "ended"
            else:
                state = "pruned"
            nodes.append(
                {
                    "parent": rows[beam],
                    "step": step,
                    "id": token,
                    "piece": vocabulary.token(token),
                    "log_prob": score - sums[beam],
                    "score": score,
                    "normalised": score / penalty(step + 1),
                    "state": state,
                }
            )
            if is_kept:
                kept.append(len(nodes) - 1)
        rows, sums = kept, [nodes[i]["score"] for i in kept]
    if not ended:
        raise ModelError(NAN_SCORES)
    return max(ended, key=lambda hypothesis: hypothesis.score), nodes
