"""The reference engine: search in torch, in batches spread over the cores."""

import copy
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from transduce.data.batch import encode_source, pad
from transduce.decode.constraints import Constraints, TermConstraint
from transduce.decode.engines.base import (
    SearchInput,
    SearchResult,
    Unsupported,
    make_batches,
    max_target_length,
)
from transduce.decode.hypotheses import Hypothesis, Penalty, make_penalty
from transduce.decode.options import Precision, Sampling, TranslateOptions
from transduce.decode.rules import begin_with, forbid, no_repeat, not_empty, only_text
from transduce.decode.sampling import sampler
from transduce.decode.scoring import AttentionRecorder, ScoredTarget, score_targets
from transduce.decode.search import (
    NEVER,
    Candidates,
    Rows,
    Rule,
    SearchStep,
    Select,
    Step,
    collect,
    explore,
    top_k,
)
from transduce.decode.words import Ids, Words
from transduce.hardware import keep_freed_memory
from transduce.model import Transformer
from transduce.model.cache import Cache
from transduce.text.vocabulary import PAD, Vocabulary

# Sentences of a batch: as many as make MAX_HYPOTHESES, but from MIN_BATCH to MAX_BATCH.
MIN_BATCH = 32
MAX_BATCH = 96
MAX_HYPOTHESES = 192

# Held by a thread while it changes torch's number of threads. `torch.set_num_threads` changes it
# for the calling thread, and the default of every thread that has not used torch yet.
THREAD_COUNT_LOCK = threading.Lock()


class Caches(NamedTuple):
    """The caches of the models of an ensemble, or of one model."""

    each: tuple[Cache, ...]

    def select(
        self, rows: Int[Tensor, " rows"], sentences: Int[Tensor, " sentences"] | None = None
    ) -> "Caches":
        """Return the caches of some rows."""
        return Caches(tuple(cache.select(rows, sentences) for cache in self.each))


def model_step(models: Sequence[Transformer]) -> Step[Caches]:
    """Return the step function of a model, or of several whose probabilities are averaged."""

    def step(ids: Int[Tensor, " row"], caches: Caches) -> tuple[Float[Tensor, "row vocab"], Caches]:
        log_probs, after = [], []
        for model, cache in zip(models, caches.each, strict=True):
            hidden, cache = model.decode(ids[:, None], cache)
            log_probs.append(torch.log_softmax(model.logits(hidden[:, 0]).float(), dim=-1).cpu())
            after.append(cache)
        if len(models) == 1:
            return log_probs[0], Caches(tuple(after))
        mean = torch.stack(log_probs).logsumexp(dim=0) - math.log(len(models))
        return mean, Caches(tuple(after))

    return step


def branch(prefix_lengths: Sequence[int]) -> Select:
    """Return a selection that finds alternatives at one position.

    After the prefix, the likeliest tokens each start a hypothesis; from there on every hypothesis
    is continued greedily on its own.
    """
    lengths = torch.tensor(prefix_lengths)

    def select(
        rows: Rows,
        scores: Float[Tensor, "sentence width"],
        log_probs: Float[Tensor, "sentence width vocab"],
        n: int,
    ) -> Candidates:
        width = scores.shape[1]
        sentences = rows.sentences.view(-1, width)[:, 0]
        at_fork = lengths[sentences] + 1 == rows.prefixes.shape[1]

        best, token = log_probs.max(dim=2)
        beam = torch.arange(width).expand(len(scores), -1)
        greedy = _widen(Candidates(beam, token, scores + best), n)

        forked = top_k(rows, scores, log_probs, n)
        forked.score[:, n // 2 :] = NEVER
        forked = _widen(forked, n)

        return Candidates(
            *(torch.where(at_fork[:, None], a, b) for a, b in zip(forked, greedy, strict=True))
        )

    return select


def _widen(candidates: Candidates, n: int) -> Candidates:
    """Add impossible candidates until each sentence has n."""
    n_missing = n - candidates.score.shape[1]
    beam, token, score = (torch.nn.functional.pad(each, (0, n_missing)) for each in candidates)
    score[:, n - n_missing :] = NEVER
    return Candidates(beam, token, score)


@dataclass(frozen=True)
class SearchPlan:
    """A batch with everything `explore` needs to search it."""

    step: Step[Caches]
    cache: Caches
    max_lengths: list[int]
    width: int
    select: Select
    rules: list[Rule]
    penalty: Penalty
    n_best: int
    n_ends: int | None = None  # None: those of the stop rule
    constraints: Constraints | None = None  # if a sentence has terms

    def explore(self, n_best: int | None = None) -> Iterator[SearchStep]:
        """Search and yield each time step; with `n_best`, no longer than these need."""
        return explore(
            self.step,
            self.cache,
            self.max_lengths,
            width=self.width,
            select=self.select,
            rules=self.rules,
            penalty=self.penalty,
            n_ends=self.n_ends,
            n_best=n_best,
        )

    def search(self) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence, best first."""
        n_sentences = len(self.max_lengths)
        if self.constraints is None:
            return collect(self.explore(self.n_best), n_sentences)
        found = collect(self.explore(), n_sentences)
        return [self.constraints.rank(i, each, self.penalty) for i, each in enumerate(found)]


def _attend(hypothesis: Hypothesis, scored: ScoredTarget) -> Hypothesis:
    """Return a hypothesis with its attention, without that of [EOS]."""
    assert scored.attention is not None, "scored with attention"
    return replace(hypothesis, attention=scored.attention[:-1, :-1])


class TorchEngine:
    """Search in torch with one model or an ensemble: the reference, which supports all options."""

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
        if precision == "bf16":
            self.models = [copy.deepcopy(model).to(torch.bfloat16) for model in models]
        else:
            self.models = list(models)
        # Slow to build, and the same for all batches.
        self._forbid = lru_cache(maxsize=1)(partial(forbid, words=self.words))
        keep_freed_memory()

    def __str__(self) -> str:
        n_models = f"{len(self.models)} models together, " if len(self.models) > 1 else ""
        return f"torch, {n_models}{self.precision}, threads: {self.n_threads}"

    def unsupported(self, options: TranslateOptions) -> Unsupported | None:
        """Return None: all options are supported."""
        return None

    def begin(
        self, inputs: Sequence[SearchInput], options: TranslateOptions
    ) -> Iterator[SearchResult]:
        """Search when the first result is requested: torch would compete with the caller for cores.

        A single batch is searched by all threads together, several batches by one thread each.
        """
        max_size = max(MIN_BATCH, min(MAX_BATCH, MAX_HYPOTHESES // options.width))
        batches = make_batches(inputs, options.width, self.n_threads, max_size)

        def work(batch: list[int]) -> list[list[Hypothesis]]:
            of_batch = [inputs[i] for i in batch]
            with torch.inference_mode():
                found = self.plan(of_batch, options).search()
            return self._with_attention(of_batch, found) if options.attention else found

        for batch, found in zip(batches, self._map(work, batches), strict=True):
            yield from zip(batch, found, strict=True)

    def score(self, pairs: Sequence[tuple[Ids, Ids]]) -> list[tuple[float, ...]]:
        """Return the log-probability of each target token of each pair, [EOS] last."""
        sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
        return [each.log_probs for each in score_targets(self.models, sources, targets)]

    def stream(self, search_input: SearchInput, options: TranslateOptions) -> Iterator[SearchStep]:
        """Search for one sentence and yield each time step."""
        with torch.inference_mode():
            steps = self.plan([search_input], options).explore()
        while True:
            with torch.inference_mode():  # not while the caller's code runs
                step = next(steps, None)
            if step is None:
                return
            yield step

    def _with_attention(
        self, inputs: Sequence[SearchInput], found: Sequence[Sequence[Hypothesis]]
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses with their attention, which takes another pass of the model."""
        sources = [each.ids for each, own in zip(inputs, found, strict=True) for _ in own]
        flat = [hypothesis for own in found for hypothesis in own]
        scored = score_targets(
            self.models,
            sources,
            [each.ids for each in flat],
            with_attention=True,
            recorder=self._recorder,
        )
        attended = iter([_attend(*each) for each in zip(flat, scored, strict=True)])
        return [[next(attended) for _ in own] for own in found]

    def plan(self, inputs: Sequence[SearchInput], options: TranslateOptions) -> SearchPlan:
        """Encode a batch, and choose the rules and the selection that the options require."""
        source = pad([encode_source(each.ids) for each in inputs])
        max_lengths = [
            min(max_target_length(each, options, model.config) for model in self.models)
            for each in inputs
        ]
        models = self.models
        rules: list[Rule] = [only_text, not_empty]
        select: Select = top_k
        constraints = None

        if options.no_repeat:
            rules.append(no_repeat(options.no_repeat))
        if options.forbid:
            rules.append(self._forbid(options.forbid))
        if any(each.terms for each in inputs):
            recorder = self._recorder
            models = [recorder.model, *self.models[1:]]
            terms = [
                TermConstraint(each.terms, self.words) if each.terms else None for each in inputs
            ]
            constraints = Constraints(terms, max_lengths, lambda: recorder.row_attention)
            rules.append(constraints.rule)
            select = constraints.select
        if any(each.prefix for each in inputs):
            rules = [begin_with([each.prefix for each in inputs], rules)]
        if options.alternatives:
            select = branch([len(each.prefix) for each in inputs])
        if options.sampling is not None:
            select = _make_sampler(options.sampling, inputs)

        caches = [model.start(source, source != PAD).contiguous() for model in models]
        return SearchPlan(
            step=model_step(models),
            cache=Caches(tuple(caches)),
            max_lengths=max_lengths,
            width=options.width,
            select=select,
            rules=rules,
            penalty=make_penalty(options.config),
            n_best=options.alternatives or options.n_best,
            constraints=constraints,
        )

    @cached_property
    def _recorder(self) -> AttentionRecorder:
        return AttentionRecorder(self.models[0])

    @cached_property
    def _workers(self) -> ThreadPoolExecutor:
        """Threads that search one batch each, on one core each.

        All are started at once, because torch is limited to one core when a thread starts.
        """
        barrier = threading.Barrier(self.n_threads + 1)
        pool = ThreadPoolExecutor(self.n_threads, initializer=torch.set_num_threads, initargs=(1,))
        for _ in range(self.n_threads):
            pool.submit(barrier.wait)
        barrier.wait()
        return pool

    def _map(
        self, work: Callable[[list[int]], list[list[Hypothesis]]], batches: list[list[int]]
    ) -> list[list[list[Hypothesis]]]:
        """Apply `work` to each batch. Safe to call from several threads at once.

        Single batches wait for each other: each uses all threads.
        """
        with THREAD_COUNT_LOCK:
            before = torch.get_num_threads()
            try:
                if len(batches) == 1 or self.n_threads == 1:
                    torch.set_num_threads(self.n_threads)
                    return [work(batch) for batch in batches]
                workers = self._workers
            finally:
                torch.set_num_threads(before)
        return list(workers.map(work, batches))


def _make_sampler(sampling: Sampling, inputs: Sequence[SearchInput]) -> Select:
    generators = [
        np.random.default_rng((sampling.seed, sampling.first + each.text_number, each.part_number))
        for each in inputs
    ]
    return sampler(generators, sampling.temperature, sampling.top_k, sampling.top_p)
