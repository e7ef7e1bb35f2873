"""The weights of a model under Marian's names, and with its order of the d_model axis.

Marian's position table has all sines, then all cosines, where the paper interleaves them. The
d_model axis of every weight is permuted accordingly, which changes no result.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from transduce.config import ModelConfig

ATTENTION = {"w_q": "q_proj", "w_k": "k_proj", "w_v": "v_proj", "w_o": "out_proj"}
LOGIT_BIAS = "final_logits_bias"  # of the shape (1, vocabulary)

# Which axis of a weight is d_model: the last (what it reads), the first (what it writes), or none.
Axis = Literal["last", "first", "none"]


class WeightName(NamedTuple):
    """A weight under both names."""

    ours: str
    theirs: str
    d_model_axis: Axis


def embedding_names(config: ModelConfig) -> Iterator[WeightName]:
    """Yield the weights with one row, or one number, for each token."""
    if config.target_vocab_size is None:
        yield WeightName("source_embedding.weight", "model.shared.weight", "last")
    else:
        yield WeightName("source_embedding.weight", "model.encoder.embed_tokens.weight", "last")
        yield WeightName("target_embedding.weight", "model.decoder.embed_tokens.weight", "last")
    if not config.tied_output:
        yield WeightName("output.weight", "lm_head.weight", "last")


def layer_names(config: ModelConfig) -> Iterator[WeightName]:
    """Yield the weights of the layers."""
    for i in range(config.encoder.n_layers):
        yield from _names_of_layer(f"encoder.{i}", f"model.encoder.layers.{i}", has_cross=False)
    for i in range(config.decoder.n_layers):
        yield from _names_of_layer(
            f"decoder.layers.{i}", f"model.decoder.layers.{i}", has_cross=True
        )


def _names_of_layer(ours: str, theirs: str, *, has_cross: bool) -> Iterator[WeightName]:
    parts = {"self_attention": "self_attn"}
    if has_cross:
        parts["cross_attention"] = "encoder_attn"
    for our_part, their_part in parts.items():
        for our_map, their_map in ATTENTION.items():
            is_output = our_map == "w_o"
            name = (f"{ours}.{our_part}.{our_map}", f"{theirs}.{their_part}.{their_map}")
            yield _weight(*name, "first" if is_output else "last")
            yield _bias(*name, "first" if is_output else "none")
        yield from _norm(f"{ours}.{our_part}_norm.norm", f"{theirs}.{their_part}_layer_norm")
    first, second = (f"{ours}.feed_forward.w_{i}" for i in (1, 2))
    yield _weight(first, f"{theirs}.fc1", "last")
    yield _bias(first, f"{theirs}.fc1", "none")
    yield _weight(second, f"{theirs}.fc2", "first")
    yield _bias(second, f"{theirs}.fc2", "first")
    yield from _norm(f"{ours}.feed_forward_norm.norm", f"{theirs}.final_layer_norm")


def _weight(ours: str, theirs: str, axis: Axis) -> WeightName:
    return WeightName(f"{ours}.weight", f"{theirs}.weight", axis)


def _bias(ours: str, theirs: str, axis: Axis) -> WeightName:
    return WeightName(f"{ours}.bias", f"{theirs}.bias", axis)


def _norm(ours: str, theirs: str) -> Iterator[WeightName]:
    yield _weight(ours, theirs, "first")
    yield _bias(ours, theirs, "first")


def to_their_order(weight: Tensor, axis: Axis) -> Tensor:
    """Return a weight with the d_model axis in Marian's order: even components, then odd ones."""
    return _permuted(weight, axis, is_inverse=False)


def to_our_order(weight: Tensor, axis: Axis) -> Tensor:
    """Return a weight of Marian's with the d_model axis in our order."""
    return _permuted(weight, axis, is_inverse=True)


def _permuted(weight: Tensor, axis: Axis, *, is_inverse: bool) -> Tensor:
    if axis == "none":
        return weight
    dimension = 0 if axis == "first" else weight.dim() - 1
    size = weight.shape[dimension]
    order = torch.cat((torch.arange(0, size, 2), torch.arange(1, size, 2)))
    return weight.index_select(dimension, order.argsort() if is_inverse else order)


def to_marian(config: ModelConfig, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of one of our models as those of a MarianMTModel, in float32.

    Marian's attention has biases, and its logits too; they are zero if ours have none. A matrix
    that is used in several places is stored under one name, as safetensors demands.
    """
    converted = {}
    for ours, theirs, axis in (*embedding_names(config), *layer_names(config)):
        if ours in weights:
            converted[theirs] = to_their_order(weights[ours].float(), axis).contiguous()
        else:  # a bias of attention
            converted[theirs] = torch.zeros(_bias_size(ours, weights))
    n_target = config.target_vocab_size or config.vocab_size
    assert n_target is not None, "a model has a vocabulary"
    bias = weights["output.bias"].float() if config.logit_bias else torch.zeros(n_target)
    converted[LOGIT_BIAS] = bias[None].contiguous()
    return converted


def _bias_size(name: str, weights: Mapping[str, Tensor]) -> int:
    """Return how many numbers a bias has that a model does not have."""
    return weights[f"{name.removesuffix('.bias')}.weight"].shape[0]


def select_rows(weight: Tensor, rows: Sequence[int]) -> Tensor:
    """Return the rows of a matrix, or the numbers of a vector, in another order."""
    return weight.index_select(0, torch.tensor(rows))
