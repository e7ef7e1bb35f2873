"""Build models, and load, save, share and average their weights by name."""

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from transduce.config import ModelConfig
from transduce.errors import ModelError
from transduce.model.transformer import LanguageModel, Transformer

ModelT = TypeVar("ModelT", bound=nn.Module)
FIRST_LAYER = ".0."  # in the name of a weight: it belongs to the first layer of a stack


def build(config: ModelConfig) -> Transformer | LanguageModel:
    """Build the model of a configuration, with newly initialized weights."""
    return Transformer(config) if config.kind == "encoder-decoder" else LanguageModel(config)


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Return the weights by name, without gradients; a shared weight appears once."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def shared_copy(model: ModelT) -> ModelT:
    """Return a copy that shares its parameters with `model` and can be hooked or changed freely."""
    return copy.deepcopy(model, {id(parameter): parameter for parameter in model.parameters()})


def average(weights: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the mean of several sets of weights (section 6.1: of the last 5 or 20 checkpoints)."""
    return {
        name: torch.stack([each[name].float() for each in weights]).mean(dim=0)
        for name in weights[0]
    }


def pack_weights(model: nn.Module, precision: Literal["float32", "float16"]) -> bytes:
    """Return the weights as the content of a safetensors file."""
    dtype = getattr(torch, precision)
    return save({name: weight.to(dtype).contiguous() for name, weight in weights_of(model).items()})


def build_from_bytes(
    config: ModelConfig, content: bytes, origin: Path
) -> Transformer | LanguageModel:
    """Build a model in evaluation mode with the weights of a safetensors file.

    `content` is the content of the file; `origin` is its path, for error messages.
    """
    weights = parse_weights(content, origin)
    check_weights(weights, weight_shapes(config), origin)
    with torch.device("meta"):
        model = build(config)
    load_weights(model, weights, origin)
    return model.eval()


def weight_shapes(config: ModelConfig) -> dict[str, torch.Size]:
    """Return the shape of each weight by name.

    Only the first layer of each stack is built, and it has no memory.
    """
    with torch.device("meta"):
        model = build(config.model_copy(update={"n_layers": 1, "n_layers_decoder": 1}))
    shapes = {}
    for name, weight in weights_of(model).items():
        stack = config.encoder if name.startswith("encoder.") else config.decoder
        for layer in range(stack.n_layers if FIRST_LAYER in name else 1):
            shapes[name.replace(FIRST_LAYER, f".{layer}.")] = weight.shape
    return shapes


def load_weights_file(path: Path) -> dict[str, Tensor]:
    """Load the tensors of a safetensors file; raise ModelError if it cannot be read."""
    try:
        return parse_weights(path.read_bytes(), path)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from None


def parse_weights(content: bytes, origin: Path) -> dict[str, Tensor]:
    """Parse the content of a safetensors file; raise ModelError if it is damaged."""
    try:
        return load(content)
    except SafetensorError as error:
        raise ModelError(
            f"{origin} cannot be read as safetensors: {error}; replace the damaged file"
        ) from None
    except KeyError as error:
        raise ModelError(
            f"{origin} has weights of the unknown type {error}; copy the folder again"
        ) from None


def check_weights(
    weights: Mapping[str, Tensor], shapes: Mapping[str, torch.Size], origin: Path
) -> None:
    """Raise ModelError unless these are the weights of a model: all names, shapes and types."""
    for name in sorted(shapes.keys() ^ weights.keys()):
        side = "is missing" if name in shapes else "is not part of this model"
        raise ModelError(
            f"{origin}: {name!r} {side}; the weights do not match the config, "
            "use the config they were saved with"
        )
    for name, expected in shapes.items():
        weight = weights[name]
        if weight.shape != expected:
            raise ModelError(
                f"{origin}: {name!r} has shape {tuple(weight.shape)}, "
                f"expected {tuple(expected)} by the config; "
                "use the config the weights were saved with"
            )
        if not weight.is_floating_point():
            found = str(weight.dtype).removeprefix("torch.")
            raise ModelError(
                f"{origin}: {name!r} has type {found}, expected floating-point numbers; "
                "copy the folder again"
            )


def load_weights(model: nn.Module, weights: Mapping[str, Tensor], origin: Path) -> None:
    """Copy weights into a model; raise ModelError unless all names, shapes and types match.

    A model on the meta device is moved to the CPU first.
    """
    parameters = dict(model.named_parameters())
    shapes = {name: parameter.shape for name, parameter in parameters.items()}
    check_weights(weights, shapes, origin)
    if any(parameter.is_meta for parameter in parameters.values()):
        model.to_empty(device="cpu")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])
