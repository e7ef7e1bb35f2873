"""Every setting, once: its type, its default, its meaning, its check; TOML in and out.

Settings reach a run in layers, each overriding the one before: the defaults here, a preset, what the corpus suggests,
`--config run.toml`, `--set section.key=value` and the flags. `resolve` merges the layers and checks the result.
"""

import difflib
import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from transduce.errors import ConfigError, MissingInputError

Layer = Mapping[str, Mapping[str, Any]]


class Section(BaseModel):
    """A group of settings: frozen, and closed to names it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False, allow_inf_nan=False)


class TextConfig(Section):
    """How text becomes pieces."""

    kind: Literal["bpe", "unigram", "char", "byte"] = Field(
        "bpe", description="what the pieces are"
    )
    vocab_size: int | None = Field(
        None, ge=261, le=256_000, description="pieces; left out, chosen from the corpus"
    )
    joint: bool = Field(
        True, description="one vocabulary for both languages (section 5.1), or one each"
    )
    normalization: Literal["nfc", "nfkc", "none"] = Field(
        "nfc",
        description="Unicode's normal form, control characters removed; in training and in translation",
    )
    languages: tuple[str, str] | None = Field(
        None, description="of source and target; left out, from file suffixes"
    )
    dropout: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="BPE-dropout: the chance that a merge is left out, anew in each epoch",
    )


class DataConfig(Section):
    """How pairs become batches."""

    batch_tokens: int = Field(
        4096, ge=16, description="pieces a batch may hold, on its longer side, padding counted"
    )
    max_length: int = Field(
        256, ge=4, description="longer pairs (in pieces, either side) are left out and counted"
    )
    valid_pairs: int | None = Field(
        None, ge=1, description="pairs split off for validation when no set is given"
    )


class ModelConfig(Section):
    """The shape of the Transformer, in the paper's names (Table 3)."""

    kind: Literal["encoder-decoder", "decoder-only"] = Field(
        "encoder-decoder", description="translator, language model"
    )
    vocab_size: int | None = Field(None, ge=1, description="set from the vocabulary, not by hand")
    target_vocab_size: int | None = Field(
        None, ge=1, description="with text.joint = false: the target's own size"
    )
    n_layers: int = Field(
        6, ge=1, le=1000, description="N: layers of the encoder, and of the decoder"
    )
    d_model: int = Field(512, ge=2, le=65_536, description="width of every vector between layers")
    d_ff: int = Field(
        2048, ge=1, le=1_048_576, description="inner width of the feed-forward network"
    )
    n_heads: int = Field(8, ge=1, le=1024, description="h: heads of attention")
    d_k: int | None = Field(
        None, ge=1, le=65_536, description="size of a query and a key; left out, d_model / n_heads"
    )
    d_v: int | None = Field(
        None, ge=1, le=65_536, description="size of a value; left out, d_model / n_heads"
    )
    dropout: float = Field(
        0.1, ge=0, lt=1, description="P_drop, on sub-layer outputs and embeddings (section 5.4)"
    )
    norm: Literal["post", "pre"] = Field(
        "post", description="LayerNorm after the residual (the paper) or before"
    )
    positions: Literal["sinusoidal", "learned"] = Field(
        "sinusoidal", description="section 3.5, or Table 3 (E)"
    )
    window: int = Field(256, ge=1, le=1_048_576, description="pieces a language model sees at once")
    max_positions: int = Field(
        1024, ge=1, le=1_048_576, description="longest text, with learned positions only"
    )

    @model_validator(mode="after")
    def _sizes_fit(self) -> "ModelConfig":
        if self.d_model % 2:
            raise ValueError(
                f"model.d_model is {self.d_model}: it must be even, positions are pairs of sine and cosine"
            )
        if (self.d_k is None or self.d_v is None) and self.d_model % self.n_heads:
            raise ValueError(
                f"model.d_model is {self.d_model} and model.n_heads is {self.n_heads}: "
                "d_model must be divisible by n_heads, or set model.d_k and model.d_v"
            )
        return self

    @property
    def key_size(self) -> int:
        """d_k."""
        return self.d_k or self.d_model // self.n_heads

    @property
    def value_size(self) -> int:
        """d_v."""
        return self.d_v or self.d_model // self.n_heads


class TrainConfig(Section):
    """How the weights are found (section 5)."""

    steps: int = Field(100_000, ge=1, description="updates of the weights, at most")
    warmup_steps: int = Field(
        4000, ge=1, description="steps over which the rate rises linearly (Eq. 3)"
    )
    learning_rate: float | None = Field(
        None, gt=0, description="peak rate; left out, Eq. 3: (d_model * warmup)^-0.5"
    )
    schedule: Literal["inverse_sqrt", "cosine"] = Field(
        "inverse_sqrt",
        description="after the peak: Eq. 3's decay, or down to zero at the last step",
    )
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="eps_ls (section 5.4)")
    consistency: float = Field(
        0.0,
        ge=0,
        le=100,
        description="R-Drop's alpha: each batch twice, and the two answers drawn together; 0 is off",
    )
    accumulate: int = Field(1, ge=1, description="batches whose gradients make one step")
    clip_norm: float = Field(
        1.0, ge=0, description="largest norm of the gradient; 0 is off, as in the paper"
    )
    validate_every: int = Field(1000, ge=1, description="steps between two validations")
    save_every: int = Field(1000, ge=1, description="steps between two checkpoints")
    average_last: int = Field(
        5, ge=1, description="checkpoints averaged into the final model (section 6.1)"
    )
    patience: int = Field(
        10, ge=1, description="validations without a better one before training stops"
    )
    better_by: Literal["loss", "bleu"] = Field(
        "loss",
        description="what makes a validation better: for patience, and for the best checkpoint",
    )
    seed: int = Field(1, ge=0, le=2**63 - 1, description="of weights, dropout and order")
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto",
        description="of matrix products while training; auto: bfloat16 where the processor has it",
    )


class DecodeConfig(Section):
    """How a translation is searched."""

    beam: int = Field(4, ge=1, le=128, description="hypotheses kept at each step; 1 is greedy")
    alpha: float = Field(1.0, ge=0, le=10, description="strength of the length penalty")
    length_penalty: Literal["power", "paper"] = Field(
        "power", description="score / length^alpha, or Wu et al. (6.1)"
    )
    max_length: int | None = Field(
        None, ge=1, description="most pieces of a translation; left out, input + 50 (6.1)"
    )


class Config(Section):
    """All settings of a run."""

    text: TextConfig = TextConfig()
    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig()
    train: TrainConfig = TrainConfig()
    decode: DecodeConfig = DecodeConfig()

    @model_validator(mode="after")
    def _sections_fit(self) -> "Config":
        text, data, model, train = self.text, self.data, self.model, self.train
        if text.dropout and (text.kind != "bpe" or model.kind != "encoder-decoder"):
            raise ValueError(
                f"text.dropout is {text.dropout}: it leaves out merges of bpe pieces of sentence pairs, "
                f"but text.kind is {text.kind} and model.kind {model.kind}"
            )
        if train.consistency and not model.dropout:
            raise ValueError(
                f"train.consistency is {train.consistency} and model.dropout 0: without dropout both answers to a batch "
                "are the same; set model.dropout=0.1, or leave train.consistency out"
            )
        if train.better_by == "bleu" and model.kind == "decoder-only":
            raise ValueError(
                "train.better_by is 'bleu': a language model has no BLEU, its validation has a loss"
            )
        if model.positions == "learned" and model.max_positions <= data.max_length:
            raise ValueError(
                f"model.max_positions is {model.max_positions} and data.max_length is {data.max_length}: "
                "learned positions must outnumber the pieces of the longest pair"
            )
        return self


def setting_names() -> list[str]:
    """Every setting by its dotted name: `train.steps`, `model.d_model`, ..."""
    return [
        f"{section}.{key}"
        for section, field in Config.model_fields.items()
        for key in field.annotation.model_fields  # type: ignore[union-attr]  # every field of Config is a Section
    ]


def resolve(*layers: Layer) -> Config:
    """Merge layers of settings, later ones winning, and check the whole."""
    merged: dict[str, dict[str, Any]] = {}
    for layer in layers:
        for section, settings in layer.items():
            if section not in Config.model_fields:
                raise _unknown(section)
            for key in settings:
                _check_known(f"{section}.{key}")
            merged.setdefault(section, {}).update(settings)
    try:
        return Config.model_validate(merged)
    except ValidationError as error:
        raise ConfigError("; ".join(_explain(problem) for problem in error.errors())) from None


def parse_assignment(text: str) -> dict[str, dict[str, Any]]:
    """`train.steps=500`, as written after `--set`, as a layer of settings."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(
            f"--set {text!r}: wanted section.key=value, for example --set train.steps=500"
        )
    name = name.strip()
    _check_known(name)
    section, _, key = name.partition(".")
    return {section: {key: _parse_value(value.strip())}}


def read_toml(path: Path) -> dict[str, dict[str, Any]]:
    """The settings of a TOML file, as a layer. Unknown names are refused when the layers are resolved."""
    try:
        with path.open("rb") as file:
            layer = tomllib.load(file)
    except FileNotFoundError:
        raise MissingInputError(f"no settings file {path}") from None
    except OSError as error:
        raise MissingInputError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    for section, settings in layer.items():
        if not isinstance(settings, dict):
            raise _unknown(section)
    return layer


def to_toml(config: Config) -> str:
    """The settings as TOML, complete but for those that are left out on purpose, each with its meaning."""
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
    """What changed between two layers of settings, one line each: `train.steps: 100 -> 200`."""
    return [
        f"{section}.{key}: {before[section].get(key)} -> {value}"
        for section, settings in after.items()
        for key, value in settings.items()
        if before[section].get(key) != value
    ]


def nearest(name: str, known: Iterable[str]) -> str:
    """`did you mean 'x'?`, or the list when nothing is near."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"


def _check_known(name: str) -> None:
    if name not in setting_names():
        raise _unknown(name)


def _unknown(name: str) -> ConfigError:
    section, _, key = name.partition(".")
    same_key = [known for known in setting_names() if known.split(".")[1] == (key or section)]
    hint = f"did you mean {same_key[0]!r}?" if same_key else nearest(name, setting_names())
    return ConfigError(f"unknown setting {name!r}: {hint}")


def _parse_value(text: str) -> Any:
    """A TOML value, or a bare word as a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _explain(problem: Any) -> str:
    """One of pydantic's findings in our words."""
    if problem["type"] == "value_error":
        return str(problem["ctx"]["error"])
    name = ".".join(str(part) for part in problem["loc"])
    wanted = problem["msg"][0].lower() + problem["msg"][1:]
    return f"{name} is {problem['input']!r}: {wanted.replace('input should', 'it should')}"
