"""`Translator`: text in, text out, with quality flags.

Torch is imported only when the torch engine or a score needs it. CTranslate2 without torch starts
sooner, takes less memory and does not share the cores with torch's threads.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from transduce.config import DecodeConfig, resolve
from transduce.decode.composition import ComposedPart, Composer, gap_after
from transduce.decode.copying import Masks, find_masks
from transduce.decode.engines.base import (
    Engine,
    EngineSetup,
    SearchInput,
    SearchResult,
    Unsupported,
    begin_search,
)
from transduce.decode.engines.registry import find_engines, open_engine
from transduce.decode.finishing import Finisher
from transduce.decode.hypotheses import NAN_SCORES, Hypothesis, make_penalty
from transduce.decode.options import EngineName, Precision, Sampling, TranslateOptions
from transduce.decode.quality import CONTENT_MISSING, has_gap, lacks_length
from transduce.decode.readings import Reading
from transduce.decode.segmentation import Part, PreparedText, Segmenter
from transduce.decode.translation import Translation
from transduce.errors import DataError, ModelError, UsageError
from transduce.log import Log, silent
from transduce.model_folder import ModelFolder
from transduce.text.sentences import FALLBACK
from transduce.text.terms import Glossary

if TYPE_CHECKING:
    import transduce.decode.engines.torch
    import transduce.decode.scoring
    import transduce.model


class EngineChoice(NamedTuple):
    """The engine for some options."""

    engine: Engine
    declined: Unsupported | None  # why a preferred engine was not chosen


class Translator:
    """A translation model with its vocabularies and search settings, or an ensemble of models.

    Its methods may be called from several threads at once.
    """

    def __init__(
        self,
        folder: ModelFolder,
        *others: ModelFolder,
        engine: EngineName = "torch",
        precision: Precision = "float32",
        n_threads: int | None = None,
        log: Log = silent,
    ) -> None:
        """Check that the models can translate together; nothing is loaded yet.

        `engine` "auto" takes the first registered engine that supports the model and the options.
        `n_threads` None means all cores. `log` gets a line when a model is converted.
        """
        self.folders = (folder, *others)
        _check_models(self.folders)
        self.folder = folder
        self.source_vocabulary = folder.source_vocabulary
        self.target_vocabulary = folder.target_vocabulary
        self._vocabularies = (folder.source_vocabulary, folder.target_vocabulary)
        self.decode_config = folder.config.decode
        self._segmenter = Segmenter(self.folders, self._find_masks)
        self._composer = Composer(folder, self._segmenter)
        self._finisher = Finisher(self._composer, self._begin_readings, self._engine_for)

        if precision == "bf16":
            self._check_bfloat16()
        self._engine_names = find_engines(engine, precision)
        self._setup = EngineSetup(
            self.folders, precision, n_threads, log, reference=lambda: self.torch_engine
        )
        self._engines: dict[str, Engine] = {}  # those that are open, by name
        self._masks: Masks | None = None  # words that the model copies; None: not known
        self._log = log
        self._has_logged_rules = False  # by which sentences are split
        self._lock = threading.RLock()  # held while an engine is opened
        self._masks_lock = threading.Lock()  # held while masks are tried

    @cached_property
    def models(self) -> "list[transduce.model.Transformer]":
        """The models, with their weights loaded."""
        from transduce.model import Transformer

        return [each.model for each in self.folders if isinstance(each.model, Transformer)]

    @property
    def language(self) -> str | None:
        """The code of the source language, or None if the model does not name it."""
        return self._segmenter.language

    @property
    def model(self) -> "transduce.model.Transformer":
        """The first model."""
        return self.models[0]

    @property
    def torch_engine(self) -> "transduce.decode.engines.torch.TorchEngine":
        """The reference engine, which supports all options."""
        from transduce.decode.engines.torch import TorchEngine

        engine = self._open("torch")
        assert isinstance(engine, TorchEngine), "registered under this name"
        return engine

    def engine(self, options: TranslateOptions) -> EngineChoice:
        """Return the first requested engine that supports the options.

        Raises UsageError if there is none.
        """
        declined: Unsupported | None = None
        for name in self._engine_names:
            engine = self._open(name)
            unsupported = engine.unsupported(options)
            if unsupported is None:
                return EngineChoice(engine, declined)
            declined = declined or unsupported
        raise UsageError(f"{declined}; omit --engine and --precision to use the torch engine")

    def settings(
        self,
        beam: int | None = None,
        alpha: float | None = None,
        length_penalty: str | None = None,
        max_length: int | None = None,
    ) -> DecodeConfig:
        """Return the model's search settings with those that are not None changed."""
        return _changed(
            self.decode_config,
            beam=beam,
            alpha=alpha,
            length_penalty=length_penalty,
            max_length=max_length,
        )

    def translate(
        self,
        texts: Iterable[str],
        beam: int | None = None,
        alpha: float | None = None,
        length_penalty: str | None = None,
        max_length: int | None = None,
        sampling: Sampling | None = None,
        *,
        n_best: int = 1,
        alternatives: int = 0,
        no_repeat: int = 0,
        forbid: Sequence[str] = (),
        prefix: str | Sequence[str] = "",
        glossary: Glossary | None = None,
        protect: bool = False,
        details: bool = False,
        check: bool = False,
        split: bool = True,
        plain: bool = False,
    ) -> list[Translation]:
        """Translate texts, one result each, in order. A blank text stays blank.

        Settings that are None are the model's own. The keywords are fields of `TranslateOptions`.
        With `sampling`, translations are drawn and `beam` has no effect.
        """
        if isinstance(texts, str):
            raise TypeError("translate takes a list of texts: write translate([text])")
        options = TranslateOptions(
            config=self.settings(beam, alpha, length_penalty, max_length),
            n_best=n_best,
            alternatives=alternatives,
            sampling=sampling,
            no_repeat=no_repeat,
            forbid=tuple(forbid),
            prefix=prefix if isinstance(prefix, str) else tuple(prefix),
            glossary=glossary,
            protect=protect,
            details=details,
            check=check,
            split=split,
            plain=plain,
        )
        return self.translate_with(list(texts), options)

    def translate_with(self, texts: Sequence[str], options: TranslateOptions) -> list[Translation]:
        """Translate texts under the given options, one result each, in order."""
        return self.begin(texts, options)()

    def begin(
        self, texts: Sequence[str], options: TranslateOptions
    ) -> Callable[[], list[Translation]]:
        """Begin to translate; the returned function waits for the translations.

        CTranslate2 searches in the meantime, so that its cores have work while the caller reads
        and writes other texts.
        """
        if options.forbid:
            options = replace(options, forbid=tuple(map(self.clean, options.forbid)))
        prepared = self._segmenter.prepare(texts, options)
        self._log_fallback_rules(prepared)
        readings = (
            reading for text in prepared for part in text.parts for reading in part.readings
        )
        results = self._begin_readings(readings, options)
        return lambda: self._finish(prepared, results, options)

    def stream(
        self, text: str, prefix: str = "", sampling: Sampling | None = None, no_repeat: int = 0
    ) -> Iterator[str]:
        """Translate one text and yield the translation as it is written, in complete characters.

        Chunks are not empty. The torch engine searches greedily, or samples with `sampling`.
        """
        options = TranslateOptions(
            self.settings(beam=1), sampling=sampling, no_repeat=no_repeat, prefix=prefix
        )
        [prepared] = self._segmenter.prepare([text], options)
        self._log_fallback_rules([prepared])
        return (chunk for chunk in self._stream_parts(prepared.parts, options) if chunk)

    def score(
        self,
        pairs: Sequence[tuple[str, str]],
        alpha: float | None = None,
        length_penalty: str | None = None,
        *,
        first: int = 1,
    ) -> list[Translation]:
        """Score given translations as `translate` would, with details.

        `first` is the number of the first pair in error messages.
        """
        from transduce.decode.details import score_details
        from transduce.decode.scoring import score_targets

        penalty = make_penalty(self.settings(alpha=alpha, length_penalty=length_penalty))
        sources = self.source_vocabulary.encode_batch([self.clean(source) for source, _ in pairs])
        targets = self.target_vocabulary.encode_batch([self.clean(target) for _, target in pairs])
        max_tokens = self._segmenter.max_tokens
        for number, (pair, source, target) in enumerate(
            zip(pairs, sources, targets, strict=True), start=first
        ):
            if max(len(source), len(target)) > max_tokens:
                raise DataError(
                    f"pair {number:,} has {len(source)} and {len(target)} tokens, more than the "
                    f"{max_tokens} that can be scored; split {pair[0][:60]!r}"
                )
        scored = score_targets(self.models, sources, targets, with_attention=True)
        translations = []
        for pair, source, target, each in zip(pairs, sources, targets, scored, strict=True):
            score = sum(each.log_probs) / penalty(len(each.log_probs))
            ids = (tuple(source), tuple(target))
            found = score_details(*pair, ids, each, score, self._vocabularies)
            if has_gap(each.log_probs) or lacks_length(*pair, *ids):
                found = replace(found, flags=(CONTENT_MISSING,))
            translations.append(found)
        return translations

    def clean(self, text: str) -> str:
        """Return a text as the model reads it: normalized, with U+FFFD for lone surrogates."""
        return self._segmenter.clean(text)

    def max_source_tokens(self) -> int:
        """Return how many tokens a source may have before it is split."""
        return self._segmenter.max_source_tokens()

    def unseen_words(self, text: str) -> tuple[str, ...]:
        """Return the words and punctuation of a text that were not in the training text."""
        return self._composer.unseen_words(text)

    def unknown_characters(self, text: str) -> tuple[str, ...]:
        """Return the characters of a text that are not in the vocabulary."""
        return self._composer.unknown_characters(text)

    def _log_fallback_rules(self, prepared: Sequence[PreparedText]) -> None:
        """Log once that texts are split by the rules of another language."""
        if self._has_logged_rules or self.language is not None:
            return
        if any(text.n_sentences > 1 for text in prepared):
            self._has_logged_rules = True
            self._log(
                "the model does not name its source language: sentences are split by the rules "
                f"of {FALLBACK!r} (a training names it from --languages)"
            )

    def _find_masks(self) -> Masks:
        """Return the words that the model copies, found by trying them once."""
        with self._masks_lock:
            if self._masks is None:
                self._masks = find_masks(self.folders, self._translate_greedily, self._log)
            return self._masks

    def _translate_greedily(self, texts: Sequence[str]) -> list[str]:
        options = TranslateOptions(DecodeConfig(beam=1), plain=True)
        return [each.text for each in self.translate_with(texts, options)]

    def _check_bfloat16(self) -> None:
        from transduce.hardware import has_bfloat16

        if not has_bfloat16(next(self.model.parameters()).device):
            raise UsageError(
                "bf16 would be slower: this processor has no bfloat16 instructions; "
                "omit --precision"
            )

    def _open(self, name: str) -> Engine:
        """Return an engine, opened once."""
        with self._lock:
            if name not in self._engines:
                self._engines[name] = open_engine(name, self._setup)
            return self._engines[name]

    def _engine_for(self, options: TranslateOptions) -> Engine:
        return self.engine(options).engine

    def _begin_readings(
        self, readings: Iterable[Reading], options: TranslateOptions, engine: Engine | None = None
    ) -> Iterator[tuple[SearchInput, list[Hypothesis]]]:
        """Begin to search what is read, each input once, with attention where it is needed.

        `engine` None means the one for the options.
        """
        plain: dict[SearchInput, None] = {}
        attended: dict[SearchInput, None] = {}
        for reading in readings:
            if reading.needs_attention:
                attended.update(dict.fromkeys(reading.inputs))
            else:
                plain[reading.search_input] = None
        with_attention = replace(options, attention=True)
        searches = [
            _search(engine or self._engine_for(each_options), inputs, each_options)
            for inputs, each_options in (
                ([each for each in plain if each not in attended], options),
                (list(attended), with_attention),
            )
            if inputs
        ]
        return chain.from_iterable(searches)

    def _finish(
        self,
        prepared: Sequence[PreparedText],
        results: Iterable[tuple[SearchInput, list[Hypothesis]]],
        options: TranslateOptions,
    ) -> list[Translation]:
        """Wait for the results of a search and return the translations."""
        composed = self._finisher.finish(prepared, results, options)
        translations = [
            self._composer.compose(text, parts, options)
            for text, parts in zip(prepared, composed, strict=True)
        ]
        return self._detailed(translations, composed) if options.details else translations

    def _detailed(
        self, translations: Sequence[Translation], composed: Sequence[Sequence[ComposedPart]]
    ) -> list[Translation]:
        """Score the best hypotheses again, for their tokens and alignments, and add these."""
        from transduce.decode.details import add_details
        from transduce.decode.scoring import score_targets

        searched = {
            (part.reading.search_input.ids, part.hypothesis.ids): None
            for parts in composed
            for part in parts
            if part.reading is not None and part.hypothesis is not None
        }
        scored = score_targets(
            self.models,
            [source for source, _ in searched],
            [target for _, target in searched],
            with_attention=True,
        )
        of_pair = dict(zip(searched, scored, strict=True))
        return [
            add_details(translation, parts, of_pair, self._vocabularies)
            for translation, parts in zip(translations, composed, strict=True)
        ]

    def _stream_parts(self, parts: Sequence[Part], options: TranslateOptions) -> Iterator[str]:
        """Yield the translations of parts; only plain ones as they are written."""
        engine = self.torch_engine
        search = partial(self._begin_readings, engine=engine)
        finisher = Finisher(self._composer, search, lambda options: engine)
        previous: ComposedPart | None = None
        for part in parts:
            if previous is not None:
                yield gap_after(previous, ComposedPart(part, part.text))
            if part.readings and part.readings[0].is_plain:
                chunks = []
                for chunk in self._stream_part(part.readings[0].search_input, options):
                    chunks.append(chunk)
                    yield chunk
                previous = ComposedPart(part, "".join(chunks))
            else:
                previous = finisher.finish_part(part, options)
                yield previous.text
        if previous is not None:
            yield gap_after(previous, None)

    def _stream_part(self, search_input: SearchInput, options: TranslateOptions) -> Iterator[str]:
        ids: list[int] = []
        text = yielded = ""
        for step in self.torch_engine.stream(search_input, options):
            if step.candidates.score[0, 0].isnan():
                raise ModelError(NAN_SCORES)
            ids.append(int(step.candidates.token[0, 0]))
            text = self._composer.text_of(ids)
            is_complete = not text.endswith("\ufffd")  # the last character has all its bytes
            if is_complete and text.startswith(yielded):
                yield text[len(yielded) :]
                yielded = text
        yield text[len(yielded) :]


def _search(
    engine: Engine, inputs: Sequence[SearchInput], options: TranslateOptions
) -> Iterator[tuple[SearchInput, list[Hypothesis]]]:
    """Begin to search and return an iterator over the inputs with their hypotheses.

    An input whose terms cannot all be met gets the hypotheses without them.
    """
    results = begin_search(engine, inputs, options)
    return _without_impossible_terms(engine, inputs, results, options)


def _without_impossible_terms(
    engine: Engine,
    inputs: Sequence[SearchInput],
    results: Iterator[SearchResult],
    options: TranslateOptions,
) -> Iterator[tuple[SearchInput, list[Hypothesis]]]:
    impossible: list[SearchInput] = []
    for i, hypotheses in results:
        if hypotheses:
            yield inputs[i], hypotheses
        elif inputs[i].terms:
            impossible.append(inputs[i])
        else:
            raise ModelError(NAN_SCORES)
    if impossible:
        without = [each._replace(terms=()) for each in impossible]
        for i, hypotheses in begin_search(engine, without, options):
            if not hypotheses:
                raise ModelError(NAN_SCORES)
            yield impossible[i], hypotheses


def _check_models(folders: Sequence[ModelFolder]) -> None:
    """Raise ModelError for a language model, or models with different vocabularies."""
    first, *others = folders
    if any(each.config.model.kind == "decoder-only" for each in folders):
        raise ModelError(
            "this is a language model and cannot translate; give a model trained on sentence pairs"
        )
    for each in others:
        is_same_source = each.source_vocabulary == first.source_vocabulary
        is_same_target = each.target_vocabulary == first.target_vocabulary
        if not (is_same_source and is_same_target):
            raise ModelError(
                "models that translate together must have the same vocabulary; "
                "train them with one vocabulary"
            )


@lru_cache
def _changed(config: DecodeConfig, **changes: str | float | int | None) -> DecodeConfig:
    """Return the settings with those changes that are not None. Cached: the same calls recur."""
    given = {name: value for name, value in changes.items() if value is not None}
    return resolve({"decode": {**config.model_dump(), **given}}).decode
