"""Compose translations from search results: join parts, score, find quality flags."""

import re
from collections.abc import Mapping, Sequence

from transduce.decode.engines.base import SearchInput
from transduce.decode.hypotheses import Hypothesis, make_penalty
from transduce.decode.options import TranslateOptions
from transduce.decode.quality import Evidence, find_flags, find_notes
from transduce.decode.segmentation import Part, PreparedText, Segmenter
from transduce.decode.translation import Alternative, Translation
from transduce.model_folder import ModelFolder
from transduce.text.normalize import WORD
from transduce.text.terms import Term, contains_phrase

LINE_BREAKS = re.compile("[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")

Hypotheses = Mapping[SearchInput, Sequence[Hypothesis]]  # of each input, best first


class Composer:
    """Makes a `Translation` from a prepared text and the hypotheses of its parts."""

    def __init__(self, folder: ModelFolder, segmenter: Segmenter) -> None:
        self._folder = folder
        self._segmenter = segmenter

    def compose(
        self, prepared: PreparedText, found: Hypotheses, options: TranslateOptions
    ) -> Translation:
        """Join the best hypotheses of all parts; the result has no details yet."""
        parts = prepared.parts
        inputs = [part.search_input for part in parts if part.search_input is not None]
        bests = [found[each][0] for each in inputs]
        texts = [self._part_text(part, found) for part in parts]
        gaps = [one_line(part.gap) for part in parts]
        text = "".join(each + gap for each, gap in zip(texts, gaps, strict=True))

        target_ids = [i for best in bests for i in best.ids]
        n_tokens = len(target_ids) + len(bests)  # with an [EOS] each
        log_prob = sum(best.log_prob for best in bests)
        evidence = Evidence(
            source=prepared.source,
            cleaned=prepared.cleaned,
            text=text,
            source_ids=[i for each in inputs for i in each.ids],
            target_ids=target_ids,
            hypotheses=bests,
            n_parts=len(parts),
            has_copied_part=any(part.text and part.search_input is None for part in parts),
            unseen=self.unseen_words(prepared.cleaned),
            unknown=self.unknown_characters(prepared.cleaned),
            missing=self._missing_terms(parts, texts),
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
            alternatives=self._alternatives(parts, found, options),
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
        """Return the characters of a text that the vocabulary lacks: they are read as bytes."""
        if self._folder.config.text.kind == "byte":
            return ()
        unknown = set(text) - self._folder.source_vocabulary.characters
        if not unknown:  # nearly always
            return ()
        return tuple(dict.fromkeys(c for c in text if c in unknown and not c.isspace()))

    def _part_text(self, part: Part, found: Hypotheses) -> str:
        if part.search_input is None:
            return one_line(part.text)
        return self.text_of(found[part.search_input][0].ids)

    def _missing_terms(self, parts: Sequence[Part], texts: Sequence[str]) -> tuple[str, ...]:
        return tuple(
            term.source
            for part, text in zip(parts, texts, strict=True)
            for term in part.terms
            if not self._is_met(term, text)
        )

    def _is_met(self, term: Term, text: str) -> bool:
        for target in term.targets:
            form = self._segmenter.clean(target)
            if contains_phrase(text, form) and (form in text or not term.is_verbatim):
                return True
        return False

    def _alternatives(
        self, parts: Sequence[Part], found: Hypotheses, options: TranslateOptions
    ) -> tuple[Alternative, ...]:
        """Return all hypotheses if several were requested and the text was not split.

        Of hypotheses that spell the same text in other tokens, only the best is returned.
        """
        n = options.alternatives or options.n_best
        is_requested = options.alternatives > 0 or options.n_best > 1
        if not is_requested or len(parts) != 1 or parts[0].search_input is None:
            return ()
        distinct: dict[str, Alternative] = {}
        for each in found[parts[0].search_input][:n]:
            text = self.text_of(each.ids)
            distinct.setdefault(text, Alternative(text, each.score))
        return tuple(distinct.values())


def one_line(text: str) -> str:
    """Return the text with every line break of any kind replaced by a space."""
    return LINE_BREAKS.sub(" ", text)
