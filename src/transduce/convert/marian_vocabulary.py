"""The vocabularies of a Marian model as ours: ids in another order, SentencePiece models rewritten.

Marian's tokenizer segments a text with source.spm or target.spm and looks the pieces up in
vocab.json, which both sides share. In our SentencePiece models the index of a piece is its id:

    0 to 3      [PAD], [SOS], [EOS], [UNK]
    then        the other tokens of vocab.json, in the order of their ids
    then        pieces of the SentencePiece models that vocab.json lacks: Marian reads them as <unk>

A piece that only the other side segments into is UNUSED. Language tags (>>fra<<) are CONTROL
pieces, which no text contains.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from transduce.convert.sentencepiece_model import (
    Piece,
    PieceType,
    SentencePieceModel,
    parse_sentencepiece,
)
from transduce.errors import ModelError
from transduce.text.printable import list_words
from transduce.text.vocabulary import SPECIAL_TOKENS, Vocabulary

LANGUAGE_TAG = re.compile(r">>.+<<")
USED_TYPES = (PieceType.NORMAL, PieceType.USER_DEFINED, PieceType.BYTE)


class SpecialIds(NamedTuple):
    """Marian's ids of the special tokens, in the order of ours."""

    pad: int
    start: int  # nearly always the id of the padding token
    eos: int
    unknown: int


@dataclass(frozen=True)
class ImportedVocabulary:
    """The vocabulary of one side."""

    vocabulary: Vocabulary
    rows: tuple[int, ...]  # for each of our ids the row of Marian's embedding
    n_appended: int  # ids at the end, of pieces that Marian reads as <unk>


def parse_vocabulary(values: Mapping[str, Any], path: Path) -> list[str]:
    """Return the tokens of a vocab.json in the order of their ids.

    Raise ModelError unless the ids are 0, 1, 2, ..., each once.
    """
    n_tokens = len(values)
    tokens: list[str | None] = [None] * n_tokens
    for token, i in values.items():
        if type(i) is not int or not 0 <= i < n_tokens or tokens[i] is not None:
            raise ModelError(
                f"{path}: the id of {list_words([token])} is {str(i)[:40]}; "
                f"expected the ids 0 to {n_tokens - 1:,}, each once"
            )
        tokens[i] = token
    return [token for token in tokens if token is not None]


def parse_spm(content: bytes, path: Path) -> SentencePieceModel:
    """Parse a .spm file; raise ModelError if it is damaged or cannot be rewritten exactly."""
    try:
        model = parse_sentencepiece(content)
    except ModelError as error:
        raise ModelError(f"{path}: {error}; download it again") from None
    if model.kind not in ("unigram", "bpe", "char") or model.has_suffix_spaces:
        found = (
            "with spaces after words" if model.has_suffix_spaces else f"of the kind {model.kind}"
        )
        raise ModelError(
            f"{path} is a SentencePiece model {found}; supported: unigram, bpe and char "
            "with spaces before words"
        )
    return model


def language_tags(tokens: Iterable[str]) -> list[str]:
    """Return the languages that a multilingual model can write: `fra` for `>>fra<<`, sorted."""
    return sorted(token[2:-2] for token in tokens if LANGUAGE_TAG.fullmatch(token))


def import_vocabularies(
    tokens: Sequence[str], special: SpecialIds, models: Mapping[Path, SentencePieceModel]
) -> list[ImportedVocabulary]:
    """Return our vocabularies for the SentencePiece models that share a vocab.json.

    `models` are one or two, by the paths of their files.
    """
    named = set(special)
    ordinary = [i for i in range(len(tokens)) if i not in named]
    clashing = [tokens[i] for i in ordinary if tokens[i] in SPECIAL_TOKENS]
    if clashing:
        raise ModelError(
            f"vocab.json has the token {clashing[0]}, which is the name of a special token here; "
            "rename it"
        )
    known = {*tokens}
    appended = dict.fromkeys(
        piece.text
        for model in models.values()
        for piece in model.pieces
        if piece.type in USED_TYPES and piece.text not in known
    )
    texts = [*(tokens[i] for i in ordinary), *appended]
    rows = (*special, *ordinary, *(special.unknown for _ in appended))
    return [
        ImportedVocabulary(_rewrite(model, texts, path), rows, len(appended))
        for path, model in models.items()
    ]


def _rewrite(model: SentencePieceModel, texts: Sequence[str], path: Path) -> Vocabulary:
    """Return a vocabulary that segments as the model does, with these pieces after the special."""
    own = {piece.text: piece for piece in model.pieces if piece.type != PieceType.UNKNOWN}
    pieces = [
        Piece(text, 0.0, PieceType.UNKNOWN if text == "[UNK]" else PieceType.CONTROL)
        for text in SPECIAL_TOKENS
    ]
    for text in texts:
        if not text:
            raise ModelError(f"{path.parent / 'vocab.json'} has an empty token; download it again")
        if LANGUAGE_TAG.fullmatch(text):
            pieces.append(Piece(text, 0.0, PieceType.CONTROL))
        else:
            pieces.append(own.get(text, Piece(text, 0.0, PieceType.UNUSED)))
    if model.kind != "unigram":
        missing = [text for text in texts if text not in own and not LANGUAGE_TAG.fullmatch(text)]
        if missing:
            raise ModelError(
                f"{path} is a {model.kind} model without the tokens {list_words(missing)} of "
                "vocab.json; two different models can share a vocabulary only if they are unigram"
            )
    try:
        return Vocabulary(model.with_pieces(pieces).to_bytes())
    except ModelError as error:
        raise ModelError(f"{path}: {error}; download it again") from None
