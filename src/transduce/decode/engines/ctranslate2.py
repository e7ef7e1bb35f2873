"""The production engine on a CPU: CTranslate2.

It is given what it does exactly as the reference does; what it cannot say exactly (a translation that reached its maximum length
in a beam, or holds a special piece) is searched again by the reference.
"""

import contextlib
import importlib.util
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transduce.convert.ctranslate2 import POSITIONS, names, why_not
from transduce.convert.ctranslate2_cache import find_converted
from transduce.decode.engines.base import SearchInput, limit, schedule
from transduce.decode.hypotheses import Hypothesis
from transduce.decode.options import Precision, TranslateOptions
from transduce.hardware import count_cores
from transduce.log import Log
from transduce.model_folder import ModelFolder
from transduce.text.vocabulary import EOS, SPECIAL_TOKENS

if TYPE_CHECKING:
    import transduce.decode.engines.torch

FEW, MOST_HYPOTHESES = (
    48,
    {"float32": 320, "int8": 48},
)  # of a batch: sentences at least, hypotheses at most
EACH = 3  # batches for each worker, if they are not too small: one takes longer than another
NO_PENALTY = 1e-9  # instead of 0, at which CTranslate2 stops at the first hypothesis that ends
# What CTranslate2's AVX512 kernels need and, last, a sign of processors that do not slow down for them.
WIDE = {"avx512f", "avx512cd", "avx512vl", "avx512bw", "avx512dq", "avx512_bf16"}


def is_installed() -> bool:
    """Whether there is a CTranslate2."""
    return importlib.util.find_spec("ctranslate2") is not None


def why_not_fast(folders: Sequence[ModelFolder], options: TranslateOptions) -> str | None:
    """Why CTranslate2 cannot do what is asked, or None."""
    config = folders[0].config.model
    if not is_installed():
        return "CTranslate2 is not installed: pip install 'transduce[fast]'"
    if len(folders) > 1:
        return "CTranslate2 has no ensembles"
    if folders[0].fingerprint is None:
        return "the model is not in a folder yet"
    if reason := why_not(config):
        return f"CTranslate2 cannot hold this model: {reason}"
    for is_asked, what in (
        (options.config.length_penalty != "power", "length penalty as in the paper"),
        (options.sampling is not None, "draws that follow a seed"),
        (options.alternatives, "alternatives"),
        (options.no_repeat, "n-gram blocking"),
        (options.forbid, "forbidden words"),
        ((options.config.max_length or 0) >= POSITIONS, f"translations of {POSITIONS} pieces"),
        (options.has_terms, "terms that are guaranteed"),
        (options.prefix, "forced prefixes"),
    ):
        if is_asked:
            return f"CTranslate2 has no {what}"
    return None


def n_cores() -> int:
    """Threads to work with: as many as OMP_NUM_THREADS says, as torch does, else the cores this process may use."""
    told = os.environ.get("OMP_NUM_THREADS", "")
    return int(told) if told.isdecimal() and int(told) else count_cores()


def ask_for_wide_kernels(processor: Path = Path("/proc/cpuinfo")) -> None:
    """Have CTranslate2 use its AVX512 kernels where they pay. It does so only if told, before it is first used."""
    with contextlib.suppress(OSError), processor.open(encoding="utf-8") as file:
        flags = next(
            (line for line in file if line.startswith("flags")), ""
        )  # all cores have the same
        if set(flags.split()) >= WIDE:
            os.environ.setdefault("CT2_FORCE_CPU_ISA", "AVX512")


class CTranslate2Engine:
    """Search by CTranslate2, one worker a core."""

    def __init__(
        self,
        folder: ModelFolder,
        precision: Precision,
        n_threads: int | None,
        reference: "Callable[[], transduce.decode.engines.torch.TorchEngine]",
        log: Log,
    ) -> None:
        self._reference = reference
        self._config = folder.config.model
        self.precision = precision
        self.n_threads = n_threads or n_cores()
        self._names = names(max(len(folder.source_vocabulary), len(folder.target_vocabulary)))
        ask_for_wide_kernels()
        self._find = partial(find_converted, folder, log)
        self._where = self._find()
        self._loaded: dict[
            tuple[int, int], Any
        ] = {}  # by workers and threads of each, when the first sentences come

    def __str__(self) -> str:
        return f"ctranslate2, {self.precision}, threads: {self.n_threads}"

    def search(
        self, sentences: Sequence[SearchInput], options: TranslateOptions
    ) -> list[list[Hypothesis]]:
        """The best hypotheses of each sentence."""
        found = dict(self.begin(sentences, options))
        return [found[i] for i in range(len(sentences))]

    def begin(
        self, sentences: Sequence[SearchInput], options: TranslateOptions
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Begin a search that goes on by itself; the numbers of sentences and their hypotheses come as batches end."""
        limits = [min(limit(sentence, options, self._config), POSITIONS) for sentence in sentences]
        some = min(
            len(sentences) // (EACH * self.n_threads),
            MOST_HYPOTHESES[self.precision] // options.width,
        )
        batches = schedule(sentences, options.width, self.n_threads, max(some, FEW))
        alone = (
            len(batches) == 1 and self.precision == "float32"
        )  # products in int8 are too small to share
        translator = self._open((1, self.n_threads) if alone else (self.n_threads, 1))
        waiting = [
            (batch, self._begin(translator, sentences, batch, limits, options)) for batch in batches
        ]
        return self._wait(translator, sentences, waiting, limits, options)

    def _wait(
        self,
        translator: Any,
        sentences: Sequence[SearchInput],
        waiting: list[tuple[list[int], list[Any]]],
        limits: Sequence[int],
        options: TranslateOptions,
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        cut: dict[int, Hypothesis] = {}  # their [EOS] has no score yet
        again: list[int] = []
        for batch, results in waiting:
            for i, result in zip(batch, results, strict=True):
                hypotheses = _read(result.result(), options, limits[i])
                if not hypotheses:
                    again.append(i)
                elif hypotheses[0].truncated:
                    cut[i] = hypotheses[0]
                else:
                    yield i, hypotheses
        if cut:
            both = [
                self._named([sentences[i].ids for i in cut]),
                self._named([best.ids for best in cut.values()]),
            ]
            for (i, best), scored in zip(
                cut.items(), translator.score_batch(*both, max_input_length=0), strict=True
            ):
                total, n_pieces = sum(scored.log_probs), len(scored.log_probs)
                yield (
                    i,
                    [replace(best, log_prob=total, score=total / n_pieces**options.config.alpha)],
                )
        if again:
            yield from zip(
                again, self._reference().search([sentences[i] for i in again], options), strict=True
            )

    def _open(self, threads: tuple[int, int]) -> Any:
        if threads not in self._loaded:
            try:
                self._loaded[threads] = _load(self._where, self.precision, *threads)
            except RuntimeError:  # the cache was emptied since: the model is converted again
                self._where = self._find()
                self._loaded[threads] = _load(self._where, self.precision, *threads)
        return self._loaded[threads]

    def _named(self, rows: Sequence[Sequence[int]]) -> list[list[str]]:
        return [[self._names[i] for i in ids] for ids in rows]

    def _begin(
        self,
        translator: Any,
        sentences: Sequence[SearchInput],
        batch: list[int],
        limits: Sequence[int],
        options: TranslateOptions,
    ) -> list[Any]:
        return translator.translate_batch(
            self._named([sentences[i].ids for i in batch]),
            beam_size=options.width,
            num_hypotheses=options.n_best,
            length_penalty=options.config.alpha or NO_PENALTY,
            max_input_length=0,
            max_decoding_length=max(limits[i] for i in batch),
            return_scores=True,
            return_end_token=True,
            asynchronous=True,
        )


def _read(result: Any, options: TranslateOptions, most: int) -> list[Hypothesis]:
    """The hypotheses of a result, a greedy one cut at its maximum length; none if the reference must be asked."""
    found = []
    for pieces, score in zip(result.hypotheses, result.scores, strict=True):
        ids = tuple(map(int, pieces))
        is_whole = ids[-1] == EOS and len(ids) <= most
        text = ids[: len(ids) - 1 if is_whole else most - 1]
        is_special = bool(text) and min(text) < len(SPECIAL_TOKENS)
        if not (is_whole or options.width == 1) or is_special or not math.isfinite(score):
            return []
        found.append(
            Hypothesis(
                text, score * len(ids) ** options.config.alpha, score, truncated=not is_whole
            )
        )
    return found


def _load(where: Path, precision: Precision, n_workers: int, n_threads: int) -> Any:
    import ctranslate2

    compute = "int8_float32" if precision == "int8" else "float32"
    return ctranslate2.Translator(
        str(where),
        device="cpu",
        compute_type=compute,
        inter_threads=n_workers,
        intra_threads=n_threads,
        max_queued_batches=-1,
    )
