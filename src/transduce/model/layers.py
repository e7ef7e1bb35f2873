"""One layer of the encoder and one of the decoder: section 3.1, Figure 1."""

from collections.abc import Callable, Mapping

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.config import Activation, ModelConfig, StackShape
from transduce.model.attention import Mask, MultiHeadAttention
from transduce.model.cache import LayerCache
from transduce.model.dropout import Dropout

TargetMask = Bool[Tensor, "#batch 1 target so_far"] | None
SourceMask = Bool[Tensor, "#batch 1 1 source"] | None
ACTIVATIONS: Mapping[Activation, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,  # max(0, x)
    "gelu": F.gelu,  # x Phi(x), where Phi is the distribution function of the normal distribution
    "swish": F.silu,  # x / (1 + exp(-x))
}


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2: Eq. 2, section 3.3.

    Departs: `model.activation` replaces max(0, x) by GELU (Hendrycks & Gimpel 2016) or by Swish
    (Ramachandran et al. 2017), which many Marian models have.
    """

    def __init__(self, config: ModelConfig, stack: StackShape) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[config.activation]
        self.w_1 = nn.Linear(config.d_model, stack.d_ff)
        self.w_2 = nn.Linear(stack.d_ff, config.d_model)

    def forward(
        self, x: Float[Tensor, "batch position d_model"]
    ) -> Float[Tensor, "batch position d_model"]:
        """Apply the same two linear maps to each position separately."""
        return self.w_2(self.activation(self.w_1(x)))


def layer_norm(config: ModelConfig) -> nn.LayerNorm:
    """Return a LayerNorm over d_model (Ba et al. 2016). The paper does not state its epsilon."""
    return nn.LayerNorm(config.d_model, eps=config.norm_epsilon)


class AddAndNorm(nn.Module):
    """LayerNorm(x + Dropout(Sublayer(x))): the "Add & Norm" of Figure 1, sections 3.1 and 5.4.

    Call `input` for what the sub-layer reads, then `forward` with what it computed.
    Departs: with model.norm = "pre" it is x + Dropout(Sublayer(LayerNorm(x))), which trains without
    warm-up (Xiong et al. 2020).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = layer_norm(config)
        self.dropout = Dropout(config.dropout)
        self.is_pre = config.norm == "pre"

    def input(
        self, x: Float[Tensor, "batch position d_model"]
    ) -> Float[Tensor, "batch position d_model"]:
        """Return the input of the sub-layer: x, or LayerNorm(x) with pre-norm."""
        return self.norm(x) if self.is_pre else x

    def forward(
        self,
        x: Float[Tensor, "batch position d_model"],
        sublayer: Float[Tensor, "batch position d_model"],
    ) -> Float[Tensor, "batch position d_model"]:
        """Add the output of the sub-layer to x, and normalize the sum unless pre-norm."""
        added = x + self.dropout(sublayer)
        return added if self.is_pre else self.norm(added)


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network: Figure 1 (left)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config, config.encoder)
        self.self_attention_norm = AddAndNorm(config)
        self.feed_forward = FeedForward(config, config.encoder)
        self.feed_forward_norm = AddAndNorm(config)

    def forward(
        self, x: Float[Tensor, "batch source d_model"], mask: Mask
    ) -> Float[Tensor, "batch source d_model"]:
        """Return the output of the layer for all source positions; `mask` hides padding."""
        y = self.self_attention_norm.input(x)
        queries, keys_values = self.self_attention.project(y)
        x = self.self_attention_norm(x, self.self_attention(y, keys_values, mask, queries))
        y = self.feed_forward_norm.input(x)
        return self.feed_forward_norm(x, self.feed_forward(y))


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention to the source, feed-forward network: Figure 1 (right).

    Without cross-attention it is the layer of a decoder-only language model.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config, config.decoder)
        self.self_attention_norm = AddAndNorm(config)
        self.cross_attention: MultiHeadAttention | None = None
        if config.kind == "encoder-decoder":
            self.cross_attention = MultiHeadAttention(config, config.decoder)
            self.cross_attention_norm = AddAndNorm(config)
        self.feed_forward = FeedForward(config, config.decoder)
        self.feed_forward_norm = AddAndNorm(config)

    def start(self, memory: Float[Tensor, "batch source d_model"] | None) -> LayerCache:
        """Return the cache before the first target token: keys and values of the encoder output."""
        if self.cross_attention is None:
            return LayerCache()
        assert memory is not None, "a decoder with cross-attention needs the encoder output"
        return LayerCache(source=self.cross_attention.keys_values(memory))

    def forward(
        self,
        x: Float[Tensor, "row target d_model"],
        cache: LayerCache,
        target_mask: TargetMask,
        source_mask: SourceMask,
    ) -> tuple[Float[Tensor, "row target d_model"], LayerCache]:
        """Read the new target positions; return their output and the cache extended by them."""
        y = self.self_attention_norm.input(x)
        queries, new = self.self_attention.project(y)
        target = cache.target.append(new) if cache.target is not None else new
        x = self.self_attention_norm(x, self.self_attention(y, target, target_mask, queries))
        if self.cross_attention is not None:
            assert cache.source is not None, "the cache was not made by `start` of this layer"
            y = self.cross_attention_norm.input(x)
            x = self.cross_attention_norm(x, self.cross_attention(y, cache.source, source_mask))
        y = self.feed_forward_norm.input(x)
        x = self.feed_forward_norm(x, self.feed_forward(y))
        return x, LayerCache(target, cache.source)
