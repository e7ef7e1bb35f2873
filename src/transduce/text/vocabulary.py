"""Strings <-> ids: SentencePiece pieces and four special ones that text cannot forge (section 5.1).

    "Ti amo molto"  --encode-->  [412, 87, 103]  --decode-->  "Ti amo molto"

Every string survives the round trip: a character the vocabulary has no piece for is written as its UTF-8 bytes.
"""

import io
import re
from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, Literal

import sentencepiece

from transduce.errors import ConfigError, DataError, ModelError
from transduce.text.normalize import LONE_SURROGATE

Kind = Literal["bpe", "unigram", "char", "byte"]
PAD, SOS, EOS, UNKNOWN = 0, 1, 2, 3
SPECIAL_TOKENS = ("[PAD]", "[SOS]", "[EOS]", "[UNK]")
FEW = 8  # texts that are encoded one by one
SPACE = "▁"  # U+2581, how SentencePiece writes a space inside a piece
LONGEST_LEARNT = (
    1 << 12
)  # characters; SentencePiece ends the program at a word of 65,536, and is slow long before
CHARACTER_COVERAGE = 0.9999  # of a text with many characters; rarer ones are written as bytes
FEW_CHARACTERS = 0.05  # of the pieces: with so few all have one

# SentencePiece reads U+2581 in a text as a space. To keep the character, it is sent in under the name of a character that Unicode
# promises will never be text, which comes back as that character's bytes, which are then exchanged for U+2581's own. A text that
# has all of those takes one that Unicode leaves to private use.
STAND_INS = (range(0xFDD0, 0xFDF0), range(0x100000, 0x10FFFE))


class Vocabulary:
    """The pieces of a language, or of two: immutable, made by `learn_vocabulary`, or from the bytes of a SentencePiece model."""

    def __init__(self, model: bytes, n_threads: int = -1) -> None:
        try:
            self._processor = sentencepiece.SentencePieceProcessor(
                model_proto=model, num_threads=n_threads
            )
        except (RuntimeError, ValueError) as error:
            raise ModelError(f"not a SentencePiece model: {error}") from None
        self.model = model
        found = tuple(self._processor.id_to_piece(i) for i in range(min(4, len(self))))
        if found != SPECIAL_TOKENS:
            raise ModelError(
                f"a SentencePiece model whose first pieces are {list(found)}, wanted {list(SPECIAL_TOKENS)}: "
                "it was not made by transduce"
            )

    def __len__(self) -> int:
        return int(self._processor.vocab_size())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.model == other.model

    def __hash__(self) -> int:
        return hash(self.model)

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without [SOS] and [EOS]."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of several texts at once, on all cores; a few are quicker one by one, threads take time to start."""
        together = "\n".join(texts)
        check_characters(texts, together)
        encode = self._processor.encode
        ids: list[list[int]] = (
            encode(list(texts)) if len(texts) > FEW else [encode(text) for text in texts]
        )
        if SPACE not in together:
            return ids
        return [
            self._encode_with_visible_spaces(text) if SPACE in text else found
            for text, found in zip(texts, ids, strict=True)
        ]

    def merge_ranks(self) -> dict[str, int]:
        """The pieces that BPE merges lead to, each with its rank: the merge of the lowest rank comes first."""
        normal = (
            i for i in range(len(SPECIAL_TOKENS), len(self)) if not self._processor.is_byte(i)
        )
        return {
            str(self._processor.id_to_piece(i)): round(-self._processor.get_score(i))
            for i in normal
        }

    def encode_piece(self, piece: str) -> list[int]:
        """The id of a piece, or those of its bytes if there is no such piece."""
        i = int(self._processor.piece_to_id(piece))
        return self._byte_ids(piece) if i == UNKNOWN else [i]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; special pieces are silent."""
        return str(self._processor.decode([i for i in ids if i >= len(SPECIAL_TOKENS)]))

    def token(self, i: int) -> str:
        """A piece as people read it: `Ti`, `[EOS]`, and `##t` for one that continues a word."""
        piece = str(self._processor.id_to_piece(i)).replace("\n", "\\n")
        if i < len(SPECIAL_TOKENS) or piece == SPACE or self._processor.is_byte(i):
            return piece
        return piece.removeprefix(SPACE) if piece.startswith(SPACE) else f"##{piece}"

    @cached_property
    def characters(self) -> frozenset[str]:
        """The characters that pieces are made of: all others are written as bytes."""
        normal = (
            i for i in range(len(SPECIAL_TOKENS), len(self)) if not self._processor.is_byte(i)
        )
        return frozenset("".join(self.surface(i) for i in normal))

    def surface(self, i: int) -> str:
        """What a piece adds to a text: `" Ti"`, `"t"`; nothing if it is special, U+FFFD if it is a byte of a longer character."""
        if i < len(SPECIAL_TOKENS):
            return ""
        piece = str(self._processor.id_to_piece(i))
        if self._processor.is_byte(i):
            byte = int(piece[1:-1], 16)
            return chr(byte) if byte < 128 else "\ufffd"
        return piece.replace(SPACE, " ")

    def tokens(self, text: str) -> list[str]:
        """The pieces of a text, for looking at."""
        return [self.token(i) for i in self.encode(text)]

    def _encode_with_visible_spaces(self, text: str) -> list[int]:
        """Encode a text that holds U+2581 itself."""
        used = set(text)
        free = (c for c in map(chr, chain(*STAND_INS)) if c not in used)
        stand_in = next((c for c in free if self._processor.piece_to_id(c) == UNKNOWN), None)
        if stand_in is None:
            raise DataError("a text with U+2581 and all characters of private use: remove some")
        ids = list(self._processor.encode(text.replace(SPACE, stand_in)))
        theirs, ours = self._byte_ids(stand_in), self._byte_ids(SPACE)
        found: list[int] = []
        i = 0
        while i < len(ids):
            is_stand_in = ids[i : i + len(theirs)] == theirs
            found += ours if is_stand_in else ids[i : i + 1]
            i += len(theirs) if is_stand_in else 1
        return found

    def _byte_ids(self, character: str) -> list[int]:
        return [int(self._processor.piece_to_id(f"<0x{byte:02X}>")) for byte in character.encode()]


def check_characters(texts: Sequence[str], together: str) -> None:
    """Refuse half of a surrogate pair, which is no character and has no bytes."""
    try:
        together.encode()
    except UnicodeEncodeError:
        culprit = next(text for text in texts if LONE_SURROGATE.search(text))
        raise DataError(
            f"a text holds half of a surrogate pair, which is no character: {culprit[:80]!r}"
        ) from None


def learn_vocabulary(
    lines: Sequence[str], kind: Kind, size: int, *, exact: bool = True, is_text: bool = False
) -> Vocabulary:
    """Learn a vocabulary of `size` pieces from lines.

    `char` takes the most frequent characters; `byte` has a piece for each byte and one for the space, whatever the size. With
    `is_text` the lines are those of one running text: a line feed is a piece, and no space is put before a line.
    SentencePiece's own normalisation is off: what goes in comes out. If the text is too poor or too rich for so many pieces, that
    is an error, or with `exact=False` the nearest possible vocabulary is made.
    """
    if kind == "byte":
        lines, size = (
            ["a" + 9 * " "],
            len(SPECIAL_TOKENS) + 256 + is_text + 1,
        )  # room for one character: the space
    few = len(set[str]().union(*lines)) <= FEW_CHARACTERS * size
    special: dict[str, Any] = {}
    for i, name in enumerate(("pad", "bos", "eos", "unk")):
        special |= {f"{name}_id": i, f"{name}_piece": SPECIAL_TOKENS[i]}
    writer = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_bounded(lines, is_text),
            model_writer=writer,
            model_type="char" if kind == "byte" else kind,
            vocab_size=size,
            add_dummy_prefix=not is_text,
            user_defined_symbols=["\n"] if is_text else [],
            hard_vocab_limit=exact,
            byte_fallback=True,
            character_coverage=1.0 if few else CHARACTER_COVERAGE,
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
            return learn_vocabulary(
                lines, kind, int(too_small[2]) + size, exact=False, is_text=is_text
            )
        if too_small:
            raise ConfigError(
                f"text.vocab_size is {size}, but the bytes and characters of this corpus alone need {too_small[2]}: "
                "set it higher or leave it out"
            ) from None
        too_large = re.search(r"too high.*<= (\d+)", message)
        if too_large:
            raise ConfigError(
                f"text.vocab_size is {size}, but this corpus gives at most {too_large[1]} pieces: "
                f"set it to {too_large[1]} or less, or leave it out"
            ) from None
        raise DataError(
            f"SentencePiece cannot learn {size} pieces from {len(lines)} lines: {message}"
        ) from None
    return Vocabulary(writer.getvalue())


def _bounded(lines: Iterable[str], is_text: bool) -> Iterator[str]:
    """Lines as SentencePiece can learn from them: of a sentence without end its beginning, a line of running text in parts."""
    for line in lines:
        end = len(line) if is_text else LONGEST_LEARNT
        yield line[:LONGEST_LEARNT]
        yield from (
            line[i : i + LONGEST_LEARNT] for i in range(LONGEST_LEARNT, end, LONGEST_LEARNT)
        )


def choose_vocabulary_size(n_lines: int) -> int:
    """Pieces for a corpus of so many lines (both languages), when nobody says.

    Small corpora want small vocabularies, so that every piece is seen often (Sennrich & Zhang 2019, Araabi & Monz 2020).
    """
    return (2_000, 8_000, 16_000, 32_000)[bisect((20_000, 200_000, 2_000_000), n_lines)]
