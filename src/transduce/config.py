"""All settings: types, defaults, descriptions and validation; reading and writing them as TOML.

Settings come in layers, and each layer overrides the one before it: the defaults in this module,
a preset, values chosen for the corpus, `--config run.toml`, `--set section.key=value`, and other
options. `resolve` merges the layers and validates the result.
"""

import difflib
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticKnownError

from transduce.errors import ConfigError, MissingInputError

Layer = Mapping[str, Mapping[str, Any]]

MAX_TOML_BYTES = 1 << 24  # a file of all settings has kilobytes
MAX_QUOTED = 80  # characters of a value that a message quotes

# Each number has a lower and an upper bound. The upper one lies far above any real model or
# training, and low enough that a slip of the keyboard is an error before it fills the memory.
Steps = Annotated[int, Field(ge=1, le=1_000_000_000)]
Length = Annotated[int, Field(ge=1, le=1_048_576)]  # tokens of one text
VocabularySize = Annotated[int, Field(ge=1, le=1_048_576)]
Width = Annotated[int, Field(ge=1, le=65_536)]  # of a vector
HiddenWidth = Annotated[int, Field(ge=1, le=1_048_576)]  # of a feed-forward network
Layers = Annotated[int, Field(ge=1, le=1000)]
Heads = Annotated[int, Field(ge=1, le=1024)]
Activation = Literal["relu", "gelu", "swish"]
Probability = Annotated[float, Field(ge=0, lt=1)]


def _check_unicode(text: str) -> str:
    """Raise an error for half a surrogate pair, which no file of a run can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise PydanticKnownError("string_unicode") from None
    return text


Name = Annotated[str, AfterValidator(_check_unicode)]


class Section(BaseModel):
    """A group of settings: immutable; unknown names are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False, allow_inf_nan=False)


class TextConfig(Section):
    """Vocabulary and normalization of the text."""

    kind: Literal["bpe", "unigram", "char", "byte"] = Field(
        "bpe", description="kind of tokens (SentencePiece model type)"
    )
    vocab_size: int | None = Field(
        None, ge=261, le=256_000, description="number of tokens; default: chosen for the corpus"
    )
    joint: bool = Field(True, description="one vocabulary shared by both languages (section 5.1)")
    normalization: Literal["nfc", "nfkc", "none"] = Field(
        "nfc",
        description="Unicode normalization; nfc and nfkc also remove control characters",
    )
    languages: tuple[Name, Name] | None = Field(
        None, description="source and target language; default: the file name suffixes"
    )
    dropout: Probability = Field(
        0.0,
        description="BPE-dropout: probability of skipping a merge, drawn again in each epoch",
    )
    source_prefix: tuple[Name, ...] | None = Field(
        None,
        max_length=16,
        description="tokens before each source, such as the >>fra<< of an imported model",
    )


class DataConfig(Section):
    """Batches, length limit and validation split."""

    batch_tokens: int = Field(
        4096,
        ge=16,
        le=16_777_216,
        description="maximum tokens per batch, including padding, on the longer side",
    )
    max_length: int = Field(
        256,
        ge=4,
        le=1_048_576,
        description="maximum tokens of either side; longer pairs are dropped",
    )
    valid_pairs: int | None = Field(
        None,
        ge=1,
        le=10_000_000,
        description="pairs split off for validation if no validation set is given",
    )


@dataclass(frozen=True, slots=True)
class StackShape:
    """The sizes of a stack of layers: of the encoder or of the decoder."""

    n_layers: int
    d_ff: int
    n_heads: int
    key_size: int  # d_k: width of queries and keys per head
    value_size: int  # d_v: width of values per head


class ModelConfig(Section):
    """The shape of the Transformer, with the names of the paper (Table 3)."""

    kind: Literal["encoder-decoder", "decoder-only"] = Field(
        "encoder-decoder",
        description="translator (encoder-decoder) or language model (decoder-only)",
    )
    vocab_size: VocabularySize | None = Field(
        None, description="set automatically from the vocabulary"
    )
    target_vocab_size: VocabularySize | None = Field(
        None, description="set automatically if text.joint is false"
    )
    n_layers: Layers = Field(
        6, description="N: number of layers in the encoder, and in the decoder"
    )
    n_layers_decoder: Layers | None = Field(
        None, description="number of layers in the decoder; default: n_layers"
    )
    d_model: Width = Field(512, description="width of embeddings and layer outputs")
    d_ff: HiddenWidth = Field(2048, description="hidden width of the feed-forward network")
    d_ff_decoder: HiddenWidth | None = Field(
        None, description="hidden width of the feed-forward network in the decoder; default: d_ff"
    )
    n_heads: Heads = Field(8, description="h: number of attention heads")
    n_heads_decoder: Heads | None = Field(
        None, description="number of attention heads in the decoder; default: n_heads"
    )
    d_k: Width | None = Field(
        None, description="width of queries and keys per head; default: d_model / n_heads"
    )
    d_v: Width | None = Field(
        None, description="width of values per head; default: d_model / n_heads"
    )
    attention_bias: bool = Field(
        False, description="biases in the four linear maps of attention; the paper has none"
    )
    activation: Activation = Field(
        "relu", description="activation of the feed-forward network; the paper has relu (Eq. 2)"
    )
    embedding_scale: bool = Field(True, description="embeddings times sqrt(d_model) (section 3.4)")
    tied_output: bool = Field(
        True,
        description="the linear map before the softmax is the matrix of the target embedding "
        "(section 3.4); false: a matrix of its own",
    )
    logit_bias: bool = Field(
        False, description="a bias on the logit of each target token; the paper has none"
    )
    dropout: Probability = Field(
        0.1,
        description="P_drop: dropout on sub-layer outputs and embeddings (section 5.4)",
    )
    norm: Literal["post", "pre"] = Field(
        "post", description="LayerNorm after each sub-layer (post, as in the paper) or before (pre)"
    )
    norm_epsilon: float = Field(
        1e-5, ge=1e-12, le=1, description="epsilon of LayerNorm, added to the variance"
    )
    positions: Literal["sinusoidal", "learned"] = Field(
        "sinusoidal", description="position encoding: section 3.5, or Table 3 (E)"
    )
    window: Length = Field(256, description="context window of a language model in tokens")
    max_positions: Length = Field(
        1024, description="maximum length with learned positions, in tokens"
    )

    @model_validator(mode="after")
    def _check_sizes(self) -> "ModelConfig":
        if self.d_model % 2:
            raise ValueError(
                f"model.d_model is {self.d_model}: expected an even number "
                "(position encodings are pairs of sine and cosine)"
            )
        for suffix in ("", "_decoder"):
            name, n_heads = f"n_heads{suffix}", getattr(self, f"n_heads{suffix}")
            if n_heads and None in (self.d_k, self.d_v) and self.d_model % n_heads:
                raise ValueError(
                    f"model.d_model is {self.d_model} and model.{name} is {n_heads}: "
                    f"d_model must be divisible by {name}, or set model.d_k and model.d_v"
                )
        for name in ("n_layers", "d_ff", "n_heads"):
            value = getattr(self, f"{name}_decoder")
            if self.kind == "decoder-only" and value is not None:
                raise ValueError(
                    f"model.{name}_decoder is {value}, but a language model has a single stack; "
                    f"set model.{name}"
                )
        return self

    @property
    def encoder(self) -> StackShape:
        """The sizes of the encoder."""
        return self._shape(self.n_layers, self.d_ff, self.n_heads)

    @property
    def decoder(self) -> StackShape:
        """The sizes of the decoder; of a language model, which has no other stack."""
        return self._shape(
            self.n_layers_decoder or self.n_layers,
            self.d_ff_decoder or self.d_ff,
            self.n_heads_decoder or self.n_heads,
        )

    def _shape(self, n_layers: int, d_ff: int, n_heads: int) -> StackShape:
        size = self.d_model // n_heads
        return StackShape(n_layers, d_ff, n_heads, self.d_k or size, self.d_v or size)

    @property
    def alignment_layer(self) -> int:
        """Index of the decoder layer whose cross-attention aligns words best.

        That is the last but one, or the last of up to three layers. Garg et al. 2019 found the last
        but one of six; of the two layers of the built-in model it is the last (docs/decisions.md).
        """
        n_layers = self.decoder.n_layers
        return n_layers - 2 if n_layers > 3 else n_layers - 1


# What a setting was before it was stored. Files without it were written then.
UNWRITTEN: Mapping[str, Any] = {"norm_epsilon": 1e-6}


def unwritten(stored: ModelConfig) -> dict[str, Any]:
    """Return the settings that are missing in stored ones, with the values they had then.

    `stored` was read from a folder that an older version of transduce wrote. Settings that a user
    wrote are not stored: what they leave out has the default of today.
    """
    return {name: value for name, value in UNWRITTEN.items() if name not in stored.model_fields_set}


class TrainConfig(Section):
    """Optimization, validation and checkpoints (section 5)."""

    steps: Steps = Field(100_000, description="maximum number of optimizer steps")
    warmup_steps: Steps = Field(4000, description="steps of linear learning rate warmup (Eq. 3)")
    learning_rate: float | None = Field(
        None,
        gt=0,
        le=1000,
        description="peak learning rate; default, Eq. 3: (d_model * warmup_steps)^-0.5",
    )
    schedule: Literal["inverse_sqrt", "cosine"] = Field(
        "inverse_sqrt",
        description="decay after the peak: as in Eq. 3, or cosine to zero at the last step",
    )
    label_smoothing: Probability = Field(0.1, description="eps_ls: label smoothing (section 5.4)")
    consistency: float = Field(
        0.0,
        ge=0,
        le=100,
        description="alpha of R-Drop: weight of the KL term between two dropout passes; 0: off",
    )
    accumulate: int = Field(1, ge=1, le=1024, description="gradient accumulation: batches per step")
    clip_norm: float = Field(
        1.0,
        ge=0,
        le=1_000_000,
        description="maximum gradient norm; 0: no clipping, as in the paper",
    )
    validate_every: Steps = Field(1000, description="steps between validations")
    save_every: Steps = Field(1000, description="steps between checkpoints")
    average_last: int = Field(
        5,
        ge=1,
        le=1000,
        description="number of checkpoints averaged for the final model (section 6.1)",
    )
    patience: Steps = Field(10, description="early stopping: validations without improvement")
    start_share: Probability = Field(
        0.0,
        description="fine-tuning: share of the start model in the mean of its and the new weights",
    )
    better_by: Literal["loss", "bleu"] = Field(
        "loss",
        description="validation metric for early stopping and the best checkpoint",
    )
    seed: int = Field(
        1, ge=0, le=2**63 - 1, description="random seed of initialization, dropout and data order"
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto",
        description="matrix products in training; auto: bfloat16 if the CPU supports it",
    )


class DecodeConfig(Section):
    """Beam search."""

    beam: int = Field(4, ge=1, le=128, description="beam size; 1: greedy search")
    alpha: float = Field(
        1.0, ge=0, le=10, description="exponent of the length penalty; 0: no penalty"
    )
    length_penalty: Literal["power", "paper"] = Field(
        "power", description="power: score / length^alpha; paper: Wu et al. (section 6.1)"
    )
    max_length: Length | None = Field(
        None, description="maximum tokens of a translation; default: source length + 50"
    )


class Config(Section):
    """All settings of a run."""

    text: TextConfig = TextConfig()
    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig()
    train: TrainConfig = TrainConfig()
    decode: DecodeConfig = DecodeConfig()

    @model_validator(mode="after")
    def _check_combinations(self) -> "Config":
        text, data, model, train = self.text, self.data, self.model, self.train
        if text.dropout and (text.kind != "bpe" or model.kind != "encoder-decoder"):
            raise ValueError(
                f"text.dropout is {text.dropout}, but text.kind is '{text.kind}' and model.kind is "
                f"'{model.kind}'; BPE-dropout needs text.kind 'bpe' and "
                "model.kind 'encoder-decoder'"
            )
        if text.dropout and text.source_prefix:
            raise ValueError(
                f"text.dropout is {text.dropout}, but this model puts "
                f"{' '.join(text.source_prefix)} before each source, which BPE-dropout does not; "
                "set text.dropout=0"
            )
        if train.consistency and not model.dropout:
            raise ValueError(
                f"train.consistency is {train.consistency} and model.dropout is 0: "
                "without dropout both passes are identical; "
                "set model.dropout=0.1 or train.consistency=0"
            )
        if train.better_by == "bleu" and model.kind == "decoder-only":
            raise ValueError(
                "train.better_by is 'bleu', but a language model is validated by its loss; "
                "set train.better_by='loss'"
            )
        if model.positions == "learned" and model.max_positions <= data.max_length:
            raise ValueError(
                f"model.max_positions is {model.max_positions} and data.max_length is "
                f"{data.max_length}: max_positions must be greater than data.max_length"
            )
        return self


def setting_names() -> list[str]:
    """Return the dotted names of all settings: `train.steps`, `model.d_model`, ..."""
    return [
        f"{section}.{key}"
        for section, field in Config.model_fields.items()
        for key in field.annotation.model_fields  # type: ignore[union-attr]  # it is a Section
    ]


def resolve(*layers: Layer) -> Config:
    """Merge layers of settings, where later layers override earlier ones, and validate the result.

    Raise ConfigError for unknown names and for invalid values or combinations.
    """
    merged: dict[str, dict[str, Any]] = {}
    for layer in layers:
        for section, settings in layer.items():
            if section not in Config.model_fields:
                raise _unknown_setting_error(section)
            for key in settings:
                _check_known(f"{section}.{key}")
            merged.setdefault(section, {}).update(settings)
    try:
        return Config.model_validate(merged)
    except ValidationError as error:
        raise ConfigError("; ".join(_explain(problem) for problem in error.errors())) from None


def parse_assignment(text: str) -> dict[str, dict[str, Any]]:
    """Parse the argument of `--set`, such as `train.steps=500`, into a layer of settings."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(
            f"--set {text!r}: expected section.key=value, for example --set train.steps=500"
        )
    name = name.strip()
    _check_known(name)
    section, _, key = name.partition(".")
    return {section: {key: _parse_value(value.strip())}}


def read_toml(path: Path) -> dict[str, dict[str, Any]]:
    """Read a TOML file as a layer of settings; `resolve` rejects unknown names."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_TOML_BYTES + 1)
        if len(content) > MAX_TOML_BYTES:
            raise ConfigError(
                f"{path} has more than {MAX_TOML_BYTES >> 20} MB; expected a file of settings"
            )
        layer = tomllib.loads(content.decode())
    except FileNotFoundError:
        raise MissingInputError(f"no settings file {path}; check the path") from None
    except OSError as error:
        raise MissingInputError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # also integers of 4,301 digits, and deep lists
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    for section, settings in layer.items():
        if not isinstance(settings, dict):
            raise _unknown_setting_error(section)
    return layer


def to_toml(config: Config) -> str:
    """Return all settings as TOML with their descriptions; those that are None as comments."""
    lines: list[str] = []
    for section, values in config.model_dump().items():
        lines.append(f"[{section}]")
        fields = getattr(config, section).__class__.model_fields
        for key, value in values.items():
            written = f"# {key} =" if value is None else f"{key} = {json.dumps(value)}"
            lines.append(f"{written:<32} # {fields[key].description}")
        lines.append("")
    return "\n".join(lines)


def differences(before: Layer, after: Layer) -> list[str]:
    """Return the settings that differ, one line each: `train.steps: 100 -> 200`."""
    return [
        f"{section}.{key}: {before[section].get(key)} -> {value}"
        for section, settings in after.items()
        for key, value in settings.items()
        if before[section].get(key) != value
    ]


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `did you mean 'x'?`, or the list of known names if none is similar."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"


def _check_known(name: str) -> None:
    if name not in setting_names():
        raise _unknown_setting_error(name)


def _unknown_setting_error(name: str) -> ConfigError:
    """Return the error for an unknown name, which suggests a setting with the same key."""
    section, _, key = name.partition(".")
    key = key or section  # a name without a section may be a key
    same_key = [known for known in setting_names() if known.split(".")[1] == key]
    hint = f"did you mean {same_key[0]!r}?" if same_key else nearest(name, setting_names())
    return ConfigError(f"unknown setting {name!r}: {hint}")


def _parse_value(text: str) -> Any:
    """Parse a TOML value; anything else is a string, so that bare words need no quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # also integers of 4,301 digits, and deep lists
        return text


def _explain(problem: ErrorDetails) -> str:
    """Return the message for one of pydantic's validation errors."""
    if problem["type"] == "value_error":
        return str(problem["ctx"]["error"])
    name = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "int_parsing_size":
        return f"{name} is {_quote(problem['input'])}: the number is too large"
    expected = problem["msg"][0].lower() + problem["msg"][1:]
    expected = expected.replace("input should be greater", "expected a number greater")
    expected = expected.replace("input should be less", "expected a number less")
    expected = expected.replace("input should be", "expected").replace("input should", "it should")
    return f"{name} is {_quote(problem['input'])}: {expected}"


def _quote(value: Any) -> str:
    """Return the beginning of a value as Python writes it."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of 4,301 digits or a deep list
        return f"an {type(value).__name__} that is too large to show"
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}..."
