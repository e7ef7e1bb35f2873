"""A model made ready for small products on a CPU: its matrices cut into the blocks in which they are multiplied.

A product with a matrix begins by cutting the matrix. While training, thousands of rows share that cost; a step of a search has as
many rows as hypotheses. oneDNN, which PyTorch brings along, also takes a matrix that was cut before: a search is then 1.2 times as
fast (docs/decisions.md).
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from transduce.decode.forced import twin
from transduce.model import Transformer
from transduce.model.attention import MultiHeadAttention
from transduce.model.cache import KeyValues
from transduce.model.layers import DecoderLayer

ROWS = 32  # that a product has, about, which decides how a matrix is cut


class PackedLinear(nn.Module):
    """x W^T + b with a matrix that is cut already."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
        with torch.inference_mode(False), torch.no_grad():
            self._blocks = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), ROWS)
        self._bias = bias.detach() if bias is not None else None

    def forward(self, x: Tensor) -> Tensor:
        """The same numbers as `nn.Linear` gives, but for rounding."""
        return torch.ops.mkldnn._linear_pointwise(x, self._blocks, self._bias, "none", [], "")


class Packed:
    """A model and its twin with a packed decoder, which is made anew if the weights have changed since."""

    def __init__(self, model: Transformer) -> None:
        self._model = model
        self._twin: Transformer | None = None
        self._state: tuple[object, ...] = ()

    def get(self) -> Transformer:
        """The twin; where nothing can be packed, the model itself."""
        if not can_pack(self._model):
            return self._model
        state = tuple((id(p), p._version) for p in self._model.parameters())
        if self._twin is None or state != self._state:
            self._twin, self._state = pack(self._model), state
        return self._twin


def can_pack(model: Transformer) -> bool:
    """Whether a model is on a CPU that oneDNN knows; a model that trains is left alone."""
    has_operation = hasattr(torch.ops.mkldnn, "_linear_pointwise") and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]  # torch's own
    return has_operation and not model.training and model.logit_weight.device.type == "cpu"


def pack(model: Transformer) -> Transformer:
    """A twin of a model whose decoder, and the map to logits after it, are packed."""
    made = twin(model)
    packed = set()
    for layer in made.decoder.modules():
        if isinstance(layer, DecoderLayer):
            attention = layer.self_attention
            attention.project = one_product(attention)  # type: ignore[assignment,method-assign]  # a seam, like `attend`
            packed |= {attention.w_q, attention.w_k, attention.w_v}
    for parent, name, linear in list(_linear_maps(made.decoder)):
        if linear not in packed:
            setattr(parent, name, PackedLinear(linear.weight, linear.bias))
    made.__dict__["logits"] = PackedLinear(made.logit_weight)  # in place of the method
    return made


def one_product(attention: MultiHeadAttention) -> Callable[[Tensor], tuple[Tensor, KeyValues]]:
    """`project` of an attention, its three matrices side by side in one."""
    weights = [linear.weight for linear in (attention.w_q, attention.w_k, attention.w_v)]
    linear, sizes = PackedLinear(torch.cat(weights)), [len(weight) for weight in weights]

    def project(x: Tensor) -> tuple[Tensor, KeyValues]:
        q, k, v = linear(x).split(sizes, dim=-1)
        return q, KeyValues(attention.split_heads(k), attention.split_heads(v))

    return project


def _linear_maps(module: nn.Module) -> Iterator[tuple[nn.Module, str, nn.Linear]]:
    for parent in module.modules():
        for name, child in parent.named_children():
            if isinstance(child, nn.Linear):
                yield parent, name, child
