"""Prepare texts for the search: clean them, split those that are too long, and find their terms."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from transduce.decode.engines.base import SearchInput
from transduce.decode.options import TranslateOptions
from transduce.decode.words import RequiredTerm, Words
from transduce.errors import UsageError
from transduce.model_folder import ModelFolder
from transduce.text.normalize import LONE_SURROGATE, normalize
from transduce.text.segments import Segment, in_blocks, split_text
from transduce.text.terms import Term, TermMatch, contains_phrase, find_protected

MAX_TOKENS = 512  # of one source; a longer run without a space is copied, not translated
MAX_PIECE_LENGTH = 16  # characters, SentencePiece's default
# Tokens of the terms that are required of one part, together. The time of a search grows with the
# square: 512 tokens take about two seconds of one core. A term beyond them is only looked for in
# the translation, and is flagged if it is missing.
MAX_TERM_TOKENS = 512
MAX_CHARACTERS = MAX_PIECE_LENGTH * (MAX_TOKENS + 1)  # a longer text has too many tokens
UNLIMITED_POSITIONS = 1 << 20


class Part(NamedTuple):
    """A text, or a part of a text that was too long."""

    text: str
    gap: str  # the space after it
    search_input: SearchInput | None  # None: the part cannot be searched and is copied
    terms: tuple[Term, ...] = ()  # that its translation must contain


class PreparedText(NamedTuple):
    """A text that is ready to be searched."""

    source: str  # as given
    cleaned: str  # as the model reads it
    parts: list[Part]  # none if the text is blank


class Segmenter:
    """Turns texts into parts that all models of an ensemble can read."""

    def __init__(self, folders: Sequence[ModelFolder]) -> None:
        self._folder = folders[0]
        self._source_vocabulary = self._folder.source_vocabulary
        self._target_vocabulary = self._folder.target_vocabulary
        self.max_positions = min(
            (
                folder.config.model.max_positions
                for folder in folders
                if folder.config.model.positions == "learned"
            ),
            default=UNLIMITED_POSITIONS,
        )
        self.max_tokens = min(MAX_TOKENS, self.max_positions - 1)  # the model can read

    def clean(self, text: str) -> str:
        """Return a text as the model reads it: normalized, with U+FFFD for lone surrogates."""
        normalized = normalize(text, self._folder.config.text.normalization)
        return LONE_SURROGATE.sub("\ufffd", normalized)

    def max_source_tokens(self) -> int:
        """Return how many tokens a source may have before it is split.

        It is the length limit of the training text, or what the model can read, if that is less.
        """
        trained = self._folder.trained_with("data", "max_length")
        is_length = isinstance(trained, int) and trained > 0
        return max(1, min(self.max_tokens, trained if is_length else MAX_TOKENS))

    def prepare(self, texts: Sequence[str], options: TranslateOptions) -> list[PreparedText]:
        """Clean texts and split each into parts that the model can read; most have one."""
        if isinstance(options.prefix, str):
            prefixes: Sequence[str] = [options.prefix] * len(texts)
        else:
            prefixes = options.prefix
        if len(prefixes) != len(texts):
            raise UsageError(
                f"{len(prefixes)} prefixes for {len(texts)} texts; expected one for each text, "
                "or one for all"
            )
        max_tokens = self.max_source_tokens()
        cleaned = [self.clean(text) for text in texts]
        prepared = []
        for number, (text, clean, ids, prefix) in enumerate(
            zip(texts, cleaned, self._encode(cleaned), prefixes, strict=True)
        ):
            parts: list[Part] = []
            for segment, segment_ids in self._split(clean, ids, max_tokens):
                begin = prefix if not parts else ""
                parts.append(
                    self._make_part(segment, segment_ids, begin, number, len(parts), options)
                )
            prepared.append(PreparedText(text, clean, parts))
        return prepared

    def _split(
        self, text: str, ids: list[int], max_tokens: int
    ) -> Iterator[tuple[Segment, list[int]]]:
        """Yield the text, or its segments if it is too long, each with its tokens."""
        if not text.strip():
            return
        if 0 < len(ids) <= max_tokens:
            yield Segment(text, ""), ids
            return
        segments = split_text(text, max_tokens, self._count_tokens)
        for block in in_blocks(segments):
            yield from zip(block, self._encode([each.text for each in block]), strict=True)

    def _make_part(
        self,
        segment: Segment,
        ids: list[int],
        prefix: str,
        text_number: int,
        part_number: int,
        options: TranslateOptions,
    ) -> Part:
        if not 0 < len(ids) <= self.max_tokens:
            return Part(segment.text, segment.gap, search_input=None)
        found = _find_terms(segment.text, options)
        search_input = SearchInput(
            tuple(ids), self._encode_prefix(prefix), self._require(segment.text, found, options)
        )
        if options.sampling is not None:  # otherwise equal inputs are one search
            search_input = search_input._replace(text_number=text_number, part_number=part_number)
        return Part(segment.text, segment.gap, search_input, tuple(each.term for each in found))

    def _encode_prefix(self, prefix: str) -> tuple[int, ...]:
        if not prefix.strip():
            return ()
        ids = self._target_vocabulary.encode(self.clean(prefix))
        if len(ids) >= self.max_positions:
            raise UsageError(
                f"the prefix has {len(ids)} tokens, but this model writes at most "
                f"{self.max_positions - 1}; shorten it"
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
            forms = [
                self.clean(target).strip()
                for target in term.targets
                if not any(contains_phrase(target, phrase) for phrase in options.forbid)
            ]
            phrases = [form for form in forms if form]
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

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each text; none for a text that has too many in any case."""
        return self._source_vocabulary.encode_batch(
            [text if len(text) <= MAX_CHARACTERS else "" for text in texts]
        )

    def _count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, or of characters if it is not encoded."""
        return [len(ids) or len(text) for ids, text in zip(self._encode(texts), texts, strict=True)]


def _find_terms(text: str, options: TranslateOptions) -> list[TermMatch]:
    """Return the glossary terms of a text, then the protected words outside of them."""
    found = list(options.glossary.find(text)) if options.glossary is not None else []
    if not options.protect:
        return found
    return found + [each for each in find_protected(text) if not _overlaps(each, found)]


def _overlaps(one: TermMatch, others: Sequence[TermMatch]) -> bool:
    return any(one.start < other.end and other.start < one.end for other in others)
