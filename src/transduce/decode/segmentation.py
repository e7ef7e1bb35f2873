"""Prepare texts for the search: clean them, split them into sentences, and say what is read.

    text -> sentences -> readings of each sentence -> tokens

A sentence that is too long for the model is split further. Most texts are one sentence with one
reading: the sentence itself.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from transduce.decode.copying import Masks
from transduce.decode.options import TranslateOptions
from transduce.decode.readings import Reader, Reading
from transduce.errors import UsageError
from transduce.model_folder import ModelFolder
from transduce.text.normalize import clean
from transduce.text.protected import find_protected
from transduce.text.segments import Segment, in_blocks, split_text
from transduce.text.sentences import known_language, split_sentences

MAX_TOKENS = 512  # of one source; a longer run without a space is copied, not translated
MAX_PIECE_LENGTH = 16  # characters, SentencePiece's default
MAX_CHARACTERS = MAX_PIECE_LENGTH * (MAX_TOKENS + 1)  # a longer text has too many tokens
UNLIMITED_POSITIONS = 1 << 20


class Part(NamedTuple):
    """A sentence of a text, or a part of one that was too long."""

    text: str
    gap: str  # the space after it
    readings: tuple[Reading, ...]  # what the model may read instead; none: the part is copied
    is_unreadable: bool = False  # copied because it is too long for the model


class PreparedText(NamedTuple):
    """A text that is ready to be searched."""

    source: str  # as given
    cleaned: str  # as the model reads it
    parts: list[Part]  # none if the text is blank
    n_sentences: int
    is_split: bool  # a sentence was too long and was split


class Segmenter:
    """Turns texts into parts that all models of an ensemble can read.

    `masks` returns the words that the model copies reliably; it is called when they are needed.
    """

    def __init__(self, folders: Sequence[ModelFolder], masks: Callable[[], Masks] = Masks) -> None:
        self._folder = folders[0]
        self._source_vocabulary = self._folder.source_vocabulary
        languages = self._folder.config.text.languages
        self.language = known_language(languages[0] if languages else None)
        self.max_positions = min(
            (
                folder.config.model.max_positions
                for folder in folders
                if folder.config.model.positions == "learned"
            ),
            default=UNLIMITED_POSITIONS,
        )
        self.max_tokens = min(MAX_TOKENS, self.max_positions - 1)  # the model can read
        self.reader = Reader(self._folder, self.max_tokens, self.max_positions, masks)

    def clean(self, text: str) -> str:
        """Return a text as the model reads it: normalized, with U+FFFD for lone surrogates."""
        return clean(text, self._folder.config.text.normalization)

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
        cleaned = [self.clean(text) for text in texts]
        sentences = [self._sentences(text, options) for text in cleaned]
        flat = [segment for segments in sentences for segment in segments]
        encoded = iter(self._encode([segment.text for segment in flat]))
        prepared = []
        for number, (text, of_text, segments, prefix) in enumerate(
            zip(texts, cleaned, sentences, prefixes, strict=True)
        ):
            maker = _PartMaker(self, options, number, prefix)
            for segment in segments:
                maker.add(segment, next(encoded))
            n_sentences = sum(bool(segment.text) for segment in segments)
            prepared.append(PreparedText(text, of_text, maker.parts, n_sentences, maker.is_split))
        return prepared

    def _sentences(self, text: str, options: TranslateOptions) -> list[Segment]:
        """Return the sentences of a text; no sentence ends inside a protected part."""
        if options.plain or not options.split:
            return [Segment(text, "")] if text.strip() else []
        segments = split_sentences(text, self.language)
        if len(segments) < 2:
            return segments
        protected = find_protected(text)
        if not protected:
            return segments
        groups: list[list[Segment]] = []
        offset = i = 0
        for segment in segments:
            while i < len(protected) and protected[i].end <= offset:
                i += 1
            is_inside = i < len(protected) and protected[i].start < offset
            if is_inside:
                groups[-1].append(segment)
            else:
                groups.append([segment])
            offset += len(segment.text) + len(segment.gap)
        return [_join(group) for group in groups]

    def split_long(self, text: str) -> Iterator[tuple[Segment, list[int]]]:
        """Yield the segments of a text that is too long, each with its tokens."""
        segments = split_text(text, self.max_source_tokens(), self._count_tokens)
        for block in in_blocks(segments):
            yield from zip(block, self._encode([each.text for each in block]), strict=True)

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each text; none for a text that has too many in any case."""
        return self._source_vocabulary.encode_batch(
            [text if len(text) <= MAX_CHARACTERS else "" for text in texts]
        )

    def _count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, or of characters if it is not encoded."""
        return [len(ids) or len(text) for ids, text in zip(self._encode(texts), texts, strict=True)]


def _join(segments: Sequence[Segment]) -> Segment:
    """Return the segments as one."""
    *others, last = segments
    return Segment("".join(each.text + each.gap for each in others) + last.text, last.gap)


class _PartMaker:
    """Makes the parts of one text."""

    def __init__(
        self, segmenter: Segmenter, options: TranslateOptions, text_number: int, prefix: str
    ) -> None:
        self.parts: list[Part] = []
        self.is_split = False
        self._segmenter = segmenter
        self._options = options
        self._text_number = text_number
        self._prefix = prefix
        self._max_tokens = segmenter.max_source_tokens()

    def add(self, sentence: Segment, ids: list[int]) -> None:
        """Add a sentence with its tokens, in several parts if it is too long."""
        if not sentence.text:
            self.parts.append(Part("", sentence.gap, ()))
        elif 0 < len(ids) <= self._max_tokens:
            self._add_part(sentence, ids)
        else:
            n_before = len(self.parts)
            for segment, segment_ids in self._segmenter.split_long(sentence.text):
                self._add_part(segment, segment_ids)
            self.is_split = self.is_split or len(self.parts) > n_before + 1
            if sentence.gap and self.parts:
                last = self.parts.pop()
                self.parts.append(last._replace(gap=last.gap + sentence.gap))

    def _add_part(self, segment: Segment, ids: list[int]) -> None:
        if not 0 < len(ids) <= self._segmenter.max_tokens:
            self.parts.append(Part(segment.text, segment.gap, (), is_unreadable=bool(segment.text)))
            return
        prefix, self._prefix = self._prefix, ""  # of the first part that is translated
        readings = self._segmenter.reader.read(segment.text, ids, prefix, self._options)
        if self._options.sampling is not None:  # otherwise equal inputs are one search
            number = len(self.parts)
            readings = tuple(each.numbered(self._text_number, number) for each in readings)
        self.parts.append(Part(segment.text, segment.gap, readings))
