"""A decoder made ready for small products on a CPU: its matrices cut into the blocks in which they are multiplied.

A product with a matrix begins by cutting the matrix. While training, thousands of rows share that cost; a step of a search has as
many rows as hypotheses. oneDNN, which PyTorch brings along, also takes a matrix that was cut before (docs/decisions.md).
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from transduce.decode.scoring import twin
from transduce.model import Transformer
from transduce.model.attention import MultiHeadAttention
from transduce.model.cache import KeyValues
from transduce.model.layers import DecoderLayer

ROWS = 32  # that a product has, about, which decides how a matrix is cut


class PackedLinear(nn.Module):
    """x W^T + b with a matrix that is cut already: the numbers of `nn.Linear`, but for rounding."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
        with torch.inference_mode(False), torch.no_grad():
            self._blocks = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), ROWS)
        self._bias = bias.detach() if bias is not None else None

    def forward(self, x: Tensor) -> Tensor:
        """The map."""
        return torch.ops.mkldnn._linear_pointwise(x, self._blocks, self._bias, "none", [], "")


def can_pack(model: Transformer) -> bool:
    """Whether a model is on a CPU that oneDNN knows; one that trains is left alone."""
    has_onednn: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]  # torch's own
    is_there = has_onednn and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return is_there and not model.training and model.logit_weight.device.type == "cpu"


def versions(model: Transformer) -> tuple[tuple[int, int], ...]:
    """What changes when weights change: a twin that was packed before is then out of date."""
    return tuple((id(parameter), parameter._version) for parameter in model.parameters())


def pack(model: Transformer) -> Transformer:
    """A twin of a model whose decoder, and the map to logits after it, are packed."""
    made = twin(model)
    for module in list(made.decoder.modules()):  # a layer comes before its attention
        if isinstance(module, DecoderLayer):
            module.self_attention.__dict__["project"] = one_product(
                module.self_attention
            )  # in place of the method
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear) and ("project" not in module.__dict__ or name == "w_o"):
                setattr(module, name, PackedLinear(child.weight, child.bias))
    made.__dict__["logits"] = PackedLinear(made.logit_weight)  # the same
    return made


def one_product(attention: MultiHeadAttention) -> Callable[[Tensor], tuple[Tensor, KeyValues]]:
    """`project` of an attention, its three matrices side by side in one."""
    weights = [linear.weight for linear in (attention.w_q, attention.w_k, attention.w_v)]
    linear, sizes = PackedLinear(torch.cat(weights)), [len(weight) for weight in weights]

    def project(x: Tensor) -> tuple[Tensor, KeyValues]:
        q, k, v = linear(x).split(sizes, dim=-1)
        return q, KeyValues(attention.split_heads(k), attention.split_heads(v))

    return project
