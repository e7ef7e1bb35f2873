"""Compose translations from search results: restore parts, join them, find quality flags."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from transduce.decode.engines.base import SearchInput
from transduce.decode.hypotheses import Hypothesis, make_penalty
from transduce.decode.insertion import AlignedText, align_text
from transduce.decode.options import TranslateOptions
from transduce.decode.quality import Evidence, find_flags, find_notes, lacks_length
from transduce.decode.readings import Reading
from transduce.decode.restoring import Restored, restore
from transduce.decode.segmentation import Part, PreparedText, Segmenter
from transduce.decode.substitution import choose_forms, find_substitutions
from transduce.decode.translation import Alternative, Translation
from transduce.decode.words import Ids
from transduce.model_folder import ModelFolder
from transduce.text.edits import EditedText
from transduce.text.normalize import WORD, one_line, split_words
from transduce.text.numbers import missing_numbers, numbers_agree
from transduce.text.terms import UNSPACED_SCRIPTS, Term, contains_phrase

MARGIN = 0.3  # nats a token; a reading of the whole sentence is preferred within it
# The end of a sentence in a script without spaces: one of its characters or full stops.
UNSPACED_END = re.compile(rf"[{UNSPACED_SCRIPTS}。！？；，、：]\W*$")

Hypotheses = Mapping[SearchInput, Sequence[Hypothesis]]  # of each input, best first


class Version(NamedTuple):
    """One translation of a part."""

    text: str
    hypothesis: Hypothesis


class ComposedPart(NamedTuple):
    """The translation of a part, and what is wrong with it."""

    part: Part
    text: str
    reading: Reading | None = None  # the one that was chosen; None: the part was copied
    hypothesis: Hypothesis | None = None
    written: Hypothesis | None = None  # by the model, before terms were put in
    target: EditedText | None = None  # what the model wrote, and the text
    versions: tuple[Version, ...] = ()  # with n-best lists: all, best first
    is_complete: bool = True  # the protected parts are there
    has_numbers: bool = True  # the numbers are those of the source
    missing: tuple[str, ...] = ()  # terms
    lacks_content: bool = False
    other_targets: tuple[EditedText, ...] = ()  # the same with other forms of its terms

    @property
    def needs_rescoring(self) -> bool:
        """Return whether terms were put in, and nothing else, so that the text can be scored.

        Not with numbers: a model that did not write them finds them unlikely, whatever the rest is.
        """
        return (
            self.reading is not None
            and self.reading.has_substitutions
            and not self.reading.numbers
            and not self.reading.protected
            and self.reading.casing is None
            and self.target is not None
            and self.target.text != self.target.original
        )

    @property
    def n_faults(self) -> int:
        """How much there is to repair."""
        return (not self.is_complete) + (not self.has_numbers) + len(self.missing)


class Composer:
    """Makes a `Translation` from a prepared text and the hypotheses of its parts."""

    def __init__(self, folder: ModelFolder, segmenter: Segmenter) -> None:
        self._folder = folder
        self._segmenter = segmenter
        self._reader = segmenter.reader
        self.target_vocabulary = folder.target_vocabulary
        self._vocabularies = (folder.source_vocabulary, folder.target_vocabulary)

    def compose_part(
        self, part: Part, found: Hypotheses, options: TranslateOptions
    ) -> ComposedPart:
        """Return the translation of a part, from the reading that the model is surest of."""
        composed = [
            each
            for reading in part.readings
            if (each := self._compose_reading(part, reading, found, options)) is not None
        ]
        if not composed:  # there is none if it is to be copied
            return ComposedPart(part, one_line(part.text), is_complete=not part.readings)
        best = max(composed, key=lambda each: (-each.n_faults, _confidence(each.hypothesis)))
        first = composed[0]
        if first.n_faults == best.n_faults and _is_nearly_as_sure(first, best):
            return first
        return best

    def retry(self, composed: ComposedPart, options: TranslateOptions) -> Part | None:
        """Return a part whose translation is at fault with other readings, or with none to copy it.

        None if nothing is at fault or there is no other reading.
        """
        reading, part = composed.reading, composed.part
        if reading is None or composed.n_faults == 0:
            return None
        if options.alternatives or reading.search_input.prefix:
            return None  # what was asked for is how this translation goes on
        if not composed.has_numbers:
            missing = missing_numbers(part.text, composed.text)
            readings = self._reader.protect_numbers(part.text, reading, missing)
            return part._replace(readings=readings)
        if reading.has_substitutions and options.sampling is None:
            return part._replace(readings=(self._reader.require_terms(reading, options),))
        return None

    def encode_candidates(self, composed: ComposedPart) -> list[Ids]:
        """Return the tokens of a part, and of the same with other forms of its terms.

        There are none if one of them is longer than the model can read.
        """
        encoded = self.target_vocabulary.encode_batch(_candidates(composed))
        if any(len(ids) > self._segmenter.max_tokens for ids in encoded):
            return []
        return [tuple(ids) for ids in encoded]

    def choose_form(
        self,
        composed: ComposedPart,
        scored: Sequence[tuple[Ids, Sequence[float]]],
        options: TranslateOptions,
    ) -> ComposedPart:
        """Return a part with the form of its terms that the model finds likeliest, and its score.

        `scored` has what `encode_candidates` returns, with the log-probabilities of the tokens.
        """
        penalty = make_penalty(options.config)
        hypotheses = []
        for ids, log_probs in scored:
            log_prob = sum(log_probs)
            hypotheses.append(Hypothesis(ids, log_prob, log_prob / penalty(len(log_probs))))
        texts = _candidates(composed)
        best = max(range(len(texts)), key=lambda i: hypotheses[i].log_prob)
        text = texts[best]
        versions = composed.versions
        if versions:
            versions = (Version(text, hypotheses[best]), *versions[1:])
        return composed._replace(
            text=text,
            hypothesis=hypotheses[best],
            target=EditedText(text, text),
            versions=versions,
            other_targets=(),
        )

    def compose(
        self, prepared: PreparedText, parts: Sequence[ComposedPart], options: TranslateOptions
    ) -> Translation:
        """Join the translations of all parts; the result has no details yet."""
        gaps = gaps_of(parts)
        text = "".join(each.text + gap for each, gap in zip(parts, gaps, strict=True))
        searched = [part for part in parts if part.reading is not None]
        bests = [part.hypothesis for part in searched if part.hypothesis is not None]
        target_ids = [i for best in bests for i in best.ids]
        n_tokens = len(target_ids) + len(bests)  # with an [EOS] each
        log_prob = sum(best.log_prob for best in bests)
        read = self._text_read(prepared, searched)
        is_recased = any(part.reading.casing for part in searched if part.reading is not None)
        unseen = self.unseen_words(read)
        evidence = Evidence(
            source=prepared.source,
            cleaned=prepared.cleaned,
            text=text,
            source_ids=[
                i
                for part in searched
                if part.reading is not None
                for i in part.reading.search_input.ids
            ],
            target_ids=target_ids,
            hypotheses=[part.written for part in searched if part.written is not None],
            n_parts=len(parts),
            n_sentences=prepared.n_sentences,
            is_split=prepared.is_split,
            is_translated=bool(searched),
            has_copied_part=any(part.part.is_unreadable for part in parts),
            is_recased=is_recased,
            is_complete=all(part.is_complete for part in parts),
            has_numbers=all(part.has_numbers for part in parts),
            unseen=_as_written(unseen, prepared.cleaned) if is_recased else unseen,
            unknown=self.unknown_characters(read),
            missing=tuple(term for part in parts for term in part.missing),
            lacks_content=any(part.lacks_content for part in parts),
        )
        return Translation(
            source=prepared.source,
            text=text,
            score=log_prob / make_penalty(options.config)(n_tokens) if n_tokens else 0.0,
            notes=find_notes(evidence),
            flags=find_flags(evidence),
            unseen=evidence.unseen,
            unknown=evidence.unknown,
            missing=evidence.missing,
            alternatives=_alternatives(parts, gaps, options),
        )

    def text_of(self, ids: Sequence[int]) -> str:
        """Return the text of target tokens, on one line."""
        return one_line(self._folder.target_vocabulary.decode(ids))

    def unseen_words(self, text: str) -> tuple[str, ...]:
        """Return the words and punctuation of a text that were not in the training text.

        Empty if the model folder has no list of those.
        """
        seen = self._folder.words
        if seen is None:
            return ()
        words = (match[0] for match in WORD.finditer(text))  # one at a time: they may be millions
        return tuple(dict.fromkeys(word for word in words if word not in seen))

    def unknown_characters(self, text: str) -> tuple[str, ...]:
        """Return the characters of a text that the vocabulary lacks.

        They are read as bytes, or not at all by a vocabulary without bytes.
        """
        if self._folder.config.text.kind == "byte":
            return ()
        unknown = self._folder.source_vocabulary.unknown_characters(text)
        if not unknown:  # nearly always
            return ()
        return tuple(dict.fromkeys(c for c in text if c in unknown and not c.isspace()))

    def _text_read(self, prepared: PreparedText, searched: Sequence[ComposedPart]) -> str:
        """Return what the model has read of a text."""
        readings = [part.reading for part in searched if part.reading is not None]
        if len(searched) == prepared.n_sentences and all(each.is_plain for each in readings):
            return prepared.cleaned  # nearly always
        return " ".join(each.source.text for each in readings)

    def _compose_reading(
        self, part: Part, reading: Reading, found: Hypotheses, options: TranslateOptions
    ) -> ComposedPart | None:
        """Return the translation by one reading; None if it has no hypothesis or lost a mask."""
        hypotheses = found[reading.search_input]
        n = options.alternatives or options.n_best
        versions: list[Version] = []
        best: tuple[Hypothesis, list[Restored]] | None = None
        for hypothesis in hypotheses[:n]:
            variants = self._restore(reading, hypothesis, found, options)
            if variants:
                versions.append(Version(variants[0].target.text, hypothesis))
                best = best or (hypothesis, variants)
        if best is None:
            return None
        hypothesis, (restored, *others) = best
        text = restored.target.text
        terms = [match.term for match in reading.terms]
        return ComposedPart(
            part=part,
            text=text,
            reading=reading,
            hypothesis=hypothesis,
            written=hypothesis,
            target=restored.target,
            versions=tuple(versions) if options.alternatives or options.n_best > 1 else (),
            is_complete=restored.is_complete,
            has_numbers=options.plain or numbers_agree(part.text, text),
            missing=tuple(term.source for term in terms if not self._is_met(term, text)),
            lacks_content=lacks_length(
                reading.source.text,
                restored.target.original,
                reading.search_input.ids,
                hypothesis.ids,
            ),
            other_targets=tuple(each.target for each in others),
        )

    def _restore(
        self,
        reading: Reading,
        hypothesis: Hypothesis,
        found: Hypotheses,
        options: TranslateOptions,
    ) -> list[Restored]:
        """Return a hypothesis with everything put back: one for each form that terms may have."""
        text = self.text_of(hypothesis.ids)
        if reading.is_plain:
            return [Restored(EditedText(text, text), is_complete=True)]
        aligned: AlignedText | None = None
        if reading.needs_attention:
            aligned = align_text(reading, hypothesis, text, self._vocabularies)
        if not reading.has_substitutions:
            restored = restore(reading, text, aligned)
            return [restored] if restored is not None else []
        assert aligned is not None, "terms need attention"
        substitutions = find_substitutions(
            reading,
            text,
            aligned,
            own_words=[self.text_of(found[each][0].ids) for each in reading.lookups],
            allowed_forms=[
                self._reader.allowed_forms(match.term, options) for match in reading.substituted
            ],
        )
        variants = (restore(reading, text, aligned, edits) for edits in choose_forms(substitutions))
        return [each for each in variants if each is not None]

    def _is_met(self, term: Term, text: str) -> bool:
        for target in term.targets:
            form = self._segmenter.clean(target)
            if contains_phrase(text, form) and (form in text or not term.is_verbatim):
                return True
        return False


def _as_written(words: Sequence[str], text: str) -> tuple[str, ...]:
    """Return words in the case that they have in a text."""
    written = {word.casefold(): word for word in split_words(text)}
    return tuple(written.get(word.casefold(), word) for word in words)


def gaps_of(parts: Sequence[ComposedPart]) -> list[str]:
    """Return the space after each translated part."""
    following: list[ComposedPart | None] = [*parts[1:], None]
    return [gap_after(*each) for each in zip(parts, following, strict=True)] if parts else []


def gap_after(part: ComposedPart, next_part: ComposedPart | None) -> str:
    """Return the space after a translated part: that of the source, or one that its script needs.

    Chinese and Japanese sentences have none between them, their translations may need one.
    """
    gap = one_line(part.part.gap)
    if gap or next_part is None or not part.text or not next_part.text:
        return gap
    was_unspaced = UNSPACED_END.search(part.part.text) is not None
    return " " if was_unspaced and UNSPACED_END.search(part.text) is None else ""


def _candidates(composed: ComposedPart) -> list[str]:
    """Return the text of a part, and what it is with other forms of its terms."""
    return [composed.text, *(each.text for each in composed.other_targets)]


def _is_nearly_as_sure(first: ComposedPart, best: ComposedPart) -> bool:
    """Return whether a translation of the whole sentence is as good as the best one.

    A name that is to be kept may be new to the model, so that it is not sure of it.
    """
    if first.reading is None:
        return False
    if first.reading.kept:
        return True
    is_surer = _confidence(first.hypothesis) > _confidence(best.hypothesis) - MARGIN
    return is_surer and not first.reading.protected


def _confidence(hypothesis: Hypothesis | None) -> float:
    """Return the mean log-probability of a token."""
    return hypothesis.log_prob / (len(hypothesis.ids) + 1) if hypothesis is not None else 0.0


def _alternatives(
    parts: Sequence[ComposedPart], gaps: Sequence[str], options: TranslateOptions
) -> tuple[Alternative, ...]:
    """Return the best translations of a text, if several were requested and it was translated.

    Of those that spell the same text in other tokens, only the best is returned.
    """
    n = options.alternatives or options.n_best
    is_requested = options.alternatives > 0 or options.n_best > 1
    if not is_requested or not any(part.versions for part in parts):
        return ()
    listed = [part for part in parts if part.versions]
    if len(listed) == 1:
        joined = [_join(parts, gaps, listed[0], each) for each in listed[0].versions]
    else:
        joined = _combine(parts, gaps, options, n)
    distinct: dict[str, Alternative] = {}
    for each in joined:
        distinct.setdefault(each.text, each)
    return tuple(distinct.values())


def _join(
    parts: Sequence[ComposedPart], gaps: Sequence[str], listed: ComposedPart, version: Version
) -> Alternative:
    """Return one version of the only part that was translated, with the others around it."""
    texts = (version.text if part is listed else part.text for part in parts)
    text = "".join(each + gap for each, gap in zip(texts, gaps, strict=True))
    return Alternative(text, version.hypothesis.score)


def _combine(
    parts: Sequence[ComposedPart], gaps: Sequence[str], options: TranslateOptions, n: int
) -> list[Alternative]:
    """Return the n best combinations of the versions of several parts.

    With alternatives at a position, only the first part varies.
    """
    penalty = make_penalty(options.config)
    joined: list[tuple[str, float, int]] = [("", 0.0, 0)]  # text, log-probability, tokens
    is_forked = False
    for part, gap in zip(parts, gaps, strict=True):
        versions = part.versions[:1] if options.alternatives and is_forked else part.versions
        is_forked = is_forked or bool(versions)
        longer = [
            (text + version_text + gap, total + log_prob, n_tokens + n_more)
            for text, total, n_tokens in joined
            for version_text, log_prob, n_more in _measured(versions, part.text)
        ]
        joined = sorted(longer, key=lambda each: -(each[1] / penalty(max(1, each[2]))))[:n]
    return [
        Alternative(text, log_prob / penalty(max(1, n_tokens)))
        for text, log_prob, n_tokens in joined
    ]


def _measured(versions: Sequence[Version], copied: str) -> Iterator[tuple[str, float, int]]:
    if not versions:
        yield copied, 0.0, 0
    for text, hypothesis in versions:
        yield text, hypothesis.log_prob, len(hypothesis.ids) + 1
