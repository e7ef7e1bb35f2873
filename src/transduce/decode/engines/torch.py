"""The reference engine: search in torch, its work cut into batches and spread over the cores."""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from transduce.data.batch import encode_source, pad
from transduce.decode.constraints import Constraints, TermConstraint
from transduce.decode.engines.base import SearchInput, limit, schedule
from transduce.decode.hypotheses import Hypothesis, make_penalty
from transduce.decode.options import Precision, TranslateOptions
from transduce.decode.rules import begin_with, forbid, no_repeat, only_text
from transduce.decode.sampling import sampler
from transduce.decode.scoring import Watched
from transduce.decode.search import (
    NEVER,
    Candidates,
    Rows,
    Rule,
    SearchStep,
    Select,
    Step,
    explore,
    search,
    top_k,
)
from transduce.decode.words import Words
from transduce.hardware import keep_freed_memory
from transduce.model import Transformer
from transduce.model.cache import Cache
from transduce.text.vocabulary import PAD, Vocabulary

FEW, MANY, MOST_HYPOTHESES = (
    32,
    96,
    192,
)  # of a batch: sentences with wide beams and greedily, and hypotheses between
MORE_ENDS = 2  # times the beam, of hypotheses with terms: those that skip to their terms end first


class Caches(NamedTuple):
    """The caches of several models that search together, and what each row attended to, if somebody watches."""

    each: tuple[Cache, ...]
    attention: Float[Tensor, "row source"] | None = None

    def select(
        self, rows: Int[Tensor, " rows"], sentences: Int[Tensor, " sentences"] | None = None
    ) -> "Caches":
        """The caches of some rows."""
        return Caches(tuple(cache.select(rows, sentences) for cache in self.each))


def model_step(models: Sequence[Transformer], watched: Watched | None = None) -> Step[Caches]:
    """One model, or several whose probabilities are averaged, as the step function that search takes.

    If the first model is watched, the cache has what each row attended to.
    """

    def step(ids: Int[Tensor, " row"], caches: Caches) -> tuple[Float[Tensor, "row vocab"], Caches]:
        log_probs, after = [], []
        for model, cache in zip(models, caches.each, strict=True):
            hidden, cache = model.decode(ids[:, None], cache)
            log_probs.append(torch.log_softmax(model.logits(hidden[:, 0]).float(), dim=-1).cpu())
            after.append(cache)
        seen = watched.attention.flatten(end_dim=1) if watched is not None else None
        if len(models) == 1:
            return log_probs[0], Caches(tuple(after), seen)
        return torch.stack(log_probs).logsumexp(dim=0) - math.log(len(models)), Caches(
            tuple(after), seen
        )

    return step


def branch(prefix_lengths: Sequence[int]) -> Select:
    """After the prefix the likeliest pieces, each of which then goes its own way, greedily: alternatives at a position."""
    lengths = torch.tensor(prefix_lengths)

    def select(
        rows: Rows,
        scores: Float[Tensor, "sentence width"],
        log_probs: Float[Tensor, "sentence width vocab"],
        n: int,
    ) -> Candidates:
        width = scores.shape[1]
        here = lengths[rows.sentences[::width]] + 1 == rows.prefixes.shape[1]
        best, piece = log_probs.max(dim=2)
        beam = torch.arange(width).expand(len(scores), -1)
        alone = Candidates(
            *(
                torch.nn.functional.pad(each, (0, n - width))
                for each in (beam, piece, scores + best)
            )
        )
        alone.score[:, width:] = NEVER
        fork = top_k(rows, scores, log_probs, n)
        fork.score[:, n // 2 :] = NEVER
        filled = Candidates(
            *(torch.nn.functional.pad(each, (0, n - each.shape[1])) for each in fork)
        )
        filled.score[:, fork.score.shape[1] :] = NEVER
        return Candidates(
            *(torch.where(here[:, None], a, b) for a, b in zip(filled, alone, strict=True))
        )

    return select


class Plan(NamedTuple):
    """A batch that is ready to be searched."""

    step: Step[Caches]
    caches: Caches
    limits: list[int]
    asked: dict[str, Any]  # width, select, rules and penalty
    constraints: Constraints | None


class TorchEngine:
    """Search in torch, with one model or an ensemble: the reference, which can do everything that can be asked."""

    def __init__(
        self,
        models: Sequence[Transformer],
        vocabulary: Vocabulary,
        precision: Precision = "float32",
        n_threads: int | None = None,
    ) -> None:
        self.words = Words(vocabulary)
        self.precision = precision
        self.n_threads = n_threads or torch.get_num_threads()
        bf16 = precision == "bf16"
        self.models = (
            [copy.deepcopy(model).to(torch.bfloat16) for model in models] if bf16 else list(models)
        )
        self._pool: ThreadPoolExecutor | None = None
        # Slow to make, the same for all batches.
        self._forbid = lru_cache(maxsize=1)(lambda phrases: forbid(phrases, self.words))
        keep_freed_memory()

    @cached_property
    def _watched(self) -> Watched:
        return Watched(self.models[0])

    def __str__(self) -> str:
        n_models = f"{len(self.models)} models together, " if len(self.models) > 1 else ""
        return f"torch, {n_models}{self.precision}, threads: {self.n_threads}"

    def search(
        self, sentences: Sequence[SearchInput], options: TranslateOptions
    ) -> list[list[Hypothesis]]:
        """The best hypotheses of each sentence: a batch by one thread, several batches side by side."""
        found: list[list[Hypothesis]] = [[] for _ in sentences]
        most = max(FEW, min(MANY, MOST_HYPOTHESES // options.width))
        batches = schedule(sentences, options.width, self.n_threads, most)

        def work(batch: list[int]) -> list[list[Hypothesis]]:
            with torch.inference_mode():
                plan = self.plan([sentences[i] for i in batch], options)
                hypotheses = search(plan.step, plan.caches, plan.limits, **plan.asked)
            if plan.constraints is None:
                return hypotheses
            return [
                plan.constraints.rank(i, each, make_penalty(options.config))
                for i, each in enumerate(hypotheses)
            ]

        for batch, hypotheses in zip(batches, self._map(work, batches), strict=True):
            for i, best in zip(batch, hypotheses, strict=True):
                found[i] = best
        return found

    def begin(
        self, sentences: Sequence[SearchInput], options: TranslateOptions
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """The same by number. It begins when the first is asked for: torch has no cores to spare for work on text."""
        yield from enumerate(self.search(sentences, options))

    def stream(self, sentence: SearchInput, options: TranslateOptions) -> Iterator[SearchStep]:
        """The search for one sentence, time step by time step."""
        with torch.inference_mode():
            plan = self.plan([sentence], options)
            moments = explore(plan.step, plan.caches, plan.limits, **plan.asked)
        while True:
            with torch.inference_mode():  # not while somebody else's code runs
                moment = next(moments, None)
            if moment is None:
                return
            yield moment

    def plan(self, sentences: Sequence[SearchInput], options: TranslateOptions) -> Plan:
        """A batch as `search` takes it, with the rules and the selection that were asked for."""
        source = pad([encode_source(sentence.ids) for sentence in sentences])
        limits = [
            min(limit(sentence, options, model.config) for model in self.models)
            for sentence in sentences
        ]
        rules: list[Rule] = [only_text]
        select: Select = top_k
        watched = constraints = n_ends = None
        if options.no_repeat:
            rules.append(no_repeat(options.no_repeat))
        if options.forbid:
            rules.append(self._forbid(options.forbid))
        if any(sentence.terms for sentence in sentences):
            demands = [
                TermConstraint(sentence.terms, self.words) if sentence.terms else None
                for sentence in sentences
            ]
            constraints = Constraints(demands, limits)
            rules.append(constraints.rule)
            select = constraints.select
            watched = self._watched
            n_ends = [options.width * (MORE_ENDS if demand else 1) for demand in demands]
        if any(sentence.prefix for sentence in sentences):
            rules = [begin_with([sentence.prefix for sentence in sentences], rules)]
        if options.alternatives:
            select = branch([len(sentence.prefix) for sentence in sentences])
        if (drawing := options.sampling) is not None:
            seeds = [
                (drawing.seed, drawing.first + sentence.number, sentence.part)
                for sentence in sentences
            ]
            generators = [np.random.default_rng(seed) for seed in seeds]
            select = sampler(generators, drawing.temperature, drawing.top_k, drawing.top_p)
        asked: dict[str, Any] = {
            "width": options.width,
            "select": select,
            "rules": rules,
            "n_ends": n_ends,
        }
        asked["penalty"] = make_penalty(options.config)
        models = [watched.model, *self.models[1:]] if watched else self.models
        caches = Caches(tuple(model.start(source, source != PAD).contiguous() for model in models))
        return Plan(model_step(models, watched), caches, limits, asked, constraints)

    def _map(
        self, work: Callable[[list[int]], list[list[Hypothesis]]], batches: list[list[int]]
    ) -> list[list[list[Hypothesis]]]:
        before = (
            torch.get_num_threads()
        )  # a thread that sets its number sets that of threads to come, too
        try:
            if len(batches) == 1 or self.n_threads == 1:
                torch.set_num_threads(self.n_threads)
                return [work(batch) for batch in batches]
            if self._pool is None:
                self._pool = ThreadPoolExecutor(
                    self.n_threads, initializer=lambda: torch.set_num_threads(1)
                )
            return list(self._pool.map(work, batches))
        finally:
            torch.set_num_threads(before)
