"""Search: from a step function to the best hypotheses. Knows nothing of models (section 6.1: beam search).

    Step    (ids, cache) -> (log_probs, cache): read one piece a row, say how likely each next piece is
    Rule    (prefixes, log_probs) -> log_probs: forbid or favour pieces
    Select  (scores, log_probs, sentences) -> candidates: who may go on; `top_k` is beam search, `decode.sample` draws

Rows are `n_sentences * width` hypotheses, those of a sentence side by side. Scores are sums of log-probabilities, higher is better.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transduce.text.vocabulary import EOS, SOS

NEVER = float("-inf")


CacheT = TypeVar("CacheT", bound="Selectable")


@runtime_checkable
class Selectable(Protocol):
    """A cache: its rows can be picked."""

    def select(self: CacheT, rows: Tensor) -> CacheT:
        """The cache of some rows, in that order, repeats allowed."""
        ...


Step = Callable[[Tensor, CacheT], tuple[Tensor, CacheT]]
Rule = Callable[[Tensor, Tensor], Tensor]
Penalty = Callable[[int], float]


class Candidates(NamedTuple):
    """Ways to go on, best first: from which hypothesis, with which piece, reaching which score."""

    beam: Int[Tensor, "sentence candidate"]
    piece: Int[Tensor, "sentence candidate"]
    score: Float[Tensor, "sentence candidate"]


Select = Callable[[Tensor, Tensor, Tensor], Candidates]


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A finished target: its pieces without [EOS], the sum of their log-probabilities with [EOS], and the score it is ranked by."""

    ids: tuple[int, ...]
    log_prob: float
    score: float
    truncated: bool  # ended because it reached the maximum length, not because it chose to


def power_penalty(alpha: float) -> Penalty:
    """length^alpha, which every engine has. Alpha 1 is the mean log-probability."""
    return lambda length: float(length**alpha)


def paper_penalty(alpha: float) -> Penalty:
    """((5 + length) / 6)^alpha: Wu et al. 2016, Eq. 14, which section 6.1 uses with alpha 0.6."""
    return lambda length: float(((5 + length) / 6) ** alpha)


def top_k(
    scores: Float[Tensor, "sentence width"],
    log_probs: Float[Tensor, "sentence width vocab"],
    sentences: Int[Tensor, " sentence"],
) -> Candidates:
    """The 2 * width best continuations: even if width of them end here, width are left to go on."""
    width, vocab = log_probs.shape[1:]
    total = scores[:, :, None] + log_probs
    best, flat = total.flatten(start_dim=1).topk(min(2 * width, width * vocab), dim=1)  # sentence candidate
    return Candidates(beam=flat // vocab, piece=flat % vocab, score=best)


def search(
    step: Step[CacheT],
    cache: CacheT,
    max_lengths: Sequence[int],
    *,
    width: int = 1,
    select: Select = top_k,
    rules: Sequence[Rule] = (),
    penalty: Penalty = lambda length: 1.0,
) -> list[list[Hypothesis]]:
    """The best hypotheses of each sentence, best first, at most `width`.

    `cache` has one row a sentence and `max_lengths` one number a sentence: the most pieces, [EOS] counted. A sentence is
    finished when `width` of its hypotheses have ended, each while it was among the `width` best. Width 1 with `top_k` is greedy.
    """
    sentences = torch.arange(len(max_lengths))  # the sentences still searched
    finished: list[list[Hypothesis]] = [[] for _ in max_lengths]
    limits = torch.tensor(max_lengths)
    prefixes = torch.full((len(sentences) * width, 1), SOS)
    cache = cache.select(sentences.repeat_interleave(width))
    scores = torch.full((len(sentences), width), NEVER)
    scores[:, 0] = 0.0  # all hypotheses of a sentence are the same yet: count one
    length = 0
    while len(sentences):
        length += 1
        log_probs, cache = step(prefixes[:, -1], cache)
        for rule in rules:
            log_probs = rule(prefixes, log_probs)
        at_limit = limits[sentences] <= length
        log_probs = log_probs.view(len(sentences), width, -1)
        would_end = log_probs.argmax(dim=-1) == EOS  # sentence width
        log_probs = _end_at_limit(log_probs, at_limit)
        beam, piece, score = select(scores, log_probs, sentences)

        is_end = piece == EOS
        ending = is_end & score.isfinite()
        ending[:, width:] = False
        rows = beam + torch.arange(len(sentences))[:, None] * width  # sentence candidate -> row
        for i, j in ending.nonzero().tolist():
            ids, log_prob = tuple(prefixes[rows[i, j], 1:].tolist()), float(score[i, j])
            truncated = bool(at_limit[i] and not would_end[i, beam[i, j]])
            hypothesis = Hypothesis(ids, log_prob, log_prob / penalty(length), truncated)
            finished[sentences[i]].append(hypothesis)

        scores, kept = score.masked_fill(is_end, NEVER).topk(min(width, score.shape[1]), dim=1)
        is_open = torch.tensor([len(finished[i]) < width for i in sentences.tolist()]) & scores.isfinite().any(dim=1)
        rows, piece = rows.gather(1, kept)[is_open].flatten(), piece.gather(1, kept)[is_open].flatten()
        scores, sentences = scores[is_open], sentences[is_open]
        prefixes = torch.cat((prefixes[rows], piece[:, None]), dim=1)
        cache = cache.select(rows)
    return [sorted(found, key=lambda hypothesis: -hypothesis.score) for found in finished]


def _end_at_limit(
    log_probs: Float[Tensor, "sentence width vocab"], at_limit: Tensor
) -> Float[Tensor, "sentence width vocab"]:
    """Where a sentence has reached its maximum length, only [EOS] may follow."""
    if not at_limit.any():
        return log_probs
    only_end = torch.full_like(log_probs, NEVER)
    only_end[:, :, EOS] = log_probs[:, :, EOS]
    return torch.where(at_limit[:, None, None], only_end, log_probs)
