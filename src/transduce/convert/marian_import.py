"""Turn a Marian model of Hugging Face into one of ours: settings, vocabularies and weights."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from transduce.config import DecodeConfig, ModelConfig, TextConfig
from transduce.convert.marian_folder import (
    CONFIG,
    PREFIX_ENTRY,
    SOURCE_SPM,
    TARGET_SPM,
    MarianFolder,
)
from transduce.convert.marian_vocabulary import (
    ImportedVocabulary,
    SpecialIds,
    import_vocabularies,
    parse_spm,
)
from transduce.convert.marian_weights import (
    LOGIT_BIAS,
    WeightName,
    embedding_names,
    layer_names,
    select_rows,
    to_our_order,
)
from transduce.errors import ModelError, UsageError
from transduce.model_folder import FolderConfig, ModelFolder
from transduce.text.printable import list_words
from transduce.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    import torch

# The bias on the logit of a token that Marian does not have. It is never the best, and its share of
# the probability is below the precision of float32. -inf would make the loss in training infinite.
NEVER = -100.0
LANGUAGE_CODES = {  # ISO 639-3, which OPUS-MT uses too, to the usual two letters
    "ara": "ar", "bul": "bg", "cat": "ca", "ces": "cs", "cmn": "zh", "dan": "da", "deu": "de",
    "ell": "el", "eng": "en", "epo": "eo", "est": "et", "eus": "eu", "fin": "fi", "fra": "fr",
    "gle": "ga", "glg": "gl", "heb": "he", "hin": "hi", "hrv": "hr", "hun": "hu", "ind": "id",
    "isl": "is", "ita": "it", "jpn": "ja", "kor": "ko", "lav": "lv", "lit": "lt", "mkd": "mk",
    "nld": "nl", "nob": "nb", "nor": "no", "pol": "pl", "por": "pt", "ron": "ro", "rus": "ru",
    "slk": "sk", "slv": "sl", "spa": "es", "sqi": "sq", "srp": "sr", "swe": "sv", "tur": "tr",
    "ukr": "uk", "vie": "vi", "zho": "zh",
}  # fmt: skip
POSITION_TABLES = tuple(f"model.{stack}.embed_positions.weight" for stack in ("encoder", "decoder"))
POSITION_TOLERANCE = 1e-3


def choose_prefix(source: MarianFolder, to: str | None) -> str | None:
    """Return the token before each source that selects the language to write, or None.

    Raise UsageError if a multilingual model needs `--to`, or does not have that language.
    """
    tags = source.tags
    if to is None:
        stored = source.tokenizer.get(PREFIX_ENTRY)
        if isinstance(stored, str) and stored[2:-2] in tags:
            return stored
        if len(tags) > 1:
            raise UsageError(
                f"{source.path} translates into several languages; "
                f"choose one with --to: {', '.join(tags)}"
            )
        return f">>{tags[0]}<<" if tags else None
    if to not in tags:
        known = f"it has {', '.join(tags)}" if tags else "it has only one language; remove --to"
        raise UsageError(f"--to {to}: {source.path} has no such language; {known}")
    return f">>{to}<<"


@dataclass(frozen=True)
class ImportedModel:
    """A model, and for each side the ids of Marian's tokens by ours."""

    folder: ModelFolder
    rows: tuple[tuple[int, ...], tuple[int, ...]]


def import_marian(
    source: MarianFolder, to: str | None = None, languages: tuple[str, str] | None = None
) -> ImportedModel:
    """Return a Marian model as one of ours.

    `to` selects the language that a multilingual model writes. `languages` None means those that
    the folder names.
    """
    import torch

    from transduce.model.weights import build, load_weights

    prefix = choose_prefix(source, to)
    sides = _import_sides(source)
    config = _folder_config(source, sides, prefix, languages or _languages(source, prefix))
    weights = _import_weights(source, config.model, sides)
    with torch.device("meta"):
        model = build(config.model)
    load_weights(model, weights, source.path / source.weights_name)
    source_model = sides[0].vocabulary.model
    folder = ModelFolder(
        config=config,
        weights=model.eval(),
        source_vocabulary=Vocabulary(source_model, prefix=config.text.source_prefix or ()),
        target_vocabulary=sides[1].vocabulary,
        card=_card(source, config),
    )
    return ImportedModel(folder, (sides[0].rows, sides[1].rows))


def _import_sides(source: MarianFolder) -> tuple[ImportedVocabulary, ImportedVocabulary]:
    """Return the vocabularies of source and target."""
    models = {
        source.path / SOURCE_SPM: parse_spm(source.source_spm, source.path / SOURCE_SPM),
        source.path / TARGET_SPM: parse_spm(source.target_spm, source.path / TARGET_SPM),
    }
    if not source.has_separate_vocabularies:
        both = import_vocabularies(source.source_tokens, source.target_special, models)
        return both[0], both[1]
    if source.has_shared_embeddings:
        raise ModelError(
            f"{source.path}: separate_vocabs is true in tokenizer_config.json, but {CONFIG} says "
            "share_encoder_decoder_embeddings: true"
        )
    (own, of_own), (other, of_other) = models.items()
    [first] = import_vocabularies(source.source_tokens, source.source_special, {own: of_own})
    [second] = import_vocabularies(source.target_tokens, source.target_special, {other: of_other})
    return first, second


def _languages(source: MarianFolder, prefix: str | None) -> tuple[str, str] | None:
    named = source.languages()
    if named is None:
        return None
    written = prefix[2:-2].partition("_")[0] if prefix else named[1]
    first, second = (LANGUAGE_CODES.get(name.lower(), name) for name in (named[0], written))
    return first, second


def _folder_config(
    source: MarianFolder,
    sides: Sequence[ImportedVocabulary],
    prefix: str | None,
    languages: tuple[str, str] | None,
) -> FolderConfig:
    n_source, n_target = (len(side.vocabulary) for side in sides)
    for name, side in (("vocab_size", sides[0]), ("decoder_vocab_size", sides[1])):
        n_tokens = len(set(side.rows))
        if (name == "vocab_size" or name in source.config) and source.config.get(name) != n_tokens:
            raise ModelError(
                f"{source.path / CONFIG}: {name} is {str(source.config.get(name))[:40]}, but the "
                f"vocabulary has {n_tokens:,} tokens; the files belong to different models"
            )
    is_joint = source.has_shared_embeddings
    generation = source.generation
    try:
        sizes = {
            "n_layers": source.integer("encoder_layers", 1),
            "n_layers_decoder": source.integer("decoder_layers", 1),
            "d_ff": source.integer("encoder_ffn_dim", 1),
            "d_ff_decoder": source.integer("decoder_ffn_dim", 1),
            "n_heads": source.integer("encoder_attention_heads", 1),
            "n_heads_decoder": source.integer("decoder_attention_heads", 1),
        }
        for name in ("n_layers", "d_ff", "n_heads"):
            if sizes[f"{name}_decoder"] == sizes[name]:
                del sizes[f"{name}_decoder"]
        model = ModelConfig(
            vocab_size=n_source,
            target_vocab_size=None if is_joint else n_target,
            d_model=source.integer("d_model", 2),
            dropout=source.config.get("dropout", 0.1),
            activation=source.activation,
            attention_bias=True,
            norm_epsilon=1e-5,
            embedding_scale=source.flag("scale_embedding", default=False),
            tied_output=source.flag("tie_word_embeddings", default=True),
            logit_bias=True,
            **sizes,
        )
        text = TextConfig(
            kind=parse_spm(source.source_spm, source.path / SOURCE_SPM).kind,
            vocab_size=n_source if is_joint and 261 <= n_source <= 256_000 else None,
            joint=is_joint,
            normalization="none",
            languages=languages,
            source_prefix=(prefix,) if prefix else None,
        )
        most = generation.get("max_length")
        decode = DecodeConfig(
            beam=generation.get("num_beams") or 1,
            alpha=_first(generation.get("length_penalty"), 1.0),
            # Marian counts the start and the end token.
            max_length=most - 2 if isinstance(most, int) and most > 2 else None,
        )
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"]))
        raise ModelError(
            f"{source.path / CONFIG}: {where + ': ' if where else ''}"
            f"{problem['msg'].removeprefix('Value error, ')}"
        ) from None
    return FolderConfig(text=text, model=model, decode=decode)


def _first(value: Any, default: Any) -> Any:
    return default if value is None else value


def _import_weights(
    source: MarianFolder, config: ModelConfig, sides: Sequence[ImportedVocabulary]
) -> "dict[str, torch.Tensor]":
    """Return the weights by our names; raise ModelError unless all are there, and no others."""
    from transduce.model.weights import weight_shapes

    path = source.path / source.weights_name
    theirs = source.weights
    rows = {"source_embedding.weight": sides[0].rows, "target_embedding.weight": sides[1].rows}
    rows["output.weight"] = sides[1].rows
    n_rows = {name: len(set(each)) for name, each in rows.items()}
    shapes = weight_shapes(config)
    weights: dict[str, torch.Tensor] = {}
    used = set()
    for name in (*embedding_names(config), *layer_names(config)):
        shape = tuple(shapes[name.ours])
        if name.ours in n_rows:
            shape = (n_rows[name.ours], *shape[1:])
        weight = _find(theirs, name, shape, path)
        used.add(name.theirs)
        weight = to_our_order(weight.float(), name.d_model_axis)
        if name.ours in rows:
            weight = select_rows(weight, rows[name.ours])
        weights[name.ours] = weight
    _check_others(theirs, used, config, path)
    weights["output.bias"] = _import_bias(theirs.get(LOGIT_BIAS), sides[1], path)
    return weights


def _find(
    weights: "Mapping[str, torch.Tensor]", name: WeightName, shape: tuple[int, ...], path: Path
) -> "torch.Tensor":
    if name.theirs not in weights:
        raise ModelError(f"{path} has no {name.theirs}; the weights do not match {CONFIG}")
    found = tuple(weights[name.theirs].shape)
    if found != shape:
        raise ModelError(
            f"{path}: {name.theirs} has shape {found}, expected {shape} by {CONFIG} and the "
            "vocabulary; the files belong to different models"
        )
    return weights[name.theirs]


def _check_others(
    weights: "Mapping[str, torch.Tensor]", used: set[str], config: ModelConfig, path: Path
) -> None:
    """Check the weights that are not imported: they repeat others, or can be computed."""
    import torch

    from transduce.model.positions import sinusoids

    copies = dict.fromkeys(
        (f"model.{stack}.embed_tokens.weight" for stack in ("encoder", "decoder")),
        "model.shared.weight",
    )
    if config.target_vocab_size is not None:
        copies.clear()
    if config.tied_output:
        is_joint = config.target_vocab_size is None
        copies["lm_head.weight"] = (
            "model.shared.weight" if is_joint else "model.decoder.embed_tokens.weight"
        )
    for name, weight in weights.items():
        if name in used or name == LOGIT_BIAS:
            continue
        if name in copies:
            if not torch.equal(weight, weights[copies[name]]):
                raise ModelError(
                    f"{path}: {name} differs from {copies[name]}, but {CONFIG} says that they "
                    "are one matrix"
                )
        elif name in POSITION_TABLES:
            n_positions, width = weight.shape if weight.dim() == 2 else (0, 0)
            table = sinusoids(0, n_positions, config.d_model, torch.device("cpu"))
            if width != config.d_model or not torch.allclose(
                to_our_order(weight.float(), "last"), table, atol=POSITION_TOLERANCE
            ):
                raise ModelError(f"{path}: {name} is not the table of sines and cosines")
        else:
            raise ModelError(
                f"{path} has {list_words([name])}, which is not part of a Marian model"
            )


def _import_bias(
    bias: "torch.Tensor | None", side: ImportedVocabulary, path: Path
) -> "torch.Tensor":
    """Return the bias on the logits; tokens that Marian does not have are never written."""
    import torch

    n_tokens = len(set(side.rows))
    if bias is None:
        bias = torch.zeros(1, n_tokens)
    if tuple(bias.shape) != (1, n_tokens):
        raise ModelError(
            f"{path}: {LOGIT_BIAS} has shape {tuple(bias.shape)}, expected {(1, n_tokens)}"
        )
    imported = select_rows(bias[0].float(), side.rows)
    special = SpecialIds(*side.rows[: len(SpecialIds._fields)])
    if special.start == special.pad:
        imported[0] = NEVER  # [PAD]: its logit is that of [SOS]
    elif special.start in (special.eos, special.unknown):
        imported[1] = NEVER
    imported[len(side.rows) - side.n_appended :] = NEVER
    return imported


def _card(source: MarianFolder, config: FolderConfig) -> dict[str, Any]:
    """Return the card: where the model comes from, and under which licence."""
    return {
        "origin": f"Hugging Face Marian model {source.folder.name}",
        "imported_from": source.weights_name,
        "license": source.license(),
        "languages": config.text.languages,
    }
