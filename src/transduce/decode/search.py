"""Search: from a step function to the best hypotheses. Knows nothing of models (section 6.1: beam search).

    Step    (ids, cache) -> (log_probs, cache): read one piece a row, say how likely each next piece is
    Rule    (rows, log_probs) -> log_probs: forbid or favour pieces; it may write into what it is given
    Select  (rows, scores, log_probs, n) -> the n best ways to go on; `top_k` is beam search, `decode.sample` draws,
            `decode.constraints` keeps room for hypotheses that have met more of their terms

Rows are hypotheses, those of a sentence side by side. Scores are sums of log-probabilities, higher is better.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transduce.decode.hypotheses import Hypothesis, Penalty
from transduce.text.vocabulary import EOS, SOS

NEVER = float("-inf")
BLOCK = 64  # pieces whose best is looked at first, where the vocabulary has many

CacheT = TypeVar("CacheT", bound="Selectable")


@runtime_checkable
class Selectable(Protocol):
    """A cache: its rows can be picked."""

    def select(self: CacheT, rows: Tensor, sentences: Tensor | None = None) -> CacheT:
        """The cache of some rows, in that order, repeats allowed, and of the sentences that are still searched (None: all)."""
        ...


class Rows(NamedTuple):
    """Hypotheses side by side: what each has written, from [SOS] on, the number of its sentence, and what the step made of it."""

    prefixes: Int[Tensor, "row length"]
    sentences: Int[Tensor, " row"]
    cache: Any = None  # of the step; a rule that knows it may look


class Candidates(NamedTuple):
    """Ways to go on: from which hypothesis, with which piece, reaching which score. The first `width` that do not end go on."""

    beam: Int[Tensor, "sentence candidate"]
    piece: Int[Tensor, "sentence candidate"]
    score: Float[Tensor, "sentence candidate"]


Step = Callable[[Tensor, CacheT], tuple[Tensor, CacheT]]
Rule = Callable[[Rows, Tensor], Tensor]
Select = Callable[[Rows, Tensor, Tensor, int], Candidates]


class SearchStep(NamedTuple):
    """One time step of a search: what was read, what was thought of it, who goes on and who has ended."""

    rows: Rows
    log_probs: Float[Tensor, "sentence width vocab"]  # after the rules
    candidates: Candidates
    is_kept: Bool[Tensor, "sentence candidate"]
    ended: list[tuple[int, Hypothesis]]  # the number of the sentence, and what it ended with


def top_k(
    rows: Rows,
    scores: Float[Tensor, "sentence width"],
    log_probs: Float[Tensor, "sentence width vocab"],
    n: int,
) -> Candidates:
    """The n best continuations."""
    values, pieces = best_of(log_probs.flatten(end_dim=1), min(n, log_probs.shape[2]))
    total = (scores.flatten()[:, None] + values).view(len(scores), -1)
    best, place = total.topk(min(n, total.shape[1]), dim=1)
    piece = pieces.view(len(scores), -1).gather(1, place)
    return Candidates(beam=place // values.shape[1], piece=piece, score=best)


def best_of(
    values: Float[Tensor, "row vocab"], n: int
) -> tuple[Float[Tensor, "row n"], Int[Tensor, "row n"]]:
    """The n best of each row and where they stand, best first.

    Of a large vocabulary first the best of each block is found, which is one quick pass: the n best values lie in the n best
    blocks.
    """
    n_blocks = values.shape[1] // BLOCK
    if n_blocks < 4 * n:
        found = values.topk(n, dim=1)
        return found.values, found.indices
    blocks, rest = (
        values[:, : n_blocks * BLOCK].view(-1, n_blocks, BLOCK),
        values[:, n_blocks * BLOCK :],
    )
    chosen = blocks.amax(dim=2).topk(n, dim=1).indices  # row n
    near = blocks.gather(1, chosen[:, :, None].expand(-1, -1, BLOCK)).flatten(start_dim=1)
    places = (chosen[:, :, None] * BLOCK + torch.arange(BLOCK)).flatten(start_dim=1)
    last = torch.arange(n_blocks * BLOCK, values.shape[1]).expand(len(values), -1)
    best, place = torch.cat((near, rest), dim=1).topk(n, dim=1)
    return best, torch.cat((places, last), dim=1).gather(1, place)


def search(*arguments: Any, **asked: Any) -> list[list[Hypothesis]]:
    """The best hypotheses of each sentence, best first: what `explore`, which has the arguments, ends with."""
    found: dict[int, list[Hypothesis]] = {i: [] for i in range(len(arguments[2]))}
    for moment in explore(*arguments, **asked):
        for sentence, hypothesis in moment.ended:
            found[sentence].append(hypothesis)
    return [sorted(each, key=lambda hypothesis: -hypothesis.score) for each in found.values()]


def explore(
    step: Step[CacheT],
    cache: CacheT,
    max_lengths: Sequence[int],
    *,
    width: int = 1,
    select: Select = top_k,
    rules: Sequence[Rule] = (),
    penalty: Penalty = lambda length: 1.0,
    n_ends: Sequence[int] | None = None,
) -> Iterator[SearchStep]:
    """A search, time step by time step.

    `cache` has one row a sentence and `max_lengths` one number a sentence: the most pieces, [EOS] counted. A sentence is
    finished when `width` of its hypotheses have ended (or as many as `n_ends` says), each while it was among the `width` best.
    Width 1 with `top_k` is greedy.
    """
    sentences = torch.arange(len(max_lengths))  # the sentences still searched
    limits = torch.tensor(max_lengths)
    ends_left = torch.tensor(n_ends if n_ends is not None else [width] * len(sentences))
    prefixes = torch.full((len(sentences), 1), SOS)
    scores = torch.zeros(len(sentences), 1)  # sentence width: one hypothesis each as yet
    length = 0
    while len(sentences):
        length += 1
        log_probs, cache = step(prefixes[:, -1], cache)
        now = scores.shape[1]
        rows = Rows(prefixes, sentences.repeat_interleave(now), cache)
        for rule in rules:
            log_probs = rule(rows, log_probs)
        log_probs = log_probs.view(len(sentences), now, -1)
        at_limit = limits[sentences] <= length
        if at_limit.any():
            would_end = log_probs.argmax(dim=-1) == EOS  # sentence width
            log_probs = _only_end(log_probs, at_limit)
        beam, piece, score = select(rows, scores, log_probs, 2 * width)

        is_end = piece == EOS
        ending = is_end & score.isfinite()
        ending[:, width:] = False
        origin = beam + torch.arange(len(sentences))[:, None] * now  # sentence candidate -> row
        ended: list[tuple[int, Hypothesis]] = []
        if ending.any():
            places = ending.nonzero().tolist()
            ids, log_prob = prefixes[origin[ending], 1:].tolist(), score[ending].tolist()
            for (i, j), written, total in zip(places, ids, log_prob, strict=True):
                truncated = bool(at_limit[i] and not would_end[i, beam[i, j]])
                hypothesis = Hypothesis(tuple(written), total, total / penalty(length), truncated)
                ended.append((int(sentences[i]), hypothesis))
        may_go_on = ~is_end & score.isfinite()
        kept = (
            may_go_on.long().sort(dim=1, descending=True, stable=True).indices[:, :width]
        )  # the first that may
        scores = score.masked_fill(~may_go_on, NEVER).gather(1, kept)
        is_kept = torch.zeros_like(is_end).scatter(1, kept, scores.isfinite())
        yield SearchStep(rows, log_probs, Candidates(beam, piece, score), is_kept, ended)

        ends_left = ends_left - ending.sum(dim=1)
        is_open = (ends_left > 0) & scores.isfinite().any(dim=1)
        chosen, piece = (
            origin.gather(1, kept)[is_open].flatten(),
            piece.gather(1, kept)[is_open].flatten(),
        )
        prefixes = torch.cat((prefixes[chosen], piece[:, None]), dim=1)
        if is_open.all():
            if not torch.equal(chosen, torch.arange(len(rows.sentences))):
                cache = cache.select(chosen)
        else:
            cache = cache.select(chosen, is_open.nonzero()[:, 0])
            scores, sentences, ends_left = scores[is_open], sentences[is_open], ends_left[is_open]


def _only_end(
    log_probs: Float[Tensor, "sentence width vocab"], at_limit: Bool[Tensor, " sentence"]
) -> Float[Tensor, "sentence width vocab"]:
    """Where a sentence has reached its maximum length, only [EOS] may follow."""
    only_end = torch.full_like(log_probs, NEVER)
    only_end[:, :, EOS] = log_probs[:, :, EOS]
    return torch.where(at_limit[:, None, None], only_end, log_probs)
