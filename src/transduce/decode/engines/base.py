"""The `Engine` protocol, the types that pass through it, and what engines share.

An engine finds the most likely translations of encoded sentences. To add one, implement `Engine`
and add it to the table in engines/registry.py.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, runtime_checkable

from transduce.config import ModelConfig
from transduce.data.budget import cut_batches
from transduce.decode.hypotheses import Hypothesis, add_hypothesis, needs_greedy
from transduce.decode.options import Precision, TranslateOptions
from transduce.decode.words import Ids, RequiredTerm
from transduce.errors import UsageError
from transduce.log import Log
from transduce.model_folder import ModelFolder

EXTRA_LENGTH = 50  # a translation may have this many tokens more than its source (section 6.1)
MAX_BATCH_TOKENS = 8192  # source tokens of a batch, times the beam
MAX_PREFIX_TOKENS = 512  # of a prefix, as many as of a source; the time grows with the square


class SearchInput(NamedTuple):
    """A source sentence to translate."""

    ids: Ids  # without [EOS]
    prefix: Ids = ()  # the translation begins with these tokens
    terms: tuple[RequiredTerm, ...] = ()  # the translation contains these terms
    text_number: int = 0  # with sampling: what is drawn depends on the number of the text
    part_number: int = 0  # and of the part of that text; otherwise equal inputs are one search


SearchResult = tuple[int, list[Hypothesis]]  # index of the input, its hypotheses, best first


@dataclass(frozen=True, slots=True)
class Unsupported:
    """An engine's answer to options or a model that it cannot search with."""

    reason: str  # for people

    def __str__(self) -> str:
        return self.reason


@runtime_checkable
class Engine(Protocol):
    """Searches for translations. Its methods may be called from several threads at once.

    `str(engine)` is one line for people: name, precision, threads.
    """

    def unsupported(self, options: TranslateOptions) -> Unsupported | None:
        """Return why this engine cannot search under these options, or None if it can.

        An engine that must prepare a model (convert it, load it) does so here.
        """
        ...

    def begin(
        self, inputs: Sequence[SearchInput], options: TranslateOptions
    ) -> Iterator[SearchResult]:
        """Begin a search and return an iterator over its results, each input once, in any order.

        With `options.attention` each hypothesis has the cross-attention of
        `ModelConfig.alignment_layer`. An engine that has none says so in `unsupported`.

        An engine with threads of its own searches while the caller does other work. There are no
        hypotheses for an input whose terms cannot all be met, or if the scores are NaN.
        """
        ...

    def score(self, pairs: Sequence[tuple[Ids, Ids]]) -> list[tuple[float, ...]]:
        """Return the log-probability of each target token of each pair, [EOS] last."""
        ...


@dataclass(frozen=True)
class EngineSetup:
    """What an engine is opened with."""

    folders: tuple[ModelFolder, ...]  # several: an ensemble
    precision: Precision
    n_threads: int | None  # None: the engine's default
    log: Log
    reference: Callable[[], Engine]  # opens the torch engine, for what another cannot do exactly


def search_all(
    engine: Engine, inputs: Sequence[SearchInput], options: TranslateOptions
) -> list[list[Hypothesis]]:
    """Search with an engine, wait for it, and return the hypotheses of each input in order."""
    found = dict(begin_search(engine, inputs, options))
    return [found[i] for i in range(len(inputs))]


def begin_search(
    engine: Engine, inputs: Sequence[SearchInput], options: TranslateOptions
) -> Iterator[SearchResult]:
    """Begin a search under the whole stop rule (see hypotheses.py) and return its results."""
    results = engine.begin(inputs, options)
    is_plain_beam = options.sampling is None and not options.alternatives and options.width > 1
    return _join_greedy(engine, inputs, options, results) if is_plain_beam else results


def _join_greedy(
    engine: Engine,
    inputs: Sequence[SearchInput],
    options: TranslateOptions,
    results: Iterator[SearchResult],
) -> Iterator[SearchResult]:
    """Yield results, those that are uncertain last, with the hypotheses of greedy search."""
    uncertain: dict[int, list[Hypothesis]] = {}
    for i, hypotheses in results:
        if needs_greedy(hypotheses) and not inputs[i].terms:  # terms need a beam
            uncertain[i] = hypotheses
        else:
            yield i, hypotheses
    if not uncertain:
        return

    config = options.config.model_copy(update={"beam": 1})
    greedy_options = replace(options, config=config, n_best=1)
    numbers = list(uncertain)
    for place, greedy in engine.begin([inputs[i] for i in numbers], greedy_options):
        i = numbers[place]
        yield i, add_hypothesis(uncertain[i], greedy[0], options.n_best) if greedy else uncertain[i]


def max_target_length(
    search_input: SearchInput, options: TranslateOptions, model: ModelConfig
) -> int:
    """Return the maximum length of a translation in tokens, [EOS] included.

    It is source length + 50 (section 6.1) or `max_length`, with room for the terms, and never more
    than the learned positions of the model. After a prefix that is longer than the source it is
    prefix length + 50.

    Raise UsageError for a prefix that leaves no room for a translation.
    """
    n_source, n_prefix = len(search_input.ids), len(search_input.prefix)
    max_length = options.config.max_length
    max_prefix = min(MAX_PREFIX_TOKENS, max_length or MAX_PREFIX_TOKENS)
    if n_prefix > max_prefix:
        advice = "shorten it" if max_prefix != max_length else "shorten it, or raise --max-length"
        raise UsageError(
            f"the prefix has {n_prefix:,} tokens, more than the {max_prefix} that a translation "
            f"may begin with; {advice}"
        )
    n_terms = sum(min(map(len, term.spellings)) for term in search_input.terms)
    length = max_length or max(n_source, n_prefix) + EXTRA_LENGTH + n_terms
    return min(length + 1, model.max_positions) if model.positions == "learned" else length + 1


def make_batches(
    inputs: Sequence[SearchInput], width: int, n_workers: int, max_size: int
) -> list[list[int]]:
    """Group inputs of similar length, the longest first, and return the indices of each batch.

    A batch has at most `max_size` inputs and MAX_BATCH_TOKENS tokens, counting `width` hypotheses
    for each input. Batches are of equal size, and as many for each worker, as far as possible.
    """
    order = sorted(range(len(inputs)), key=lambda i: len(inputs[i].ids))
    n_rounds = math.ceil(len(order) / (n_workers * max_size)) or 1
    size = math.ceil(len(order) / (n_workers * n_rounds)) or 1

    batches: list[list[int]] = []
    for start in range(0, len(order), size):
        group = order[start : start + size]
        costs = [(len(inputs[i].ids) + 1) * width for i in group]
        cuts = cut_batches(costs, MAX_BATCH_TOKENS)
        batches += [[group[place] for place in places] for places in cuts]
    batches.reverse()
    return batches
