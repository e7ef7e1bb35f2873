"""Beam search and sampling over a step function (section 6.1). Independent of models.

    Step    (ids, cache) -> (log_probs, cache): read one token per row, score the next token
    Rule    (rows, log_probs) -> log_probs: forbid or favour tokens; may write into its argument
    Select  (rows, scores, log_probs, n) -> the n best continuations; `top_k` is beam search,
            `decode.sampling` draws, `decode.constraints` reserves room for hypotheses with terms

A row is a hypothesis; the rows of a sentence are adjacent. Scores are sums of log-probabilities,
higher is better.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transduce.decode.hypotheses import Hypothesis, Penalty, ends_needed
from transduce.text.vocabulary import EOS, SOS

NEVER = float("-inf")
BLOCK = 64  # tokens of a large vocabulary that are reduced to their maximum before the top-k

CacheT = TypeVar("CacheT", bound="Selectable")


@runtime_checkable
class Selectable(Protocol):
    """A cache whose rows can be selected."""

    def select(self: CacheT, rows: Tensor, sentences: Tensor | None = None) -> CacheT:
        """Return the cache of the given rows, in that order, repeats allowed.

        `sentences` are the indices of the sentences that these rows belong to (None: all).
        """
        ...


class Rows(NamedTuple):
    """The hypotheses of a time step."""

    prefixes: Int[Tensor, "row length"]  # tokens so far, from [SOS] on
    sentences: Int[Tensor, " row"]  # index of the sentence


class Candidates(NamedTuple):
    """Possible continuations of the hypotheses of each sentence, best first.

    The first `width` candidates that are not [EOS] become the next hypotheses.
    """

    beam: Int[Tensor, "sentence candidate"]  # which hypothesis of the sentence is continued
    token: Int[Tensor, "sentence candidate"]
    score: Float[Tensor, "sentence candidate"]


Step = Callable[[Tensor, CacheT], tuple[Tensor, CacheT]]
Rule = Callable[[Rows, Tensor], Tensor]
Select = Callable[[Rows, Tensor, Tensor, int], Candidates]


class SearchStep(NamedTuple):
    """One time step of a search."""

    rows: Rows
    log_probs: Float[Tensor, "sentence width vocab"]  # after the rules
    candidates: Candidates
    is_kept: Bool[Tensor, "sentence candidate"]  # candidates that become hypotheses
    ended: list[tuple[int, Hypothesis]]  # index of the sentence, and a hypothesis that ended now


def top_k(
    rows: Rows,
    scores: Float[Tensor, "sentence width"],
    log_probs: Float[Tensor, "sentence width vocab"],
    n: int,
) -> Candidates:
    """Select the n best continuations of each sentence."""
    values, tokens = best_of(log_probs.flatten(end_dim=1), min(n, log_probs.shape[2]))
    total = (scores.flatten()[:, None] + values).view(len(scores), -1)
    best, place = total.topk(min(n, total.shape[1]), dim=1)
    token = tokens.view(len(scores), -1).gather(1, place)
    return Candidates(beam=place // values.shape[1], token=token, score=best)


def best_of(
    values: Float[Tensor, "row vocab"], n: int
) -> tuple[Float[Tensor, "row n"], Int[Tensor, "row n"]]:
    """Return the n largest values of each row and their indices, largest first.

    For a large vocabulary the maximum of each block is found first, in one fast pass: the n
    largest values lie in the n blocks with the largest maxima.
    """
    n_blocks = values.shape[1] // BLOCK
    if n_blocks < 4 * n:
        found = values.topk(n, dim=1)
        return found.values, found.indices

    end = n_blocks * BLOCK
    blocks = values[:, :end].view(-1, n_blocks, BLOCK)
    chosen = blocks.amax(dim=2).topk(n, dim=1).indices  # row n
    in_blocks = blocks.gather(1, chosen[:, :, None].expand(-1, -1, BLOCK)).flatten(start_dim=1)
    places = (chosen[:, :, None] * BLOCK + torch.arange(BLOCK)).flatten(start_dim=1)

    rest = values[:, end:]  # after the last whole block
    rest_places = torch.arange(end, values.shape[1]).expand(len(values), -1)
    best, place = torch.cat((in_blocks, rest), dim=1).topk(n, dim=1)
    return best, torch.cat((places, rest_places), dim=1).gather(1, place)


def no_penalty(length: int) -> float:
    """Return 1: the score is the log-probability."""
    return 1.0


def search(
    step: Step[CacheT],
    cache: CacheT,
    max_lengths: Sequence[int],
    *,
    width: int = 1,
    select: Select = top_k,
    rules: Sequence[Rule] = (),
    penalty: Penalty = no_penalty,
    n_ends: int | None = None,
    n_best: int | None = None,
) -> list[list[Hypothesis]]:
    """Return the finished hypotheses of each sentence, best first. See `explore` for arguments."""
    steps = explore(
        step,
        cache,
        max_lengths,
        width=width,
        select=select,
        rules=rules,
        penalty=penalty,
        n_ends=n_ends,
        n_best=n_best,
    )
    return collect(steps, len(max_lengths))


def collect(steps: Iterator[SearchStep], n_sentences: int) -> list[list[Hypothesis]]:
    """Run a search to its end and return the hypotheses of each sentence, best first."""
    found: list[list[Hypothesis]] = [[] for _ in range(n_sentences)]
    for step in steps:
        for sentence, hypothesis in step.ended:
            found[sentence].append(hypothesis)
    return [sorted(each, key=lambda hypothesis: -hypothesis.score) for each in found]


def explore(
    step: Step[CacheT],
    cache: CacheT,
    max_lengths: Sequence[int],
    *,
    width: int = 1,
    select: Select = top_k,
    rules: Sequence[Rule] = (),
    penalty: Penalty = no_penalty,
    n_ends: int | None = None,
    n_best: int | None = None,
) -> Iterator[SearchStep]:
    """Search and yield each time step.

    `cache` has one row per sentence; `max_lengths` is the maximum number of tokens per sentence,
    [EOS] included. A sentence is finished when `n_ends` of its hypotheses (None: as many as the
    stop rule in hypotheses.py says) have ended, each while it was among the `width` best. Width 1
    with `top_k` is greedy search.

    With `n_best` a sentence is finished as soon as no running hypothesis can be among its n best:
    log-probabilities only fall, and no penalty is larger than that of the maximum length.
    """
    sentences = torch.arange(len(max_lengths))  # those still searched
    limits = torch.tensor(max_lengths)
    ends_left = torch.full_like(limits, n_ends or ends_needed(width))
    largest_penalty = torch.tensor([penalty(length) for length in max_lengths])
    best_ended = torch.full((len(sentences), n_best or 1), NEVER)  # scores, best first
    prefixes = torch.full((len(sentences), 1), SOS)
    scores = torch.zeros(len(sentences), 1)  # sentence width: one hypothesis each at first
    length = 0

    while len(sentences):
        length += 1
        log_probs, cache = step(prefixes[:, -1], cache)
        n_hypotheses = scores.shape[1]
        rows = Rows(prefixes, sentences.repeat_interleave(n_hypotheses))
        for rule in rules:
            log_probs = rule(rows, log_probs)
        log_probs = log_probs.view(len(sentences), n_hypotheses, -1)

        at_limit = limits[sentences] <= length
        if at_limit.any():
            would_end = log_probs.argmax(dim=-1) == EOS  # sentence width
            log_probs = _only_end(log_probs, at_limit)
        beam, token, score = select(rows, scores, log_probs, 2 * width)
        origin = beam + torch.arange(len(sentences))[:, None] * n_hypotheses  # candidate -> row

        # Hypotheses that end: an [EOS] among the `width` best candidates.
        is_end = token == EOS
        ending = is_end & score.isfinite()
        ending[:, width:] = False
        ended: list[tuple[int, Hypothesis]] = []
        if ending.any():
            places = ending.nonzero().tolist()
            ids, log_prob = prefixes[origin[ending], 1:].tolist(), score[ending].tolist()
            for (i, j), written, total in zip(places, ids, log_prob, strict=True):
                truncated = bool(at_limit[i] and not would_end[i, beam[i, j]])
                hypothesis = Hypothesis(tuple(written), total, total / penalty(length), truncated)
                ended.append((int(sentences[i]), hypothesis))

        # Hypotheses that continue: the first `width` candidates that are possible and not [EOS].
        can_continue = ~is_end & score.isfinite()
        kept = can_continue.long().sort(dim=1, descending=True, stable=True).indices[:, :width]
        scores = score.masked_fill(~can_continue, NEVER).gather(1, kept)
        is_kept = torch.zeros_like(is_end).scatter(1, kept, scores.isfinite())
        yield SearchStep(rows, log_probs, Candidates(beam, token, score), is_kept, ended)

        # The rows of the next step, without the sentences that are finished.
        ends_left = ends_left - ending.sum(dim=1)
        is_open = (ends_left > 0) & scores.isfinite().any(dim=1)
        if n_best is not None and ended:
            new = score.masked_fill(~ending, NEVER) / penalty(length)
            best_ended = torch.cat((best_ended, new), dim=1).topk(n_best, dim=1).values
        if n_best is not None:
            reachable = scores.amax(dim=1) / largest_penalty[sentences]
            is_open &= ~(best_ended[:, -1] >= reachable)
        chosen = origin.gather(1, kept)[is_open].flatten()
        next_token = token.gather(1, kept)[is_open].flatten()
        prefixes = torch.cat((prefixes[chosen], next_token[:, None]), dim=1)
        if is_open.all():
            if not torch.equal(chosen, torch.arange(len(rows.sentences))):
                cache = cache.select(chosen)
        else:
            cache = cache.select(chosen, is_open.nonzero()[:, 0])
            scores, sentences, ends_left = scores[is_open], sentences[is_open], ends_left[is_open]
            best_ended = best_ended[is_open]


def _only_end(
    log_probs: Float[Tensor, "sentence width vocab"], at_limit: Bool[Tensor, " sentence"]
) -> Float[Tensor, "sentence width vocab"]:
    """Forbid everything but [EOS] in sentences that have reached their maximum length."""
    only_end = torch.full_like(log_probs, NEVER)
    only_end[:, :, EOS] = log_probs[:, :, EOS]
    return torch.where(at_limit[:, None, None], only_end, log_probs)
