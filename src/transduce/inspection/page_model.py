"""A model packed for the page: float16 weights, with settings and vocabularies as metadata."""

import json
from typing import Any

import sentencepiece
import torch
from safetensors.torch import save

from transduce.errors import UsageError
from transduce.inspection.describe import stack_sizes
from transduce.model.weights import weights_of
from transduce.model_folder import ModelFolder
from transduce.text.vocabulary import Vocabulary

FORMAT = 1
MAX_PARAMETERS = 8_000_000  # a page of about 21 MB


def pack_model(folder: ModelFolder) -> bytes:
    """Return a safetensors file with the weights in float16, named as in model.safetensors.

    The metadata entry `transduce.model` is JSON with the settings and the vocabularies. The pieces
    of a SentencePiece vocabulary are `[piece, score]` or `[piece, score, "byte"]`, in the order of
    their ids. Raises UsageError for a model of more than `MAX_PARAMETERS`.
    """
    weights = weights_of(folder.model)
    if not folder.source_vocabulary.has_bytes:
        raise UsageError(
            "this model has an imported vocabulary without byte pieces, which a page cannot read; "
            "remove --with-model, or use transduce serve"
        )
    n_parameters = sum(weight.numel() for weight in weights.values())
    if n_parameters > MAX_PARAMETERS:
        raise UsageError(
            f"this model has {n_parameters / 1e6:.1f} million parameters, a page holds at most "
            f"{MAX_PARAMETERS / 1e6:.0f} million; remove --with-model, or use transduce serve"
        )
    config, kind = folder.config, folder.config.text.kind
    about: dict[str, Any] = {
        "format": FORMAT,
        "model": config.model.model_dump()
        | stack_sizes(config.model.encoder)
        | {"decoder": stack_sizes(config.model.decoder)},
        "decode": config.decode.model_dump(),
        "normalization": config.text.normalization,
        "fingerprint": folder.fingerprint,
        "source": _pieces(folder.source_vocabulary, kind),
        "words": None if folder.words is None else sorted(folder.words),
    }
    if folder.target_vocabulary != folder.source_vocabulary:
        about["target"] = _pieces(folder.target_vocabulary, kind)
    return save(
        {name: weight.to("cpu", torch.float16).contiguous() for name, weight in weights.items()},
        {"transduce.model": json.dumps(about, ensure_ascii=False, separators=(",", ":"))},
    )


def _pieces(vocabulary: Vocabulary, kind: str) -> dict[str, Any]:
    """Return a vocabulary as a JSON value."""
    reader = sentencepiece.SentencePieceProcessor(model_proto=vocabulary.model)
    listed = []
    for i in range(len(vocabulary)):
        score = float(f"{reader.get_score(i):.9g}")  # nine digits identify a float32
        entry: list[Any] = [reader.id_to_piece(i), score]
        listed.append([*entry, "byte"] if reader.is_byte(i) else entry)
    first = reader.encode("a", out_type=str)[0]
    return {
        "kind": kind,
        "dummy_prefix": first.startswith("▁") or first == "<0xE2>",
        "pieces": listed,
    }
