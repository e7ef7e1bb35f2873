"""The weights of a model by name: out of it, into it, averaged."""

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


def build(config: ModelConfig) -> Transformer | LanguageModel:
    """The model of a configuration, with fresh weights."""
    return Transformer(config) if config.kind == "encoder-decoder" else LanguageModel(config)


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """The weights by name, each once even where it is shared."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def shared_copy(model: ModelT) -> ModelT:
    """Return a copy that shares its parameters with `model` and can be hooked or changed freely."""
    return copy.deepcopy(model, {id(parameter): parameter for parameter in model.parameters()})


def average(weights: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several sets of weights (section 6.1: the last 5 or 20 checkpoints)."""
    return {
        name: torch.stack([each[name].float() for each in weights]).mean(dim=0)
        for name in weights[0]
    }


def pack_weights(model: nn.Module, precision: Literal["float32", "float16"]) -> bytes:
    """The weights as the content of a safetensors file."""
    dtype = getattr(torch, precision)
    return save({name: weight.to(dtype).contiguous() for name, weight in weights_of(model).items()})


def load_built(config: ModelConfig, content: bytes, origin: Path) -> Transformer | LanguageModel:
    """The model of a configuration with the weights of a safetensors file's content."""
    with torch.device("meta"):  # no memory yet: the config may claim any size
        model = build(config)
    load_weights(model, parse_weights(content, origin), origin)
    return model.eval()


def load_weights_file(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
    try:
        return parse_weights(path.read_bytes(), path)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from None


def parse_weights(content: bytes, origin: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file's content."""
    try:
        return load(content)
    except SafetensorError as error:
        raise ModelError(f"{origin} cannot be read as safetensors: {error}") from None


def load_weights(model: nn.Module, weights: Mapping[str, Tensor], origin: Path) -> None:
    """Put weights into a model; names and shapes must match exactly. A model on the meta device gets its memory here."""
    parameters = dict(model.named_parameters())
    for name in sorted(parameters.keys() ^ weights.keys()):
        side = "is missing" if name in parameters else "is not part of this model"
        raise ModelError(f"{origin}: {name} {side}: weights and config do not belong together")
    for name, parameter in parameters.items():
        if parameter.shape != weights[name].shape:
            found, wanted = tuple(weights[name].shape), tuple(parameter.shape)
            raise ModelError(f"{origin}: {name} has the shape {found}, the config says {wanted}")
    if any(parameter.is_meta for parameter in parameters.values()):
        model.to_empty(device="cpu")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])
