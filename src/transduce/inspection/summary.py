"""Summaries of models and presets for `transduce info`: shape, parameters, model card."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from transduce.config import ModelConfig, StackShape, resolve
from transduce.model.transformer import count_parameters
from transduce.model.weights import build
from transduce.model_folder import BUILTIN, load_model
from transduce.presets import PAPER_MILLIONS
from transduce.presets import preset as preset_settings
from transduce.text.printable import printable

PAPER_VOCAB_SIZE = 37_000  # "about 37000", section 5.1


@dataclass(frozen=True, slots=True)
class Description:
    """Shape of a model, number of parameters of each part, and remarks."""

    name: str
    config: ModelConfig
    parameters: dict[str, int]
    remarks: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return a JSON value."""
        return {
            "name": self.name,
            "model": self.config.model_dump(),
            "parameters": self.parameters,
            "total": sum(self.parameters.values()),
            "remarks": self.remarks,
        }

    def as_text(self) -> str:
        """Return a table for the terminal."""
        model = self.config
        lines = [
            f"{self.name}: {model.kind}, {_sizes(model)}, dropout {model.dropout}, "
            f"{model.norm}-norm, {model.positions} positions, {model.vocab_size:,} tokens"
            f"{_departures(model)}",
            *(f"  {part:<28} {count:>13,}" for part, count in self.parameters.items()),
            f"  {'total':<28} {sum(self.parameters.values()):>13,}",
            *self.remarks,
        ]
        return "\n".join(lines)


def _sizes(model: ModelConfig) -> str:
    """Return the sizes of the stacks, once if both have the same."""
    width = f"d_model {model.d_model}"
    if model.encoder == model.decoder:
        return f"{model.encoder.n_layers} layers, {width}, {_stack_sizes(model.encoder)}"
    stacks = {"encoder": model.encoder, "decoder": model.decoder}
    each = (
        f"{name} of {stack.n_layers} layers ({_stack_sizes(stack)})"
        for name, stack in stacks.items()
    )
    return f"{width}, {', '.join(each)}"


def _departures(model: ModelConfig) -> str:
    """Return what a model has that the paper's Transformer has not, as the end of a list."""
    found = {
        f"{model.activation} activation": model.activation != "relu",
        "attention biases": model.attention_bias,
        "unscaled embeddings": not model.embedding_scale,
        "an output matrix of its own": not model.tied_output,
        "logit biases": model.logit_bias,
    }
    return "".join(f", {what}" for what, is_so in found.items() if is_so)


def _stack_sizes(stack: StackShape) -> str:
    return f"d_ff {stack.d_ff}, {stack.n_heads} heads, d_k {stack.key_size}, d_v {stack.value_size}"


def describe_preset(name: str, vocab_size: int) -> Description:
    """Describe a preset with a vocabulary of `vocab_size` tokens, without allocating weights."""
    config = resolve(preset_settings(name), {"model": {"vocab_size": vocab_size}}).model
    with torch.device("meta"):
        parameters = count_parameters(build(config))
    total = sum(parameters.values())
    remarks: tuple[str, ...] = ()
    if name in PAPER_MILLIONS:
        printed = PAPER_MILLIONS[name]
        needed = vocab_size + (printed * 1_000_000 - total) / config.d_model
        remarks = (
            f"Table 3 prints {printed} million for this row; here it is {total / 1e6:.1f}. "
            f"The printed number would need a vocabulary of about {needed:,.0f} tokens.",
            'The paper says "about 37000" (section 5.1); the rows of (B) and (C) all fit '
            "about 41,000, and big about 35,900.",
        )
    return Description(name, config, parameters, remarks)


def describe_model(path: Path | None) -> Description:
    """Describe a trained model and its model card."""
    folder = load_model(path or BUILTIN)
    card = folder.card
    sides = "joint" if folder.config.text.joint else "one for each side"
    remarks = [f"vocabulary: {folder.config.text.kind}, {sides}"]
    remarks += [
        printable(f"{key.replace('_', ' ')}: {_format(value)}")
        for key, value in card.items()
        if not isinstance(value, dict)
    ]
    return Description(
        str(path or "built-in en-it"),
        folder.config.model,
        count_parameters(folder.model),
        tuple(remarks),
    )


def _format(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
