"""Readings: what the model reads instead of a sentence.

A model knows a text best in the form of its training text. A reading stands for a sentence: links
and other protected parts are masked by words that the model copies, or removed; capitals are those
that the model knows. restoring.py puts back what was changed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from transduce.decode.copying import Masks
from transduce.decode.engines.base import SearchInput
from transduce.decode.options import TranslateOptions
from transduce.decode.recasing import UNCHANGED, Recased, WordForms
from transduce.decode.words import RequiredTerm, Words
from transduce.errors import UsageError
from transduce.model_folder import ModelFolder
from transduce.text.case import Casing
from transduce.text.edits import Edit, EditedText, Placed, edit, overlaps_any
from transduce.text.normalize import clean
from transduce.text.protected import (
    BRACKETS,
    SENTENCE_PUNCTUATION,
    TERM,
    ProtectedPart,
    add_parts,
    find_protected,
    find_single_parts,
    has_letter,
    has_words,
    join_neighbors,
    numbers_in,
)
from transduce.text.terms import Term, TermMatch, contains_phrase

# Tokens of the terms that are required of one part, together. The time of a search grows with the
# square: 512 tokens take about two seconds of one core. A term beyond them is only looked for in
# the translation, and is flagged if it is missing.
MAX_TERM_TOKENS = 512


@dataclass(frozen=True, slots=True)
class Reading:
    """What the model reads instead of a sentence."""

    source: EditedText  # the sentence, and what the model reads
    search_input: SearchInput
    protected: tuple[ProtectedPart, ...] = ()  # parts of the sentence that are put back
    masks: tuple[str, ...] = ()  # the words that stand for them; none: they were removed
    kept: tuple[ProtectedPart, ...] = ()  # parts that the model reads, and copies if all is well
    casing: Casing | None = None  # capitals to put back
    terms: tuple[TermMatch, ...] = ()  # glossary terms in the sentence
    numbers: tuple[TermMatch, ...] = ()  # to be put in like terms, because the model changed them
    lookups: tuple[SearchInput, ...] = ()  # terms and numbers alone, for the model's own words
    is_constrained: bool = False  # the search puts in the terms; otherwise they are substituted

    @property
    def inputs(self) -> tuple[SearchInput, ...]:
        """All that is to be searched for this reading."""
        return (self.search_input, *self.lookups)

    def numbered(self, text_number: int, part_number: int) -> "Reading":
        """Return the reading for sampling, where what is drawn depends on the text's number."""

        def number(search_input: SearchInput) -> SearchInput:
            return search_input._replace(text_number=text_number, part_number=part_number)

        return replace(
            self,
            search_input=number(self.search_input),
            lookups=tuple(map(number, self.lookups)),
        )

    @property
    def is_plain(self) -> bool:
        """Return whether the translation needs nothing put back."""
        return not (self.protected or self.kept or self.casing or self.terms or self.numbers)

    @property
    def substituted(self) -> tuple[TermMatch, ...]:
        """What takes the place of the model's own words, in the order of the sentence."""
        terms = () if self.is_constrained else self.terms
        return tuple(sorted((*terms, *self.numbers), key=lambda match: match.start))

    @property
    def has_substitutions(self) -> bool:
        """Return whether terms or numbers take the place of the model's own words."""
        return bool(self.numbers) or (bool(self.terms) and not self.is_constrained)

    @property
    def needs_attention(self) -> bool:
        """Return whether the places of what is put back depend on the model's attention."""
        is_removed = bool(self.protected) and not self.masks
        is_partly_cased = self.casing is not None and not self.casing.is_upper
        return is_removed or is_partly_cased or self.has_substitutions


class Variant(NamedTuple):
    """What a reading does with the protected parts of a sentence."""

    replaced: Sequence[ProtectedPart]  # by masks, or by nothing
    kept: Sequence[ProtectedPart] = ()  # read as they are
    masks: Sequence[str] = ()  # of the replaced parts; none: these are removed


class Reader:
    """Finds what a model should read instead of a sentence.

    `masks` returns the words that the model copies reliably; it is called when they are needed.
    """

    def __init__(
        self,
        folder: ModelFolder,
        max_tokens: int,
        max_positions: int,
        masks: Callable[[], Masks],
    ) -> None:
        self._normalization = folder.config.text.normalization
        self._source_vocabulary = folder.source_vocabulary
        self._target_vocabulary = folder.target_vocabulary
        self._max_tokens = max_tokens
        self._max_positions = max_positions
        self._masks = masks
        self._word_forms = WordForms(folder)

    def read(
        self, sentence: str, ids: list[int], prefix: str, options: TranslateOptions
    ) -> tuple[Reading, ...]:
        """Return the readings of a sentence with these tokens, the preferred one first.

        There are none if the sentence is to be copied.
        """
        encoded_prefix = self._encode_prefix(prefix)
        plain = Reading(EditedText(sentence, sentence), SearchInput(tuple(ids), encoded_prefix))
        if options.plain or options.alternatives:
            return (plain,)
        protected, terms = self._find_parts(sentence, options)
        if encoded_prefix:
            return (self._constrain(plain, protected, terms, options),)
        if not (terms or has_words(sentence, protected)):
            return ()
        recased = self._word_forms.recase(sentence, protected)
        if not (protected or terms or recased is not UNCHANGED):
            return (plain,)
        return self._read_variants(sentence, protected, terms, recased) or (plain,)

    def protect_numbers(
        self, sentence: str, reading: Reading, missing: Sequence[Placed]
    ) -> tuple[Reading, ...]:
        """Return readings of a sentence that get its missing numbers into the translation.

        There are none if the sentence has only numbers, and is to be copied. Otherwise they take
        the place of what the model wrote for them, or are protected. `missing` is where those to
        protect stand; none means all.
        """
        wrong = [
            part
            for part in numbers_in(sentence)
            if not missing or overlaps_any(part, missing) or has_letter(part.text)
        ]
        parts = add_parts(reading.protected, wrong or numbers_in(sentence))
        protected = join_neighbors(sentence, parts)
        if not has_words(sentence, protected):
            return ()
        numbers = tuple(
            TermMatch(Term(part.text, (part.text,)), part.start, part.end)
            for part in parts
            if part not in reading.protected and not overlaps_any(part, reading.terms)
        )
        substituting = replace(reading, numbers=numbers)
        lookups = self._lookups(sentence, substituting.substituted)
        recased = self._word_forms.recase(sentence, protected)
        found = (
            replace(substituting, lookups=lookups),
            *self._read_variants(sentence, protected, reading.terms, recased),
        )
        old = reading.search_input
        return tuple(each.numbered(old.text_number, old.part_number) for each in found)

    def require_terms(self, reading: Reading, options: TranslateOptions) -> Reading:
        """Return a reading for which the search itself puts in the terms."""
        source = reading.source
        found = [
            TermMatch(term, source.to_edited(start), source.to_edited(end))
            for term, start, end in reading.terms
        ]
        terms = self._require(source.text, found, options)
        search_input = reading.search_input._replace(terms=terms)
        return replace(reading, search_input=search_input, lookups=(), is_constrained=True)

    def allowed_forms(self, term: Term, options: TranslateOptions) -> list[str]:
        """Return the translations of a term that contain no forbidden phrase, cleaned."""
        forms = [
            clean(target, self._normalization).strip()
            for target in term.targets
            if not any(contains_phrase(target, phrase) for phrase in options.forbid)
        ]
        return [form for form in forms if form]

    def _find_parts(
        self, sentence: str, options: TranslateOptions
    ) -> tuple[list[ProtectedPart], tuple[TermMatch, ...]]:
        """Return the parts of a sentence to copy, and the terms to translate beside them.

        A term that covers the whole of a link or another part takes its place. Otherwise there is
        no term in it.
        """
        if options.glossary is None:
            return find_protected(sentence, with_numbers=options.protect), ()
        parts = find_single_parts(sentence, with_numbers=options.protect)
        found = list(options.glossary.find(sentence, parts))
        copied = [
            ProtectedPart(start, end, sentence[start:end], TERM)
            for term, start, end in found
            if term.is_verbatim
        ]
        terms = tuple(match for match in found if not match.term.is_verbatim)
        others = [part for part in parts if not overlaps_any(part, terms)]
        return join_neighbors(sentence, add_parts(copied, others)), terms

    def _read_variants(
        self,
        sentence: str,
        protected: Sequence[ProtectedPart],
        terms: tuple[TermMatch, ...],
        recased: Recased,
    ) -> tuple[Reading, ...]:
        """Return the readings that the model can read."""
        lookups = self._lookups(sentence, terms)
        readings = (
            self._read_variant(sentence, variant, terms, lookups, recased)
            for variant in self._variants(sentence, protected)
        )
        return tuple(each for each in readings if each is not None)

    def _variants(self, sentence: str, protected: Sequence[ProtectedPart]) -> Iterator[Variant]:
        """Yield what may be done with the protected parts, what is preferred first."""
        names = [part for part in protected if part.kind == TERM]
        if names:  # the model may know a name that is to be copied
            yield Variant([part for part in protected if part.kind != TERM], kept=names)
        if protected and (masks := self._masks().choose(protected, sentence)):
            yield Variant(protected, masks=masks)
        yield Variant(protected)

    def _read_variant(
        self,
        sentence: str,
        variant: Variant,
        terms: tuple[TermMatch, ...],
        lookups: tuple[SearchInput, ...],
        recased: Recased,
    ) -> Reading | None:
        """Return a reading of a sentence, or None if the model cannot read it."""
        if variant.masks:
            edits = [
                Edit(part.start, part.end, mask)
                for part, mask in zip(variant.replaced, variant.masks, strict=True)
            ]
        else:
            edits = remove_parts(sentence, variant.replaced)
        free = [each for each in recased.edits if not overlaps_any(each, edits)]
        source = edit(sentence, [*edits, *free])
        ids = tuple(self._source_vocabulary.encode(source.text))
        if not 0 < len(ids) <= self._max_tokens:
            return None
        return Reading(
            source=source,
            search_input=SearchInput(ids),
            protected=tuple(variant.replaced),
            masks=tuple(variant.masks),
            kept=tuple(variant.kept),
            casing=recased.casing,
            terms=terms,
            lookups=lookups,
        )

    def _lookups(self, sentence: str, terms: Sequence[TermMatch]) -> tuple[SearchInput, ...]:
        """Return the source words of terms, to be translated alone."""
        phrases = [sentence[start:end] for _, start, end in terms]
        return tuple(SearchInput(tuple(self._source_vocabulary.encode(each))) for each in phrases)

    def _constrain(
        self,
        reading: Reading,
        protected: Sequence[ProtectedPart],
        terms: tuple[TermMatch, ...],
        options: TranslateOptions,
    ) -> Reading:
        """Return a reading of the sentence as it is, for which the search copies its parts."""
        copied = (
            TermMatch(Term(part.text, (part.text,)), part.start, part.end) for part in protected
        )
        required = sorted((*copied, *terms), key=lambda match: match.start)
        if not required:
            return reading
        kept = replace(reading, kept=tuple(protected), terms=terms, is_constrained=True)
        if options.sampling is not None:  # nothing can be required; what is missing is flagged
            return kept
        constrained = self.require_terms(replace(kept, terms=tuple(required)), options)
        return replace(constrained, terms=terms)

    def _encode_prefix(self, prefix: str) -> tuple[int, ...]:
        if not prefix.strip():
            return ()
        ids = self._target_vocabulary.encode(clean(prefix, self._normalization))
        if len(ids) >= self._max_positions:
            raise UsageError(
                f"the prefix has {len(ids)} tokens, but this model writes at most "
                f"{self._max_positions - 1}; shorten it"
            )
        return tuple(ids)

    def _require(
        self, text: str, found: Sequence[TermMatch], options: TranslateOptions
    ) -> tuple[RequiredTerm, ...]:
        """Return the terms to search for, at most MAX_TERM_TOKENS long together.

        Forms that contain a forbidden phrase are left out.
        """
        required: list[RequiredTerm] = []
        n_tokens = 0
        for term, start, end in found:
            phrases = self.allowed_forms(term, options)
            if phrases:
                before, until = self._source_vocabulary.encode_batch(
                    [text[:start].rstrip(), text[:end]]
                )
                found_term = self._words.require(phrases, len(before), len(until), term.is_verbatim)
                n_tokens += max(map(len, found_term.spellings))
                if n_tokens > MAX_TERM_TOKENS:
                    break
                required.append(found_term)
        return tuple(required)

    @cached_property
    def _words(self) -> Words:
        return Words(self._target_vocabulary)


def remove_parts(sentence: str, parts: Sequence[ProtectedPart]) -> list[Edit]:
    """Return the edits that remove parts from a sentence, each with a space and its brackets.

    What belongs to a part and makes no sense without it goes too: brackets with nothing else in
    them, and the 's of a name.
    """
    edits: list[Edit] = []
    for part in parts:
        start, end = part.start, part.end
        if sentence[end : end + 2] in ("'s", "’s"):
            end += 2
        while start > 0 and BRACKETS.get(sentence[end : end + 1]) == sentence[start - 1]:
            start, end = start - 1, end + 1
        is_spaced = start == 0 or sentence[start - 1].isspace()
        rest = sentence[end:]
        if is_spaced and rest[:1].isspace():
            end += 1
        elif is_spaced and start > 0 and (not rest or rest[0] in SENTENCE_PUNCTUATION):
            start -= 1
        if edits and start < edits[-1].end:
            start = edits[-1].end
        edits.append(Edit(start, end, ""))
    return edits
