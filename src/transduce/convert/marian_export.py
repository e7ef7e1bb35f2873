"""Write one of our models as a folder that MarianMTModel and MarianTokenizer load.

The ids stay ours. Marian knows no [SOS]: it becomes the token that starts a translation.
"""

import json
from collections.abc import Sequence
from typing import Any

from transduce.config import ModelConfig
from transduce.convert.marian_folder import (
    CONFIG,
    GENERATION,
    PREFIX_ENTRY,
    SAFETENSORS,
    SOURCE_SPM,
    TARGET_SPM,
    TARGET_VOCABULARY,
    TOKENIZER,
    VOCABULARY,
)
from transduce.convert.marian_weights import to_marian
from transduce.errors import ModelError
from transduce.model_folder import ModelFolder
from transduce.storage import to_json
from transduce.text.vocabulary import EOS, PAD, SOS, SPECIAL_TOKENS, UNKNOWN, Vocabulary

SPECIAL_NAMES = ("<pad>", "<s>", "</s>", "<unk>")  # Marian's, in the order of our ids
MAX_POSITIONS = 1024
DEFAULT_MAX_LENGTH = 512
MARIAN_EPSILON = 1e-5  # of LayerNorm; no setting of MarianConfig changes it


def unsupported_by_marian(folder: ModelFolder) -> str | None:
    """Return why a MarianMTModel cannot represent a model, or None if it can."""
    config = folder.config.model
    if config.kind != "encoder-decoder":
        return "it is a language model"
    if config.norm != "post":
        return "model.norm is 'pre', Marian normalizes after each sub-layer"
    if config.positions != "sinusoidal":
        return "model.positions is 'learned', Marian has sinusoids"
    for stack in (config.encoder, config.decoder):
        if not stack.key_size == stack.value_size == config.d_model / stack.n_heads:
            return "the size of its heads is not d_model / n_heads"
    return None


def export_marian(folder: ModelFolder) -> dict[str, bytes]:
    """Return the files of a Hugging Face folder; raise ModelError if Marian lacks a feature."""
    from safetensors.torch import save

    from transduce.model.weights import weights_of

    if reason := unsupported_by_marian(folder):
        raise ModelError(f"this model cannot be exported to Marian: {reason}")
    config = folder.config.model
    weights = to_marian(config, weights_of(folder.model))
    if not config.tied_output and config.target_vocab_size is None:
        for stack in ("encoder", "decoder"):  # transformers ties all or none of them
            weights[f"model.{stack}.embed_tokens.weight"] = weights["model.shared.weight"].clone()
    names = _special_names(folder)
    files = {
        CONFIG: to_json(marian_settings(config)),
        GENERATION: to_json(_generation(folder)),
        TOKENIZER: to_json(_tokenizer(folder, names)),
        SAFETENSORS: save(weights, {"format": "pt"}),
        SOURCE_SPM: folder.source_vocabulary.model,
        TARGET_SPM: folder.target_vocabulary.model,
        VOCABULARY: _vocab_json(folder.source_vocabulary, names),
    }
    if config.target_vocab_size is not None:
        files[TARGET_VOCABULARY] = _vocab_json(folder.target_vocabulary, names)
    return files


def marian_settings(config: ModelConfig) -> dict[str, Any]:
    """Return the settings of MarianConfig, the content of config.json."""
    is_shared = config.target_vocab_size is None
    sizes = {
        f"{name}_{key}": value
        for name, stack in (("encoder", config.encoder), ("decoder", config.decoder))
        for key, value in (
            ("layers", stack.n_layers),
            ("attention_heads", stack.n_heads),
            ("ffn_dim", stack.d_ff),
        )
    }
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": config.vocab_size,
        "decoder_vocab_size": config.target_vocab_size or config.vocab_size,
        "d_model": config.d_model,
        **sizes,
        "num_hidden_layers": config.encoder.n_layers,
        "activation_function": config.activation,
        "dropout": config.dropout,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "scale_embedding": config.embedding_scale,
        "share_encoder_decoder_embeddings": is_shared,
        "tie_word_embeddings": config.tied_output,
        "normalize_before": False,
        "normalize_embedding": False,
        "static_position_embeddings": True,
        "max_position_embeddings": MAX_POSITIONS,
        "pad_token_id": PAD,
        "bos_token_id": SOS,
        "eos_token_id": EOS,
        "forced_eos_token_id": EOS,
        "decoder_start_token_id": SOS,
        "dtype": "float32",
    }


def _generation(folder: ModelFolder) -> dict[str, Any]:
    decode = folder.config.decode
    most = decode.max_length
    return {
        "num_beams": decode.beam,
        "length_penalty": decode.alpha if decode.length_penalty == "power" else 1.0,
        "early_stopping": decode.beam > 1,
        "max_length": most + 2 if most else DEFAULT_MAX_LENGTH,
        "suppress_tokens": [PAD, SOS, UNKNOWN],  # a translation is made of text
        "bad_words_ids": [[PAD], [SOS]],
        "pad_token_id": PAD,
        "bos_token_id": SOS,
        "eos_token_id": EOS,
        "forced_eos_token_id": EOS,
        "decoder_start_token_id": SOS,
    }


def _tokenizer(folder: ModelFolder, names: Sequence[str]) -> dict[str, Any]:
    about: dict[str, Any] = {
        "tokenizer_class": "MarianTokenizer",
        "pad_token": names[PAD],
        "bos_token": names[SOS],  # only so that it is left out when an output is decoded
        "eos_token": names[EOS],
        "unk_token": names[UNKNOWN],
        "model_max_length": 512,
        "clean_up_tokenization_spaces": False,
        "separate_vocabs": folder.config.model.target_vocab_size is not None,
    }
    if languages := folder.config.text.languages:
        about |= {"source_lang": languages[0], "target_lang": languages[1]}
    if prefix := folder.config.text.source_prefix:
        about[PREFIX_ENTRY] = prefix[0]
    return about


def _special_names(folder: ModelFolder) -> tuple[str, ...]:
    """Return names of the special tokens that no other token has."""
    used = {
        piece
        for vocabulary in (folder.source_vocabulary, folder.target_vocabulary)
        for piece in vocabulary.pieces[len(SPECIAL_TOKENS) :]
    }
    return tuple(
        ours if theirs in used else theirs
        for ours, theirs in zip(SPECIAL_TOKENS, SPECIAL_NAMES, strict=True)
    )


def _vocab_json(vocabulary: Vocabulary, names: Sequence[str]) -> bytes:
    pieces = [*names, *vocabulary.pieces[len(names) :]]
    ids = {piece: i for i, piece in enumerate(pieces)}
    return (json.dumps(ids, ensure_ascii=False, indent=1) + "\n").encode()
