"""Vocabularies: text to token ids and back, with SentencePiece (section 5.1).

    "Ti amo molto"  --encode-->  [412, 87, 103]  --decode-->  "Ti amo molto"

With byte pieces every string survives the round trip: a character without a token of its own is
encoded as its UTF-8 bytes, and no text produces one of the four special tokens. All vocabularies
learned here have byte pieces.

An imported vocabulary may have none. Then a run of characters without tokens becomes one [UNK], and
the model file may normalize the text. No text produces another special token.
"""

import io
import re
from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, groupby
from typing import Any, Literal

import sentencepiece

from transduce.errors import ConfigError, DataError, ModelError
from transduce.text.normalize import LONE_SURROGATE
from transduce.text.printable import list_words

Kind = Literal["bpe", "unigram", "char", "byte"]
PAD, SOS, EOS, UNKNOWN = 0, 1, 2, 3
SPECIAL_TOKENS = ("[PAD]", "[SOS]", "[EOS]", "[UNK]")
SPACE = "▁"  # U+2581, SentencePiece's space inside a piece
MIN_PARALLEL_TEXTS = 9  # fewer are encoded faster in this thread; starting threads takes time
# Characters of a line to learn from. SentencePiece is slow on long words and aborts at 65,536.
MAX_LEARN_LENGTH = 1 << 12
# Share of the characters that get tokens if there are many different ones; the rest become bytes.
CHARACTER_COVERAGE = 0.9999
FEW_CHARACTERS = 0.05  # of the vocabulary size: if there are fewer, each gets a token
MAX_QUOTED = 80  # characters of a text that a message quotes

# SentencePiece reads U+2581 in a text as a space. To preserve it, we replace it by a character that
# is not in the text and has no piece, so that it is encoded as bytes, and then replace these bytes
# by those of U+2581. Candidates are Unicode's noncharacters, then its private use area. Only a
# vocabulary with byte pieces can preserve it.
STAND_INS = (range(0xFDD0, 0xFDF0), range(0x100000, 0x10FFFE))
# Characters that every normalization but the identity changes: a ligature, a letter in full width.
NORMALIZED = ("\ufb01", "\uff21", "\u00a0", "\u0009")


class Vocabulary:
    """The tokens of one language, or of two. Immutable.

    `model` is the content of a SentencePiece model file. `learn_vocabulary` makes new ones.
    `prefix` are control pieces put before every text that is not empty, such as the `>>fra<<` of a
    multilingual model. They add nothing to a text.
    """

    def __init__(self, model: bytes, n_threads: int = -1, prefix: Sequence[str] = ()) -> None:
        if not model:
            raise ModelError("not a SentencePiece model: it is empty")
        try:
            self._processor = sentencepiece.SentencePieceProcessor(
                model_proto=model, num_threads=n_threads
            )
        except (RuntimeError, ValueError) as error:
            raise ModelError(f"not a SentencePiece model: {error}") from None
        self.model = model
        try:
            pieces = self._processor.id_to_piece(list(range(len(self))))
        except UnicodeDecodeError as error:
            raise ModelError(
                f"a piece of the SentencePiece model is not UTF-8 ({error.reason})"
            ) from None
        found = pieces[: len(SPECIAL_TOKENS)]
        if tuple(found) != SPECIAL_TOKENS:
            raise ModelError(
                f"the first pieces of the SentencePiece model are {list_words(found)}; "
                f"expected {', '.join(SPECIAL_TOKENS)}: it was not made by transduce"
            )
        self.has_bytes = any(self._processor.is_byte(list(range(len(self)))))  # all 256, or none
        self.prefix = tuple(prefix)
        self._prefix_ids = [int(self._processor.piece_to_id(piece)) for piece in prefix]
        for piece, i in zip(prefix, self._prefix_ids, strict=True):
            if i < len(SPECIAL_TOKENS) or not self._processor.is_control(i):
                raise ModelError(
                    f"the SentencePiece model has no control piece {list_words([piece])}; "
                    "text.source_prefix belongs to another vocabulary"
                )

    def __len__(self) -> int:
        return int(self._processor.vocab_size())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return False
        return (self.model, self.prefix) == (other.model, other.prefix)

    def __hash__(self) -> int:
        return hash((self.model, self.prefix))

    @property
    def pieces(self) -> list[str]:
        """The SentencePiece pieces in the order of their ids."""
        return list(self._processor.id_to_piece(list(range(len(self)))))

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without [SOS] and [EOS]."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of several texts, encoded on all cores if they are many."""
        all_text = "\n".join(texts)
        check_characters(texts, all_text)
        encode = self._processor.encode
        ids: list[list[int]]
        if len(texts) >= MIN_PARALLEL_TEXTS:
            ids = encode(list(texts))
        else:
            ids = [encode(text) for text in texts]
        if not self.has_bytes:
            ids = [
                self._encode_unknown(text) if UNKNOWN in text_ids else text_ids
                for text, text_ids in zip(texts, ids, strict=True)
            ]
        elif SPACE in all_text and not self._normalizes:
            ids = [
                self._encode_with_visible_spaces(text) if SPACE in text else text_ids
                for text, text_ids in zip(texts, ids, strict=True)
            ]
        if not self._prefix_ids:
            return ids
        return [[*self._prefix_ids, *text_ids] if text_ids else [] for text_ids in ids]

    def merge_ranks(self) -> dict[str, int]:
        """Return the pieces made by BPE merges with their ranks; the lowest rank merges first."""
        return {
            str(self._processor.id_to_piece(i)): round(-self._processor.get_score(i))
            for i in self._ordinary_ids()
        }

    def encode_piece(self, piece: str) -> list[int]:
        """Return the id of a SentencePiece piece, or else the ids of its bytes, or [UNK]."""
        i = int(self._processor.piece_to_id(piece))
        return self._byte_ids(piece) if i == UNKNOWN and self.has_bytes else [i]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; special tokens are omitted."""
        return str(self._processor.decode([i for i in ids if i >= len(SPECIAL_TOKENS)]))

    def token(self, i: int) -> str:
        """Return a token for display: `Ti`, `[EOS]`, or `##t` if it continues a word."""
        piece = str(self._processor.id_to_piece(i)).replace("\n", "\\n")
        is_text = not (self._processor.is_control(i) or self._processor.is_byte(i))
        if i < len(SPECIAL_TOKENS) or piece == SPACE or not is_text:
            return piece
        return piece.removeprefix(SPACE) if piece.startswith(SPACE) else f"##{piece}"

    @cached_property
    def characters(self) -> frozenset[str]:
        """The characters that have tokens; all others are encoded as bytes, or become [UNK]."""
        return frozenset("".join(self.surface(i) for i in self._ordinary_ids()))

    def unknown_characters(self, text: str) -> set[str]:
        """Return the characters of a text that have no tokens, not even after normalization."""
        unknown = set(text) - self.characters
        if self._normalizes or not self.has_bytes:
            unknown = {character for character in unknown if self._is_unknown(character)}
        return unknown

    def _is_unknown(self, character: str) -> bool:
        ids = self._processor.encode(character)
        return any(i == UNKNOWN or self._processor.is_byte(i) for i in ids)

    @cached_property
    def _normalizes(self) -> bool:
        """Whether the SentencePiece model changes characters before it encodes a text."""
        return any(self._processor.normalize(c).removeprefix(SPACE) != c for c in NORMALIZED)

    def surface(self, i: int) -> str:
        """Return what a token adds to a text: `" Ti"`, `"t"`.

        It is "" for special tokens, and U+FFFD for a byte of a longer character.
        """
        if i < len(SPECIAL_TOKENS) or self._processor.is_control(i):
            return ""
        piece = str(self._processor.id_to_piece(i))
        if self._processor.is_byte(i):
            byte = int(piece[1:-1], 16)  # <0x41>
            return chr(byte) if byte < 128 else "\ufffd"
        return piece.replace(SPACE, " ")

    def spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Return where each token begins and ends in `decode(ids)`.

        All tokens that spell one character byte by byte have the span of that character.
        """
        spans: list[tuple[int, int]] = []
        length = 0  # of the text so far
        for is_byte, group in groupby(ids, self._is_byte):
            run = list(group)
            if is_byte:
                end = length + len(self.decode(run))
                spans += [(length, end)] * len(run)
                length = end
                continue
            for i in run:
                surface = self.surface(i)
                if not spans and surface.startswith(" ") and not self._keeps_first_space:
                    surface = surface[1:]
                spans.append((length, length + len(surface)))
                length += len(surface)
        return spans

    @cached_property
    def _keeps_first_space(self) -> bool:
        """Whether a text that begins with a space token is decoded with that space."""
        space = int(self._processor.piece_to_id(SPACE))
        return self.decode([space, space]) == "  "

    def _is_byte(self, i: int) -> bool:
        return bool(self._processor.is_byte(i))

    def tokens(self, text: str) -> list[str]:
        """Return the tokens of a text for display."""
        return [self.token(i) for i in self.encode(text)]

    def _ordinary_ids(self) -> Iterator[int]:
        """Yield the ids of pieces of text: no special tokens, bytes or pieces out of use."""
        processor = self._processor
        for i in range(len(SPECIAL_TOKENS), len(self)):
            if not (processor.is_byte(i) or processor.is_control(i) or processor.is_unused(i)):
                yield i

    def _encode_unknown(self, text: str) -> list[int]:
        """Encode a text with characters that the segmentation does not know.

        A run of them that is a piece out of use is that piece: a piece of the other language of a
        shared vocabulary. This is how Marian's tokenizer reads it.
        """
        ids: list[int] = self._processor.piece_to_id(self._processor.encode(text, out_type=str))
        return [UNKNOWN if self._processor.is_control(i) else i for i in ids]

    def _encode_with_visible_spaces(self, text: str) -> list[int]:
        """Encode a text that contains U+2581, see STAND_INS."""
        used = set(text)
        unused = (c for c in map(chr, chain(*STAND_INS)) if c not in used)
        stand_in = next((c for c in unused if self._processor.piece_to_id(c) == UNKNOWN), None)
        if stand_in is None:
            raise DataError(
                "a text contains U+2581 and all characters of the private use area; remove some"
            )
        ids = list(self._processor.encode(text.replace(SPACE, stand_in)))
        stand_in_ids, space_ids = self._byte_ids(stand_in), self._byte_ids(SPACE)
        restored: list[int] = []
        i = 0
        while i < len(ids):
            if ids[i : i + len(stand_in_ids)] == stand_in_ids:
                restored += space_ids
                i += len(stand_in_ids)
            else:
                restored.append(ids[i])
                i += 1
        return restored

    def _byte_ids(self, text: str) -> list[int]:
        return [int(self._processor.piece_to_id(f"<0x{byte:02X}>")) for byte in text.encode()]


def check_characters(texts: Sequence[str], all_text: str) -> None:
    """Raise DataError if a text has a lone surrogate, which UTF-8 cannot encode.

    `all_text` is the texts joined: one check is faster than many.
    """
    try:
        all_text.encode()
    except UnicodeEncodeError:
        culprit = next(text for text in texts if LONE_SURROGATE.search(text))
        raise DataError(
            "a text has a lone surrogate, which is not a character; "
            f"remove it: {culprit[:MAX_QUOTED]!r}"
        ) from None


def learn_vocabulary(
    lines: Sequence[str], kind: Kind, size: int, *, exact: bool = True, is_text: bool = False
) -> Vocabulary:
    """Learn a vocabulary of `size` tokens from lines.

    `char` takes the most frequent characters; `byte` has a token for each byte and one for the
    space, whatever the size. With `is_text`, the lines are those of a running text: the line feed
    is a token, and no space is put before a line. SentencePiece's normalization is off, so decoding
    returns the text unchanged.

    If the lines cannot give exactly `size` tokens, raise ConfigError, or with `exact=False` learn
    the nearest possible size.
    """
    if kind == "byte":
        # Besides the bytes one token is learned: the most frequent character, the space.
        lines = ["a" + 9 * " "]
        size = len(SPECIAL_TOKENS) + 256 + 1
        if is_text:
            size += 1  # the line feed
    n_characters = len(set[str]().union(*lines))
    has_few_characters = n_characters <= FEW_CHARACTERS * size
    special: dict[str, Any] = {}
    for i, name in enumerate(("pad", "bos", "eos", "unk")):
        special[f"{name}_id"] = i
        special[f"{name}_piece"] = SPECIAL_TOKENS[i]

    writer = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_limit_lengths(lines, is_text),
            model_writer=writer,
            model_type="char" if kind == "byte" else kind,
            vocab_size=size,
            add_dummy_prefix=not is_text,
            user_defined_symbols=["\n"] if is_text else [],
            hard_vocab_limit=exact,
            byte_fallback=True,
            character_coverage=1.0 if has_few_characters else CHARACTER_COVERAGE,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            max_sentence_length=1 << 20,
            minloglevel=2,
            **special,
        )
    except (RuntimeError, OSError) as error:
        message = str(error)
        too_small = re.search(r"smaller than required_chars.*?(\d+) vs (\d+)", message)
        if too_small and not exact:
            possible_size = int(too_small[2]) + size
            return learn_vocabulary(lines, kind, possible_size, exact=False, is_text=is_text)
        if too_small:
            raise ConfigError(
                f"text.vocab_size is {size}, but the bytes and characters of this corpus alone "
                f"need {too_small[2]}; increase it or remove the setting"
            ) from None
        too_large = re.search(r"too high.*<= (\d+)", message)
        if too_large:
            raise ConfigError(
                f"text.vocab_size is {size}, but this corpus gives at most {too_large[1]} tokens; "
                f"set it to {too_large[1]} or less, or remove the setting"
            ) from None
        raise DataError(
            f"SentencePiece cannot learn {size} tokens from {len(lines)} lines: {message}; "
            "give more lines, or set text.vocab_size"
        ) from None
    return Vocabulary(writer.getvalue())


def _limit_lengths(lines: Iterable[str], is_text: bool) -> Iterator[str]:
    """Yield lines that SentencePiece can learn from: long sentences cut, long text lines split."""
    for line in lines:
        yield line[:MAX_LEARN_LENGTH]
        if is_text:
            for start in range(MAX_LEARN_LENGTH, len(line), MAX_LEARN_LENGTH):
                yield line[start : start + MAX_LEARN_LENGTH]


def choose_vocabulary_size(n_lines: int) -> int:
    """Return a vocabulary size for a corpus of `n_lines` lines, both languages counted.

    Small corpora need small vocabularies, so that every token is seen often (Sennrich & Zhang 2019,
    Araabi & Monz 2020).
    """
    return (2_000, 8_000, 16_000, 32_000)[bisect((20_000, 200_000, 2_000_000), n_lines)]
