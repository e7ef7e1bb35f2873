"""Read and write SentencePiece model files: the pieces, and the rest as it is.

A model file is a protocol buffer (sentencepiece_model.proto). Only the fields that a conversion
changes are parsed, without the protobuf package. A file from elsewhere is checked before
SentencePiece, which is C++, sees it.
"""

import math
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from transduce.errors import ModelError
from transduce.text.printable import list_words

MAX_PIECES = 1 << 20
MAX_PIECE_BYTES = 1 << 10
# Numbers of fields, from sentencepiece_model.proto
PIECES, TRAINER, NORMALIZER, SELF_TEST, DENORMALIZER = 1, 2, 3, 4, 5  # of the model
PIECE, SCORE, TYPE = 1, 2, 3  # of a piece
KIND, IS_SUFFIX = 3, 24  # model_type and treat_whitespace_as_suffix of the trainer's settings
SPECIAL_IDS = {40: 3, 41: 1, 42: 2, 43: 0}  # unk_id, bos_id, eos_id, pad_id and our values
SPECIAL_PIECES = {45: "[UNK]", 46: "[SOS]", 47: "[EOS]", 48: "[PAD]"}  # unk_piece, ...
CHARSMAP = 2  # of the normalizer's settings
KINDS = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types


class PieceType(IntEnum):
    """The types of pieces."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


class Piece(NamedTuple):
    """An entry of the vocabulary."""

    text: str
    score: float
    type: PieceType


class Field(NamedTuple):
    """A field of a message: its number, wire type and value."""

    number: int
    wire_type: int
    value: int | bytes


@dataclass(frozen=True)
class SentencePieceModel:
    """The content of a model file."""

    pieces: tuple[Piece, ...]
    trainer: tuple[Field, ...]  # settings of the training
    others: tuple[Field, ...]  # normalizer and denormalizer

    @property
    def kind(self) -> str:
        """The algorithm: unigram or bpe, word or char."""
        found = [field.value for field in self.trainer if field.number == KIND]
        number = found[-1] if found else 1
        return KINDS.get(number, "unknown") if isinstance(number, int) else "unknown"

    @property
    def has_suffix_spaces(self) -> bool:
        """Whether a space belongs to the piece before it."""
        return any(field.number == IS_SUFFIX and field.value == 1 for field in self.trainer)

    def with_pieces(self, pieces: Iterable[Piece]) -> "SentencePieceModel":
        """Return the model with other pieces, whose first four are our special tokens."""
        replaced = {*SPECIAL_IDS, *SPECIAL_PIECES}
        trainer = [field for field in self.trainer if field.number not in replaced]
        trainer += [Field(number, VARINT, value) for number, value in SPECIAL_IDS.items()]
        trainer += [Field(number, BYTES, text.encode()) for number, text in SPECIAL_PIECES.items()]
        return SentencePieceModel(tuple(pieces), tuple(trainer), self.others)

    def to_bytes(self) -> bytes:
        """Return the content of the model file, without its self-test."""
        fields = [Field(PIECES, BYTES, _pack_piece(piece)) for piece in self.pieces]
        fields.append(Field(TRAINER, BYTES, _pack(self.trainer)))
        return _pack([*fields, *self.others])


def parse_sentencepiece(content: bytes) -> SentencePieceModel:
    """Parse the content of a model file. Raise ModelError if it is damaged or crafted."""
    pieces: list[Piece] = []
    trainer: list[Field] = []
    others: list[Field] = []
    for field in _fields(content):
        if field.number not in (PIECES, TRAINER, NORMALIZER, SELF_TEST, DENORMALIZER):
            continue
        if not isinstance(field.value, bytes):
            raise _damaged(f"field {field.number} is a number, expected a message")
        if field.number == PIECES:
            pieces.append(_parse_piece(field.value))
            if len(pieces) > MAX_PIECES:
                raise _damaged(f"it has more than {MAX_PIECES:,} pieces")
        elif field.number == TRAINER:
            trainer += _fields(field.value)
        elif field.number != SELF_TEST:
            _check_normalizer(field.value)
            others.append(field)
    _check_pieces(pieces)
    return SentencePieceModel(tuple(pieces), tuple(trainer), tuple(others))


def _check_pieces(pieces: Sequence[Piece]) -> None:
    texts = [piece.text for piece in pieces]
    if len(set(texts)) < len(texts):
        repeated = Counter(texts).most_common(1)[0][0]
        raise _damaged(f"the piece {list_words([repeated])} occurs twice")
    n_unknown = sum(piece.type == PieceType.UNKNOWN for piece in pieces)
    if n_unknown != 1:
        raise _damaged(f"it has {n_unknown} pieces of the type UNKNOWN, expected one")


def _parse_piece(content: bytes) -> Piece:
    text, score, number = b"", 0.0, int(PieceType.NORMAL)
    for field in _fields(content):
        if field.number == PIECE and isinstance(field.value, bytes):
            text = field.value
        elif field.number == SCORE and field.wire_type == FIXED32:
            assert isinstance(field.value, bytes), "of four bytes"
            [score] = struct.unpack("<f", field.value)
        elif field.number == TYPE and isinstance(field.value, int):
            number = field.value
    if not 0 < len(text) <= MAX_PIECE_BYTES:
        raise _damaged(f"a piece has {len(text):,} bytes, expected 1 to {MAX_PIECE_BYTES:,}")
    if b"\0" in text:
        raise _damaged("a piece has a NUL character")
    if not math.isfinite(score):
        raise _damaged(f"a piece has the score {score}")
    try:
        return Piece(text.decode(), score, PieceType(number))
    except UnicodeDecodeError:
        raise _damaged("a piece is not UTF-8") from None
    except ValueError:
        raise _damaged(f"a piece has the unknown type {number}") from None


def _check_normalizer(content: bytes) -> None:
    """Check the table of a normalizer, which SentencePiece follows without looking.

    It is a double-array trie of 32-bit units and, after it, the texts that its leaves point to.
    """
    for field in _fields(content):
        if field.number != CHARSMAP or not isinstance(field.value, bytes) or not field.value:
            continue
        table = field.value
        n_bytes = int.from_bytes(table[:4], "little")
        if n_bytes % 4 or not 1024 <= n_bytes <= len(table) - 4 or not table.endswith(b"\0"):
            raise _damaged("the table of its normalizer is damaged")
        units = np.frombuffer(table, "<u4", n_bytes // 4, offset=4)
        texts = len(table) - 4 - n_bytes
        is_leaf = units >> 31 == 1
        offsets = (units >> 10) << ((units & 512) >> 6)
        last_child = (np.arange(len(units), dtype=np.uint32) ^ offsets) | 255
        values = units & 0x7FFFFFFF
        if (last_child[~is_leaf] >= len(units)).any() or (values[is_leaf] >= texts).any():
            raise _damaged("the table of its normalizer points outside of itself")


def _fields(content: bytes) -> Iterator[Field]:
    """Yield the fields of a message; raise ModelError if it is not one."""
    place = 0
    while place < len(content):
        tag, place = _read_varint(content, place)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == VARINT:
            integer, place = _read_varint(content, place)
            yield Field(number, wire_type, integer)
            continue
        if wire_type == BYTES:
            size, place = _read_varint(content, place)
        elif wire_type in (FIXED32, FIXED64):
            size = 4 if wire_type == FIXED32 else 8
        else:
            raise _damaged(f"a field has the unknown wire type {wire_type}")
        if size > len(content) - place:
            raise _damaged("it ends inside a field")
        yield Field(number, wire_type, content[place : place + size])
        place += size


def _read_varint(content: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(content):
            raise _damaged("it ends inside a number")
        byte = content[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
    raise _damaged("a number has more than ten bytes")


def _pack(fields: Iterable[Field]) -> bytes:
    parts = []
    for number, wire_type, value in fields:
        parts.append(_pack_varint(number << 3 | wire_type))
        if isinstance(value, int):
            parts.append(_pack_varint(value))
        else:
            parts += [_pack_varint(len(value)), value] if wire_type == BYTES else [value]
    return b"".join(parts)


def _pack_varint(value: int) -> bytes:
    packed = bytearray()
    while value > 127:
        packed.append(value & 127 | 128)
        value >>= 7
    packed.append(value)
    return bytes(packed)


def _pack_piece(piece: Piece) -> bytes:
    fields = [
        Field(PIECE, BYTES, piece.text.encode()),
        Field(SCORE, FIXED32, struct.pack("<f", piece.score)),
    ]
    if piece.type != PieceType.NORMAL:
        fields.append(Field(TYPE, VARINT, int(piece.type)))
    return _pack(fields)


def _damaged(problem: str) -> ModelError:
    return ModelError(f"not a SentencePiece model: {problem}")
