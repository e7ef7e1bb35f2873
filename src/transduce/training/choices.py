"""The settings that suit a corpus and this machine, with the reasons that are shown to the user."""

from collections.abc import Sequence
from typing import NamedTuple

from transduce.config import Config, Layer, resolve
from transduce.data.prepared import Vocabularies
from transduce.errors import ConfigError, DataError
from transduce.hardware import find_device, has_bfloat16
from transduce.log import Log
from transduce.presets import (
    FINE_TUNING,
    Proposal,
    preset_for_pairs,
    preset_for_text,
    propose,
    propose_fine_tuning,
    propose_text,
)
from transduce.presets import preset as preset_settings
from transduce.training.batches import VALID_SHARE
from transduce.training.schedule import paper_peak, peak_learning_rate


class Choice(NamedTuple):
    """The settings of a training and where they come from."""

    preset: str
    requested: Config  # preset and user settings, before sizes and steps were chosen
    proposal: Proposal
    config: Config  # the result


def choose_for_pairs(
    n_pairs: int,
    n_rows: int,
    n_tokens: int,
    vocabularies: Vocabularies,
    preset: str | None,
    settings: Sequence[Layer],
    *,
    is_fine_tuning: bool = False,
    is_mixed: bool = False,
) -> Choice:
    """Choose the settings for a corpus of sentence pairs.

    `n_pairs` counts all pairs, `n_rows` the training pairs within data.max_length, and `n_tokens`
    their target tokens. If `is_mixed`, about half of the rows are pairs of another corpus. Raise
    ConfigError if a requested setting contradicts the corpus.
    """
    if is_fine_tuning and preset is None:
        shape = FINE_TUNING
        requested = resolve(*settings)
        n_own_tokens = n_pairs * n_tokens // max(1, n_rows)
        proposal = propose_fine_tuning(
            n_own_tokens, requested.model.d_model, settings, is_mixed=is_mixed
        )
    else:
        shape = preset or preset_for_pairs(n_pairs)
        requested = resolve(preset_settings(shape), *settings)
        proposal = propose(n_rows, n_tokens, shape, settings)
    sizes = vocabulary_settings(vocabularies, is_joint=requested.text.joint)
    config = resolve(proposal.settings, *settings, sizes)

    if requested.model.kind != "encoder-decoder":
        raise ConfigError(
            f"model.kind is {requested.model.kind!r}, "
            "but sentence pairs train an 'encoder-decoder'; use --text for a language model"
        )
    for name in ("vocab_size", "target_vocab_size"):
        expected, found = getattr(requested.model, name), getattr(config.model, name)
        if expected is not None and expected != found:
            raise ConfigError(
                f"model.{name} is {expected}, but the vocabulary has {found} tokens; "
                "set text.vocab_size instead"
            )
    return Choice(shape, requested, proposal, config)


def choose_for_text(
    n_characters: int,
    n_tokens: int,
    vocab_size: int,
    preset: str | None,
    settings: Sequence[Layer],
) -> Choice:
    """Choose the settings for a language model on a text."""
    shape = preset or preset_for_text(n_characters)
    proposal = propose_text(n_tokens - int(n_tokens * VALID_SHARE), shape, settings)
    sizes: Layer = {"text": {"vocab_size": vocab_size}, "model": {"vocab_size": vocab_size}}
    config = resolve(proposal.settings, *settings, sizes)
    if config.model.kind != "decoder-only":
        raise ConfigError(
            f"model.kind is {config.model.kind!r}, but --text trains a 'decoder-only' model; "
            "use --source and --target for a translator"
        )
    return Choice(shape, requested=config, proposal=proposal, config=config)


def vocabulary_settings(vocabularies: Vocabularies, *, is_joint: bool) -> Layer:
    """Return the sizes of the vocabularies as settings."""
    n_source, n_target = len(vocabularies.source), len(vocabularies.target)
    if is_joint:
        return {
            "text": {"vocab_size": n_source},
            "model": {"vocab_size": n_source, "target_vocab_size": None},
        }
    return {"model": {"vocab_size": n_source, "target_vocab_size": n_target}}


def choose_precision(config: Config, log: Log) -> Config:
    """Resolve train.precision "auto": bfloat16 if this machine supports it, else float32."""
    if config.train.precision != "auto":
        return config
    precision = "float32"
    if has_bfloat16(find_device()):
        precision = "bfloat16"
        log(
            f"precision: bfloat16 matrix products (supported by this {device_name()}), "
            "float32 weights"
        )
    train = config.train.model_copy(update={"precision": precision})
    return config.model_copy(update={"train": train})


def device_name() -> str:
    """Return the kind of device: CPU or GPU."""
    return "CPU" if find_device().type == "cpu" else "GPU"


def all_too_long_error(what: str, requested: Config) -> DataError:
    """Return the error of a corpus in which every sentence is too long."""
    return DataError(
        f"none of the {what} has {requested.data.max_length} tokens or fewer; "
        "set a larger data.max_length"
    )


def log_learning_rate(log: Log, config: Config) -> None:
    """Log the peak learning rate, and that of Eq. 3 if it differs."""
    rate = peak_learning_rate(config.train, config.model)
    paper = paper_peak(config.model.d_model, config.train.warmup_steps)
    comparison = "Eq. 3" if rate == paper else f"Eq. 3 would give {paper:.2g}"
    log(f"train.learning_rate {rate:.2g} at its peak ({comparison})")


def log_reasons(log: Log, proposal: Proposal, config: Config) -> None:
    """Log each setting that was chosen, and why."""
    for name, reason in proposal.reasons.items():
        section, _, key = name.partition(".")
        log(f"{name} {getattr(getattr(config, section), key):,}: {reason}")
