"""Finish translations: compose what was searched, repair what is at fault, and check the result.

A part of a text is at fault if a link, a number or a glossary term is missing or wrong. It is then
searched again by other readings.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from transduce.decode.composition import ComposedPart, Composer
from transduce.decode.engines.base import Engine, SearchInput
from transduce.decode.hypotheses import Hypothesis
from transduce.decode.options import TranslateOptions
from transduce.decode.quality import has_gap
from transduce.decode.readings import Reading
from transduce.decode.segmentation import Part, PreparedText
from transduce.decode.words import Ids

Results = Iterator[tuple[SearchInput, list[Hypothesis]]]
Search = Callable[[Iterable[Reading], TranslateOptions], Results]
ComposedTexts = list[list[ComposedPart]]  # the parts of each text
Place = tuple[int, int]  # number of the text, number of the part


class Finisher:
    """Makes complete translations of search results.

    `search` searches what is to be read; `engine_for` returns the engine for some options.
    """

    def __init__(
        self,
        composer: Composer,
        search: Search,
        engine_for: Callable[[TranslateOptions], Engine],
    ) -> None:
        self._composer = composer
        self._search = search
        self._engine_for = engine_for

    def finish(
        self,
        prepared: Sequence[PreparedText],
        results: Iterable[tuple[SearchInput, list[Hypothesis]]],
        options: TranslateOptions,
    ) -> ComposedTexts:
        """Wait for the results and return the translated parts of each text."""
        composed = self._compose(prepared, results, options)
        if not options.plain:
            self._repair(composed, options)
            self._choose_forms(composed, options)
        if options.check:
            self._check(composed, options)
        return composed

    def finish_part(self, part: Part, options: TranslateOptions) -> ComposedPart:
        """Translate one part."""
        found = dict(self._search(part.readings, options))
        composed = [[self._composer.compose_part(part, found, options)]]
        self._repair(composed, options)
        self._choose_forms(composed, options)
        return composed[0][0]

    def _compose(
        self,
        prepared: Sequence[PreparedText],
        results: Iterable[tuple[SearchInput, list[Hypothesis]]],
        options: TranslateOptions,
    ) -> ComposedTexts:
        """Compose the parts; a text of one plain part at once, while others are searched."""
        of_input: dict[SearchInput, list[int]] = {}  # texts of one plain part, by their input
        for number, text in enumerate(prepared):
            if len(text.parts) == 1 and len(text.parts[0].readings) == 1:
                [reading] = text.parts[0].readings
                if reading.is_plain:
                    of_input.setdefault(reading.search_input, []).append(number)

        found: dict[SearchInput, list[Hypothesis]] = {}
        at_once: dict[int, ComposedPart] = {}
        for search_input, hypotheses in results:
            found[search_input] = hypotheses
            for number in of_input.get(search_input, ()):
                [part] = prepared[number].parts
                at_once[number] = self._composer.compose_part(part, found, options)
        return [
            [at_once[number]]
            if number in at_once
            else [self._composer.compose_part(part, found, options) for part in text.parts]
            for number, text in enumerate(prepared)
        ]

    def _repair(self, composed: ComposedTexts, options: TranslateOptions) -> None:
        """Translate the parts that are at fault by other readings, and keep what is better."""
        retried: dict[Place, Part] = {}
        for place, part in _places(composed):
            other = self._composer.retry(part, options)
            if other is not None:
                retried[place] = other
        if not retried:
            return
        all_readings = (reading for part in retried.values() for reading in part.readings)
        found = dict(self._search(all_readings, options))
        for (text, number), retried_part in retried.items():
            better = self._composer.compose_part(retried_part, found, options)
            if better.n_faults < composed[text][number].n_faults:
                composed[text][number] = better

    def _choose_forms(self, composed: ComposedTexts, options: TranslateOptions) -> None:
        """Score the translations that terms were put into, and choose the forms of the terms."""
        pairs: dict[Place, list[tuple[Ids, Ids]]] = {}
        for place, part in _places(composed):
            if part.needs_rescoring and part.reading is not None:
                targets = self._composer.encode_candidates(part)
                if targets:
                    source = part.reading.search_input.ids
                    pairs[place] = [(source, target) for target in targets]
        scored = self._score([pair for of_part in pairs.values() for pair in of_part], options)
        for (text, number), of_part in pairs.items():
            found = [(target, scored[source, target]) for source, target in of_part]
            part = composed[text][number]
            composed[text][number] = self._composer.choose_form(part, found, options)

    def _check(self, composed: ComposedTexts, options: TranslateOptions) -> None:
        """Score the translations again, and mark those that leave something out."""
        pairs = {
            place: (part.reading.search_input.ids, part.hypothesis.ids)
            for place, part in _places(composed)
            if part.reading is not None and part.hypothesis is not None
        }
        scored = self._score(pairs.values(), options)
        for (text, number), pair in pairs.items():
            part = composed[text][number]
            lacks_content = part.lacks_content or has_gap(scored[pair])
            composed[text][number] = part._replace(lacks_content=lacks_content)

    def _score(
        self, pairs: Iterable[tuple[Ids, Ids]], options: TranslateOptions
    ) -> Mapping[tuple[Ids, Ids], tuple[float, ...]]:
        """Return the log-probabilities of the tokens of each pair, which is scored once."""
        distinct = list(dict.fromkeys(pairs))
        if not distinct:
            return {}
        return dict(zip(distinct, self._engine_for(options).score(distinct), strict=True))


def _places(composed: ComposedTexts) -> Iterator[tuple[Place, ComposedPart]]:
    for text, parts in enumerate(composed):
        for number, part in enumerate(parts):
            yield (text, number), part
