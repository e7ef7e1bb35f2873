"""The fast engine on a CPU: CTranslate2. Works without torch once the model is converted.

It searches only where its results are exactly those of the torch engine. Translations that it
cannot report exactly (cut at the maximum length in a beam, or with a special token) are searched
again by the torch engine.
"""

import contextlib
import importlib.util
import math
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from transduce.convert.cache import discard_converted, find_converted
from transduce.convert.ctranslate2 import (
    MAX_POSITIONS,
    open_translator,
    token_names,
    unsupported_shape,
)
from transduce.decode.engines.base import (
    EngineSetup,
    SearchInput,
    SearchResult,
    Unsupported,
    make_batches,
    max_target_length,
)
from transduce.decode.hypotheses import ENDS_PER_BEAM, Hypothesis
from transduce.decode.options import Precision, TranslateOptions
from transduce.decode.words import Ids
from transduce.errors import ConfigError, ModelError
from transduce.hardware import count_cores
from transduce.model_folder import ModelFolder
from transduce.text.vocabulary import EOS, SPECIAL_TOKENS

MIN_BATCH = 48  # sentences
MAX_HYPOTHESES: dict[Precision, int] = {"float32": 320, "int8": 48}  # of a batch
MAX_SCORED_TOKENS = 2048  # of a batch of given translations
BATCHES_PER_WORKER = 3  # unless they are too small: some batches take longer than others
NO_PENALTY = 1e-9  # instead of 0, with which CTranslate2 stops at the first finished hypothesis
# What CTranslate2's AVX512 kernels need and, last, a sign of CPUs that do not slow down for them.
AVX512_FLAGS = {"avx512f", "avx512cd", "avx512vl", "avx512bw", "avx512dq", "avx512_bf16"}


def is_installed() -> bool:
    """Return whether the package ctranslate2 is installed."""
    return importlib.util.find_spec("ctranslate2") is not None


def unsupported_models(folders: Sequence[ModelFolder]) -> Unsupported | None:
    """Return why CTranslate2 cannot search with these models, or None."""
    if not is_installed():
        return Unsupported("CTranslate2 is not installed: pip install 'transduce[fast]'")
    if len(folders) > 1:
        return Unsupported("CTranslate2 does not support ensembles")
    if folders[0].fingerprint is None:
        return Unsupported("the model has not been saved to a folder yet")
    if reason := unsupported_shape(folders[0].config.model):
        return Unsupported(f"CTranslate2 cannot represent this model: {reason}")
    return None


def unsupported_options(options: TranslateOptions) -> Unsupported | None:
    """Return which of these options CTranslate2 does not support, or None."""
    is_too_long = (options.config.max_length or 0) >= MAX_POSITIONS
    for is_requested, feature in (
        (options.config.length_penalty != "power", "the paper's length penalty"),
        (options.sampling is not None, "reproducible sampling"),
        (options.alternatives > 0, "alternatives at a position"),
        (options.no_repeat > 0, "n-gram blocking"),
        (bool(options.forbid), "forbidden phrases"),
        (is_too_long, f"translations of {MAX_POSITIONS} tokens"),
        (bool(options.prefix), "forced prefixes"),
    ):
        if is_requested:
            return Unsupported(f"CTranslate2 does not support {feature}")
    return None


def default_threads() -> int:
    """Return OMP_NUM_THREADS if it is set, as torch does, or the cores this process may use."""
    setting = os.environ.get("OMP_NUM_THREADS", "")
    if setting.isdecimal() and int(setting) > 0:
        return int(setting)
    return count_cores()


def enable_avx512(cpuinfo: Path = Path("/proc/cpuinfo")) -> None:
    """Have CTranslate2 use its AVX512 kernels on CPUs where they are faster.

    CTranslate2 reads the environment variable when it is first used. A value that is set already
    stays.
    """
    with contextlib.suppress(OSError), cpuinfo.open(encoding="utf-8") as file:
        flags = next((line for line in file if line.startswith("flags")), "")  # of the first core
        if AVX512_FLAGS.issubset(flags.split()):
            os.environ.setdefault("CT2_FORCE_CPU_ISA", "AVX512")


class Threads(NamedTuple):
    """How a CTranslate2 translator uses the cores."""

    n_workers: int  # batches searched at the same time
    n_threads: int  # of each worker


class RunningBatch(NamedTuple):
    """A batch that is being searched."""

    indices: list[int]  # of its inputs
    results: list[Any]  # a future for each input
    first_rows: list[Any]  # see `_begin_first_rows`


class CTranslate2Engine:
    """Search by CTranslate2, one worker per core."""

    def __init__(self, setup: EngineSetup) -> None:
        self._setup = setup
        self._folder = setup.folders[0]
        self.precision = setup.precision
        self.n_threads = setup.n_threads or default_threads()
        self._names = token_names(
            max(len(self._folder.source_vocabulary), len(self._folder.target_vocabulary))
        )
        self._converted: Path | Unsupported | None = None  # None: not converted yet
        self._translators: dict[Threads, Any] = {}  # those that are loaded
        self._lock = threading.Lock()  # held while the model is converted or loaded

    def __str__(self) -> str:
        return f"ctranslate2, {self.precision}, threads: {self.n_threads}"

    def unsupported(self, options: TranslateOptions) -> Unsupported | None:
        """Return why CTranslate2 cannot search, or None. The model is converted here."""
        reason = unsupported_models(self._setup.folders) or unsupported_options(options)
        if reason is not None:
            return reason
        converted = self._convert()
        return converted if isinstance(converted, Unsupported) else None

    def begin(
        self, inputs: Sequence[SearchInput], options: TranslateOptions
    ) -> Iterator[SearchResult]:
        """Begin a search in CTranslate2's own threads and return an iterator over its results."""
        config = self._folder.config.model
        max_lengths = [
            min(max_target_length(each, options, config), MAX_POSITIONS) for each in inputs
        ]
        own = [i for i, each in enumerate(inputs) if not each.terms]
        size = min(
            len(own) // (BATCHES_PER_WORKER * self.n_threads),
            MAX_HYPOTHESES[self.precision] // options.width,
        )
        batches = [
            [own[place] for place in places]
            for places in make_batches(
                [inputs[i] for i in own], options.width, self.n_threads, max(size, MIN_BATCH)
            )
        ]
        # Int8 products are too small to be shared by threads.
        if len(batches) == 1 and self.precision == "float32":
            threads = Threads(n_workers=1, n_threads=self.n_threads)
        else:
            threads = Threads(n_workers=self.n_threads, n_threads=1)
        translator = self._load(threads)
        running = []
        for batch in batches:
            sources = self._to_names([inputs[i].ids for i in batch])
            max_length = max(max_lengths[i] for i in batch)
            first_rows = _begin_first_rows(translator, sources, options)
            results = _begin_batch(translator, sources, max_length, options)
            running.append(RunningBatch(batch, results, first_rows))
        return self._wait(translator, inputs, running, max_lengths, options)

    def score(self, pairs: Sequence[tuple[Ids, Ids]]) -> list[tuple[float, ...]]:
        """Return the log-probability of each target token of each pair, [EOS] last."""
        translator = self._load(Threads(n_workers=self.n_threads, n_threads=1))
        scored = translator.score_batch(
            self._to_names([source for source, _ in pairs]),
            self._to_names([target for _, target in pairs]),
            max_batch_size=MAX_SCORED_TOKENS,
            batch_type="tokens",
            max_input_length=0,
        )
        return [tuple(result.log_probs) for result in scored]

    def _wait(
        self,
        translator: Any,
        inputs: Sequence[SearchInput],
        running: Sequence[RunningBatch],
        max_lengths: Sequence[int],
        options: TranslateOptions,
    ) -> Iterator[SearchResult]:
        """Yield results as batches end, then those that take more work."""
        truncated: dict[int, Hypothesis] = {}  # greedy ones; their [EOS] has no score yet
        inexact = [i for i, each in enumerate(inputs) if each.terms]  # for the torch engine
        for batch in running:
            for i, future, first in zip(*batch, strict=True):
                with _name_errors():
                    result = future.result()
                    first_row = first.result().attention[0][0] if first is not None else None
                hypotheses = _read_result(result, max_lengths[i], options, first_row)
                if not hypotheses:
                    inexact.append(i)
                elif hypotheses[0].truncated:
                    truncated[i] = hypotheses[0]
                else:
                    yield i, hypotheses
        if truncated:
            sources = self._to_names([inputs[i].ids for i in truncated])
            targets = self._to_names([best.ids for best in truncated.values()])
            scored = translator.score_batch(sources, targets, max_input_length=0)
            for (i, best), result in zip(truncated.items(), scored, strict=True):
                log_prob = sum(result.log_probs)
                score = log_prob / len(result.log_probs) ** options.config.alpha
                yield i, [replace(best, log_prob=log_prob, score=score)]
        if inexact:
            reference = self._setup.reference()
            for place, hypotheses in reference.begin([inputs[i] for i in inexact], options):
                yield inexact[place], hypotheses

    def _convert(self) -> Path | Unsupported:
        """Return the folder of the converted model, or why there is none. Tries once."""
        with self._lock:
            if self._converted is None:
                enable_avx512()
                try:
                    with _name_errors():
                        self._converted = find_converted(self._folder, self._setup.log)
                except (ModelError, RuntimeError, OSError, ImportError) as error:
                    self._converted = Unsupported(str(error))
            return self._converted

    def _load(self, threads: Threads) -> Any:
        """Return a translator with this use of threads, loaded once."""
        converted = self._convert()
        if isinstance(converted, Unsupported):
            raise ModelError(converted.reason)
        with self._lock:
            if threads not in self._translators:
                try:
                    translator = _open_translator(converted, self.precision, threads)
                except RuntimeError:  # emptied in the meantime, or no model: convert again
                    discard_converted(converted)
                    self._converted = find_converted(self._folder, self._setup.log)
                    translator = _open_translator(self._converted, self.precision, threads)
                self._translators[threads] = translator
            return self._translators[threads]

    def _to_names(self, rows: Sequence[Sequence[int]]) -> list[list[str]]:
        return [[self._names[i] for i in ids] for ids in rows]


def _open_translator(converted: Path, precision: Precision, threads: Threads) -> Any:
    with _name_errors():
        return open_translator(
            converted,
            compute_type="int8_float32" if precision == "int8" else "float32",
            inter_threads=threads.n_workers,
            intra_threads=threads.n_threads,
            max_queued_batches=-1,
        )


@contextlib.contextmanager
def _name_errors() -> Iterator[None]:
    """Turn CTranslate2's errors about its environment variables into ConfigError."""
    try:
        yield
    except ValueError as error:
        raise ConfigError(
            f"CTranslate2 cannot run: {error}; "
            "correct its environment variables (CT2_...), or choose --engine torch"
        ) from None


def _begin_batch(
    translator: Any, sources: list[list[str]], max_length: int, options: TranslateOptions
) -> list[Any]:
    """Begin to search a batch and return a future for each source.

    For n-best lists all hypotheses that end are requested: see `_read_result`.
    """
    is_list = options.n_best > 1
    futures: list[Any] = translator.translate_batch(
        sources,
        beam_size=options.width,
        num_hypotheses=ENDS_PER_BEAM * options.width if is_list else 1,
        patience=ENDS_PER_BEAM,  # it rounds beam_size * patience
        length_penalty=options.config.alpha or NO_PENALTY,
        max_input_length=0,
        max_decoding_length=max_length,
        return_scores=True,
        return_end_token=True,
        return_attention=options.attention,
        asynchronous=True,
    )
    return futures


def _begin_first_rows(
    translator: Any, sources: list[list[str]], options: TranslateOptions
) -> list[Any]:
    """Begin to compute the attention of the first target token; return a future for each source.

    In a beam CTranslate2 returns that of another sentence of the batch. The attention depends only
    on the source and [SOS], so one greedy step finds it for all hypotheses. There are no futures
    but None where attention is not requested or is right already.
    """
    if not (options.attention and options.width > 1 and len(sources) > 1):
        return [None] * len(sources)
    futures: list[Any] = translator.translate_batch(
        sources,
        beam_size=1,
        max_input_length=0,
        max_decoding_length=1,
        return_end_token=True,  # there is one token and one row, whatever its scores
        return_attention=True,
        asynchronous=True,
    )
    return futures


def _read_result(
    result: Any,
    max_length: int,
    options: TranslateOptions,
    first_row: Sequence[float] | None = None,
) -> list[Hypothesis]:
    """Return the hypotheses of a result, or none if the torch engine must search again.

    A greedy hypothesis is cut at its maximum length, which may be less than that of the batch.
    One with a special token has taken the place of another in the beam, so it makes the whole
    result inexact, at whatever rank it is returned. `first_row` replaces the attention of the
    first token.
    """
    n_special = len(SPECIAL_TOKENS)
    hypotheses = []
    attentions = result.attention or [None] * len(result.hypotheses)
    for names, score, rows in zip(result.hypotheses, result.scores, attentions, strict=True):
        ids = tuple(map(int, names))
        has_ended = ids[-1] == EOS and len(ids) <= max_length
        n_tokens = len(ids) - 1 if has_ended else max_length - 1
        tokens = ids[:n_tokens]
        has_special = min(tokens, default=n_special) < n_special
        is_cut_in_beam = not has_ended and options.width > 1
        if is_cut_in_beam or has_special or not math.isfinite(score):
            return []
        log_prob = score * len(ids) ** options.config.alpha
        if rows is not None and first_row is not None:
            rows = [first_row, *rows[1:]]
        attention = np.array(rows[:n_tokens], dtype=np.float32) if rows is not None else None
        hypotheses.append(Hypothesis(tokens, log_prob, score, not has_ended, attention))
    return hypotheses[: options.n_best]
