"""Text in, text out: a model folder at work, whatever the text is, and with a word on whatever is doubtful.

Torch is loaded when the reference engine is needed, not before: CTranslate2 starts sooner, takes less memory and has its threads
to itself without it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from transduce.config import DecodeConfig, resolve
from transduce.decode import quality
from transduce.decode.engines.base import SearchInput
from transduce.decode.engines.ctranslate2 import CTranslate2Engine, why_not_fast
from transduce.decode.hypotheses import NAN_SCORES, Hypothesis, make_penalty
from transduce.decode.options import EngineName, Precision, Sampling, TranslateOptions
from transduce.decode.translation import Alternative, Translation
from transduce.decode.words import RequiredTerm
from transduce.errors import DataError, ModelError, UsageError
from transduce.log import Log
from transduce.model_folder import ModelFolder
from transduce.text.normalize import CONTROL_CHARACTERS, LONE_SURROGATE, normalize, split_words
from transduce.text.segments import Segment, split_text
from transduce.text.terms import Glossary, Term, TermMatch, contains_phrase, find_protected

if TYPE_CHECKING:
    import transduce.decode.engines.torch
    import transduce.decode.scoring
    import transduce.model

LINE_BREAKS = re.compile("[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")
MOST_PIECES = 512  # of one source: a longer run without a space is no sentence
LONGEST_PIECE = 16  # characters, as SentencePiece has it
MOST_CHARACTERS = LONGEST_PIECE * (
    MOST_PIECES + 1
)  # what has more, has too many pieces in any case


class Part(NamedTuple):
    """A text, or a part of one that was too long: what is searched, and the terms to be seen to."""

    text: str
    gap: str  # the space after it
    sentence: SearchInput | None  # None: nothing can be searched, it is copied
    terms: tuple[Term, ...] = ()


Line = tuple[str, str, Sequence[Part]]  # a text, the same as the model reads it, and its parts


class Translator:
    """A translation model with its vocabularies and its own search settings; or several models that decide together."""

    def __init__(
        self,
        folder: ModelFolder,
        *others: ModelFolder,
        engine: EngineName = "torch",
        precision: Precision = "float32",
        n_threads: int | None = None,
        log: Log = lambda message: None,
    ) -> None:
        self.folders = (folder, *others)
        if any(each.config.model.kind == "decoder-only" for each in self.folders):
            raise ModelError(
                "this is a language model, it cannot translate: give a model trained on sentence pairs"
            )
        for each in others:
            if (each.source_vocabulary, each.target_vocabulary) != (
                folder.source_vocabulary,
                folder.target_vocabulary,
            ):
                raise ModelError(
                    "models that translate together must have the same vocabulary: train them with one"
                )
        self.folder = folder
        self.source_vocabulary = folder.source_vocabulary
        self.target_vocabulary = folder.target_vocabulary
        self.decode_config = folder.config.decode
        self._engine, self._precision, self._n_threads, self._log = (
            engine,
            precision,
            n_threads,
            log,
        )
        if precision == "bf16":
            from transduce.hardware import has_bfloat16

            if not has_bfloat16(next(self.model.parameters()).device):
                raise UsageError(
                    "bf16: this processor has no bfloat16 instructions, it would be slower; leave --precision out"
                )
        if (precision, engine) in (("int8", "torch"), ("bf16", "ctranslate2")):
            raise UsageError(f"{engine} has no {precision}: leave out --engine, or --precision")

    @cached_property
    def models(self) -> "list[transduce.model.Transformer]":
        """The models themselves."""
        from transduce.model import Transformer

        return [each.model for each in self.folders if isinstance(each.model, Transformer)]

    @property
    def model(self) -> "transduce.model.Transformer":
        """The first of them."""
        return self.models[0]

    @cached_property
    def torch_engine(self) -> "transduce.decode.engines.torch.TorchEngine":
        """The engine that can do everything."""
        from transduce.decode.engines.torch import TorchEngine

        precision: Precision = "bf16" if self._precision == "bf16" else "float32"
        return TorchEngine(self.models, self.target_vocabulary, precision, self._n_threads)

    @cached_property
    def _fast(self) -> CTranslate2Engine | str:
        """CTranslate2, or why it cannot be had."""
        try:
            return CTranslate2Engine(
                self.folder, self._precision, self._n_threads, lambda: self.torch_engine, self._log
            )
        except (ModelError, RuntimeError, OSError, ImportError) as error:
            return str(error)

    def engine(
        self, options: TranslateOptions
    ) -> "tuple[transduce.decode.engines.torch.TorchEngine | CTranslate2Engine, str | None]":
        """The engine for what is asked; and if that is not CTranslate2 though it might be wished for, why."""
        if self._engine == "torch" or self._precision == "bf16":
            return self.torch_engine, None
        reason = why_not_fast(self.folders, options) or self._fast
        if not isinstance(reason, str):
            return reason, None
        if self._engine == "ctranslate2" or self._precision == "int8":
            raise UsageError(f"{reason}; leave out --engine and --precision for the torch engine")
        return self.torch_engine, reason

    def settings(
        self,
        beam: int | None = None,
        alpha: float | None = None,
        length_penalty: str | None = None,
        max_length: int | None = None,
    ) -> DecodeConfig:
        """The model's search settings with some of them changed."""
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
    ) -> list[Translation]:
        """Translate texts, one result each, in order. A blank text stays blank.

        What is left out takes the model's own setting. With `sampling`, translations are drawn and `beam` plays no part.
        `n_best` hypotheses come back as alternatives; `alternatives` asks for so many translations that differ in the piece that
        follows `prefix`, which is options a translation begins (one for all, or one each). Terms of a `glossary` are met, and
        with `protect` numbers, addresses and placeholders survive. `details` gives pieces, their scores, and the alignment.
        """
        if isinstance(texts, str):
            raise TypeError("translate takes a list of texts: write translate([text])")
        config = self.settings(beam, alpha, length_penalty, max_length)
        begin = prefix if isinstance(prefix, str) else tuple(prefix)
        asked = (
            n_best,
            alternatives,
            sampling,
            no_repeat,
            tuple(forbid),
            begin,
            glossary,
            protect,
            details,
        )
        return self.translate_with(list(texts), TranslateOptions(config, *asked))

    def translate_with(self, texts: Sequence[str], options: TranslateOptions) -> list[Translation]:
        """The same, with all that is asked in one value."""
        return self.begin(texts, options)()

    def begin(
        self, texts: Sequence[str], options: TranslateOptions
    ) -> Callable[[], list[Translation]]:
        """Begin to translate; what comes back waits for the translations.

        CTranslate2 searches until then, whatever the caller does, so that the cores have work while others are read and written.
        """
        if options.forbid:
            options = replace(options, forbid=tuple(map(self.clean, options.forbid)))
        cleaned = [self.clean(text) for text in texts]
        lines = list(zip(texts, cleaned, self._parts(cleaned, options), strict=True))
        every = (part.sentence for *_, parts in lines for part in parts)
        searching = self._search(
            [sentence for sentence in dict.fromkeys(every) if sentence is not None], options
        )
        return lambda: self._finish(lines, searching, options)

    def _finish(
        self,
        lines: Sequence[Line],
        searching: Iterable[tuple[SearchInput, list[Hypothesis]]],
        options: TranslateOptions,
    ) -> list[Translation]:
        """The translations: a text of one sentence is composed while others are still searched for."""
        found: dict[SearchInput, list[Hypothesis]] = {}
        forced: Mapping[SearchInput, transduce.decode.scoring.ScoredTarget] = {}
        ready: dict[int, Translation] = {}
        whole: dict[SearchInput | None, list[int]] = {}
        for number, (*_, parts) in enumerate(lines):
            if len(parts) == 1 and not options.details:
                whole.setdefault(parts[0].sentence, []).append(number)
        for sentence, hypotheses in searching:
            if not hypotheses:
                raise ModelError(NAN_SCORES)
            found[sentence] = hypotheses
            for number in whole.get(sentence, ()):
                ready[number] = self._compose(*lines[number], found, forced, options)
        if options.details:
            from transduce.decode.scoring import score_targets

            targets = [best.ids for best, *_ in found.values()]
            scored = score_targets(
                self.models, [sentence.ids for sentence in found], targets, with_attention=True
            )
            forced = dict(zip(found, scored, strict=True))
        return [
            ready.get(i) or self._compose(*line, found, forced, options)
            for i, line in enumerate(lines)
        ]

    def stream(
        self, text: str, prefix: str = "", sampling: Sampling | None = None, no_repeat: int = 0
    ) -> Iterator[str]:
        """The translation of one text as it is written, greedily or drawn, in parts that are whole characters."""
        options = TranslateOptions(
            self.settings(beam=1), sampling=sampling, no_repeat=no_repeat, prefix=prefix
        )
        for part in next(self._parts([self.clean(text)], options)):
            ids: list[int] = []
            said = ""
            for moment in (
                self.torch_engine.stream(part.sentence, options)
                if part.sentence is not None
                else ()
            ):
                if moment.candidates.score[0, 0].isnan():
                    raise ModelError(NAN_SCORES)
                ids.append(int(moment.candidates.piece[0, 0]))
                now = self._text(ids)
                if now.startswith(said) and not now.endswith("\ufffd"):
                    yield now[len(said) :]
                    said = now
            whole = self._text(ids) if part.sentence is not None else one_line(part.text)
            yield whole[len(said) :] + one_line(part.gap)

    def score(
        self,
        pairs: Sequence[tuple[str, str]],
        alpha: float | None = None,
        length_penalty: str | None = None,
        *,
        first: int = 1,
    ) -> list[Translation]:
        """How likely given translations are: the same numbers that `translate` gives its own, with details.

        `first` is the number of the first pair, by which an error names one.
        """
        from transduce.decode.scoring import score_targets

        penalty = make_penalty(self.settings(alpha=alpha, length_penalty=length_penalty))
        sources = self.source_vocabulary.encode_batch([self.clean(source) for source, _ in pairs])
        targets = self.target_vocabulary.encode_batch([self.clean(target) for _, target in pairs])
        for number, (pair, source, target) in enumerate(
            zip(pairs, sources, targets, strict=True), start=first
        ):
            if max(len(source), len(target)) > self._longest_run:
                raise DataError(
                    f"pair {number:,} has {len(source)} and {len(target)} pieces, at most {self._longest_run} are scored: "
                    f"split {pair[0][:60]!r}"
                )
        scored = score_targets(self.models, sources, targets, with_attention=True)
        return [
            self._detailed(
                Translation(*pair, sum(each.log_probs) / penalty(len(each.log_probs))),
                [(s, t, each)],
            )
            for pair, s, t, each in zip(pairs, sources, targets, scored, strict=True)
        ]

    def clean(self, text: str) -> str:
        """A text as the model reads it: normalised, and whole characters only."""
        return LONE_SURROGATE.sub("\ufffd", normalize(text, self.folder.config.text.normalization))

    def max_source_tokens(self) -> int:
        """Pieces of a source that the model can take: no more than it was trained on, nor than it has positions for."""
        trained = self.folder.trained_with("data", "max_length")
        return max(1, min(self._longest_run, trained if isinstance(trained, int) else MOST_PIECES))

    def unseen_words(self, text: str) -> tuple[str, ...]:
        """The words and signs of a text that were not in the training text, where the model kept those."""
        words = self.folder.words
        return (
            ()
            if words is None
            else tuple(dict.fromkeys(word for word in split_words(text) if word not in words))
        )

    def unknown_characters(self, text: str) -> tuple[str, ...]:
        """The characters of a text that the vocabulary has no piece for: the model reads them as bytes."""
        if self.folder.config.text.kind == "byte":
            return ()
        unknown = set(text) - self.source_vocabulary.characters  # empty, nearly always
        return (
            tuple(dict.fromkeys(c for c in text if c in unknown and not c.isspace()))
            if unknown
            else ()
        )

    @property
    def _most_positions(self) -> int:
        configs = [each.config.model for each in self.folders]
        return min(
            (config.max_positions for config in configs if config.positions == "learned"),
            default=1 << 20,
        )

    @property
    def _longest_run(self) -> int:
        return min(MOST_PIECES, self._most_positions - 1)

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The pieces of each text; none of a text that has too many in any case."""
        return self.source_vocabulary.encode_batch(
            [text if len(text) <= MOST_CHARACTERS else "" for text in texts]
        )

    def _measure(self, texts: Sequence[str]) -> list[int]:
        return [len(ids) or len(text) for ids, text in zip(self._encode(texts), texts, strict=True)]

    def _parts(self, texts: Sequence[str], options: TranslateOptions) -> Iterator[list[Part]]:
        """Each text as parts that the model can take: most are one, a blank text has none."""
        most, longest, positions = self.max_source_tokens(), self._longest_run, self._most_positions
        prefixes = (
            [options.prefix] * len(texts) if isinstance(options.prefix, str) else options.prefix
        )
        if len(prefixes) != len(texts):
            raise UsageError(
                f"{len(prefixes)} prefixes for {len(texts)} texts: wanted one each, or one for all"
            )
        for number, (text, whole, prefix) in enumerate(
            zip(texts, self._encode(texts), prefixes, strict=True)
        ):
            segments, encoded = [Segment(text, "")], [whole]
            if not text.strip():
                segments = []
            elif not 0 < len(whole) <= most:
                segments = split_text(text, most, self._measure)
                encoded = self._encode([segment.text for segment in segments])
            parts: list[Part] = []
            for segment, ids in zip(segments, encoded, strict=bool(segments)):
                if not 0 < len(ids) <= longest:
                    parts.append(Part(*segment, None))
                    continue
                begin = (
                    self.target_vocabulary.encode(self.clean(prefix))
                    if prefix.strip() and not parts
                    else []
                )
                if len(begin) >= positions:
                    raise UsageError(
                        f"a prefix of {len(begin)} pieces: this model writes at most {positions - 1}"
                    )
                found = [
                    *(options.glossary.find(segment.text) if options.glossary is not None else ())
                ]
                free = [
                    each
                    for each in (find_protected(segment.text) if options.protect else ())
                    if not _overlaps(each, found)
                ]
                found += free  # what the glossary has is seen to already
                wanted = self._spell(segment.text, found, options)
                drawn = (
                    (number, len(parts)) if options.sampling is not None else (0, 0)
                )  # else equal ones are one search
                sentence = SearchInput(tuple(ids), tuple(begin), wanted, *drawn)
                parts.append(Part(*segment, sentence, tuple(each.term for each in found)))
            yield parts

    def _spell(
        self, text: str, found: Sequence[TermMatch], options: TranslateOptions
    ) -> tuple[RequiredTerm, ...]:
        """How terms may be written, and which pieces they come from; one that holds a forbidden word cannot be had."""
        wanted = []
        for term, start, end in found:
            possible = [
                t
                for t in term.targets
                if not any(contains_phrase(t, bad) for bad in options.forbid)
            ]
            phrases = [phrase for target in possible if (phrase := self.clean(target).strip())]
            if phrases:
                before, until = self.source_vocabulary.encode_batch(
                    [text[:start].rstrip(), text[:end]]
                )
                wanted.append(
                    self.torch_engine.words.wanted(
                        phrases, len(before), len(until), term.is_verbatim
                    )
                )
        return tuple(wanted)

    def _search(
        self, sentences: Sequence[SearchInput], options: TranslateOptions
    ) -> Iterator[tuple[SearchInput, list[Hypothesis]]]:
        """Begin to search for each sentence; they come with their hypotheses as those are found."""
        if not sentences:
            return iter(())
        engine, _ = self.engine(options)
        searching = engine.begin(sentences, options)

        def wait() -> Iterator[tuple[SearchInput, list[Hypothesis]]]:
            without: list[SearchInput] = []  # their terms cannot be had
            for i, hypotheses in searching:
                if hypotheses or not sentences[i].terms:
                    yield sentences[i], hypotheses
                else:
                    without.append(sentences[i])
            if without:
                freed = [sentence._replace(terms=()) for sentence in without]
                yield from zip(without, engine.search(freed, options), strict=True)

        return wait()

    def _text(self, ids: Sequence[int]) -> str:
        return one_line(self.target_vocabulary.decode(ids))

    def _compose(
        self,
        source: str,
        clean: str,
        parts: Sequence[Part],
        found: Mapping[SearchInput, Sequence[Hypothesis]],
        forced: "Mapping[SearchInput, transduce.decode.scoring.ScoredTarget]",
        options: TranslateOptions,
    ) -> Translation:
        """One result from the results of its parts."""
        sentences = [part.sentence for part in parts if part.sentence is not None]
        bests = [found[sentence][0] for sentence in sentences]
        written = iter(bests)
        texts = [
            one_line(part.text) if part.sentence is None else self._text(next(written).ids)
            for part in parts
        ]
        text = "".join(each + one_line(part.gap) for each, part in zip(texts, parts, strict=True))
        missing = tuple(
            term.source
            for each, part in zip(texts, parts, strict=True)
            for term in part.terms
            if not any(
                contains_phrase(each, self.clean(target))
                and (self.clean(target) in each or not term.is_verbatim)
                for target in term.targets
            )
        )
        unseen, unknown = self.unseen_words(clean), self.unknown_characters(clean)
        notes = {
            "blank": not parts,
            "split": len(parts) > 1,
            "control_characters": clean != source and CONTROL_CHARACTERS.search(source) is not None,
            "unseen_words": unseen,
        }
        source_ids = [i for sentence in sentences for i in sentence.ids]
        target_ids = [i for best in bests for i in best.ids]
        length = quality.wrong_length(source_ids, target_ids)
        flags = {
            "invalid_characters": "\ufffd" in clean,
            "truncated": any(best.truncated for best in bests),
            "unknown_characters": unknown,
            "repetition": quality.has_repetition(target_ids)
            and not quality.has_repetition(source_ids),
            "not_translated": any(part.text and part.sentence is None for part in parts),
            "copied": quality.is_copy(clean, text),
            "too_short": length == "too_short",
            "too_long": length == "too_long",
            "low_confidence": any(
                quality.is_unsure(best.log_prob, len(best.ids) + 1) for best in bests
            ),
            "missing_term": missing,
        }
        alternatives: tuple[Alternative, ...] = ()
        if len(sentences) == len(parts) == 1 and (options.n_best > 1 or options.alternatives):
            listed = found[sentences[0]][: options.alternatives or options.n_best]
            alternatives = tuple(Alternative(self._text(each.ids), each.score) for each in listed)
        n_pieces = len(target_ids) + len(bests)
        total = sum(best.log_prob for best in bests)
        translation = Translation(
            source,
            text,
            total / make_penalty(options.config)(n_pieces) if n_pieces else 0.0,
            tuple(name for name, is_so in notes.items() if is_so),
            tuple(name for name, is_so in flags.items() if is_so),
            unseen,
            unknown,
            missing,
            alternatives,
        )
        if not options.details:
            return translation
        return self._detailed(
            translation,
            [
                part.text
                if (one := part.sentence) is None
                else (one.ids, found[one][0].ids, forced[one])
                for part in parts
            ],
        )

    def _detailed(
        self,
        translation: Translation,
        parts: "Sequence[str | tuple[Sequence[int], Sequence[int], transduce.decode.scoring.ScoredTarget]]",
    ) -> Translation:
        """Pieces, their scores and the alignment; the words of several parts, also of copied ones, are counted on."""
        from transduce.decode.alignment import align, pharaoh

        links: list[tuple[int, int]] = []
        vocabularies = (self.source_vocabulary, self.target_vocabulary)
        before = (0, 0)
        for part in parts:
            if isinstance(part, str):
                before = (before[0] + len(part.split()), before[1] + len(part.split()))
                continue
            source, target, each = part
            assert each.attention is not None, "asked for"
            links += [
                (i + before[0], j + before[1])
                for i, j in align(each.attention, source, target, vocabularies)
            ]
            here = (
                len(v.decode(ids).split())
                for v, ids in zip(vocabularies, (source, target), strict=True)
            )
            before = (before[0] + next(here), before[1] + next(here))
        scored = [part for part in parts if not isinstance(part, str)]
        return replace(
            translation,
            pieces=tuple(
                self.target_vocabulary.token(i) for _, target, _ in scored for i in target
            ),
            token_scores=tuple(p for _, _, each in scored for p in each.log_probs),
            alignment=pharaoh(links),
        )


@lru_cache
def _changed(config: DecodeConfig, **changes: Any) -> DecodeConfig:
    """Settings with some of them changed; the same ones are asked for at every call."""
    given = {name: value for name, value in changes.items() if value is not None}
    return resolve({"decode": {**config.model_dump(), **given}}).decode


def _overlaps(one: TermMatch, others: Sequence[TermMatch]) -> bool:
    return any(one.start < other.end and other.start < one.end for other in others)


def one_line(text: str) -> str:
    """A text without a break of any kind."""
    return LINE_BREAKS.sub(" ", text)
