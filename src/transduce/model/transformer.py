"""The whole model, Figure 1: token ids in, logits out.

Training and search use the same decoder. It reads new target tokens and a cache, and returns the
extended cache. Training passes all tokens at once with an empty cache; search passes one token and
the cache of the previous step.
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.config import ModelConfig
from transduce.errors import ConfigError
from transduce.model.attention import causal_mask, padding_mask
from transduce.model.cache import Cache
from transduce.model.dropout import Dropout
from transduce.model.layers import DecoderLayer, EncoderLayer, layer_norm
from transduce.model.positions import LearnedPositions, sinusoids


class Embedding(nn.Module):
    """Token embeddings times sqrt(d_model), plus positional encodings, then dropout.

    Sections 3.4, 3.5 and 5.4. The same matrix is the linear map before the softmax (section 3.4),
    used by the method `logits` of a model.

    Departs: with model.embedding_scale = false the embeddings are not scaled.
    """

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, config.d_model))
        self.scale = math.sqrt(config.d_model) if config.embedding_scale else 1.0
        self.positions: LearnedPositions | None = (
            LearnedPositions(config) if config.positions == "learned" else None
        )
        self.dropout = Dropout(config.dropout)

    def forward(
        self, ids: Int[Tensor, "batch position"], start: int = 0
    ) -> Float[Tensor, "batch position d_model"]:
        """Return the input vectors of tokens at positions start, start+1, ..."""
        ids = ids.to(self.weight.device, non_blocking=True)
        d_model, length = self.weight.shape[1], ids.shape[1]
        if self.positions is None:
            positions = sinusoids(start, length, d_model, ids.device).to(self.weight.dtype)
        else:
            positions = self.positions(start, length)
        return self.dropout(F.embedding(ids, self.weight) * self.scale + positions)


class Output(nn.Module):
    """What the linear map before the softmax adds to the target embedding: in the paper, nothing.

    Departs: with model.tied_output = false the map has a matrix of its own (Press & Wolf 2017
    compare the two).
    Departs: with model.logit_bias it has a bias, as in Marian (Junczys-Dowmunt et al. 2018).
    """

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        super().__init__()
        self.weight: nn.Parameter | None = None
        self.bias: nn.Parameter | None = None
        if not config.tied_output:
            self.weight = nn.Parameter(torch.empty(vocab_size, config.d_model))
        if config.logit_bias:
            self.bias = nn.Parameter(torch.empty(vocab_size))


class Decoder(nn.Module):
    """The decoder stack of Figure 1 (right), with or without cross-attention."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder.n_layers))
        self.norm = final_norm(config)

    def start(
        self,
        memory: Float[Tensor, "batch source d_model"] | None = None,
        source_mask: Bool[Tensor, "batch source"] | None = None,
    ) -> Cache:
        """Return the cache before the first target token."""
        # All layers are DecoderLayers; `isinstance` is for the type checker.
        layers = (layer for layer in self.layers if isinstance(layer, DecoderLayer))
        return Cache(tuple(layer.start(memory) for layer in layers), source_mask=source_mask)

    def forward(
        self, x: Float[Tensor, "batch target d_model"], cache: Cache
    ) -> tuple[Float[Tensor, "batch target d_model"], Cache]:
        """Read the new target positions; return their output and the cache extended by them."""
        n_new = x.shape[1]
        target_mask = source_mask = None
        if n_new > 1:  # a single new position is the last one: it may attend to all positions
            target_mask = causal_mask(n_new, cache.length + n_new, x.device)
        if cache.source_mask is not None:
            source_mask = padding_mask(cache.source_mask)
        layers = []
        for layer, layer_cache in zip(self.layers, cache.layers, strict=True):
            x, layer_cache = layer(x, layer_cache, target_mask, source_mask)
            layers.append(layer_cache)
        return self.norm(x), Cache(tuple(layers), cache.length + n_new, cache.source_mask)


class Transformer(nn.Module):
    """The paper's encoder-decoder, section 3.

    One matrix is shared by both embeddings and the linear map before the softmax (section 3.4).
    Departs: with `model.target_vocab_size` the source has its own vocabulary and matrix.
    Departs: the decoder may have other sizes than the encoder (`model.n_layers_decoder` and more);
    a deep encoder with a shallow decoder is as good and faster (Kasai et al. 2021).
    Departs: learned positions (Table 3, E) are part of the embedding, so encoder and decoder share
    them wherever they share the embedding.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        vocab_size = require_vocab_size(config)
        self.config = config
        self.source_embedding = Embedding(config, vocab_size)
        if config.target_vocab_size is None:
            self.target_embedding = self.source_embedding
        else:
            self.target_embedding = Embedding(config, config.target_vocab_size)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder.n_layers))
        self.encoder_norm = final_norm(config)
        self.decoder = Decoder(config)
        self.output = Output(config, len(self.target_embedding.weight))
        initialize(self)

    def encode(
        self, source: Int[Tensor, "batch source"], source_mask: Bool[Tensor, "batch source"]
    ) -> Float[Tensor, "batch source d_model"]:
        """Run the encoder: return one vector for each source token, the `memory` of the decoder."""
        x = self.source_embedding(source)
        mask = padding_mask(source_mask.to(x.device))
        for layer in self.encoder:
            x = layer(x, mask)
        return self.encoder_norm(x)

    def start(
        self, source: Int[Tensor, "batch source"], source_mask: Bool[Tensor, "batch source"]
    ) -> Cache:
        """Run the encoder and return the cache before the first target token."""
        memory = self.encode(source, source_mask)
        return self.decoder.start(memory, source_mask.to(memory.device))

    def decode(
        self, target: Int[Tensor, "batch target"], cache: Cache
    ) -> tuple[Float[Tensor, "batch target d_model"], Cache]:
        """Run the decoder over the next target tokens.

        Return the hidden vectors, from which `logits` predicts the token after each, and the new
        cache.
        """
        return self.decoder(self.target_embedding(target, start=cache.length), cache)

    def logits(self, hidden: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch vocab"]:
        """Return the logit of each target token: a dot product with its embedding (section 3.4)."""
        return F.linear(hidden, self.logit_weight, self.logit_bias)

    @property
    def logit_weight(self) -> Float[Tensor, "vocab d_model"]:
        """The matrix of the linear map before the softmax."""
        own = self.output.weight
        return self.target_embedding.weight if own is None else own

    @property
    def logit_bias(self) -> Float[Tensor, " vocab"] | None:
        """The bias of that map; None, as in the paper, unless model.logit_bias is set."""
        return self.output.bias

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        source_mask: Bool[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target vocab"]:
        """Return the logits of the next token at every target position, as in training."""
        hidden, _ = self.decode(target, self.start(source, source_mask))
        return self.logits(hidden)


class LanguageModel(nn.Module):
    """A decoder-only language model, made of the same layers without cross-attention."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = Embedding(config, require_vocab_size(config))
        self.decoder = Decoder(config)
        self.output = Output(config, len(self.embedding.weight))
        initialize(self)

    def start(self) -> Cache:
        """Return the cache before the first token."""
        return self.decoder.start()

    def decode(
        self, target: Int[Tensor, "batch target"], cache: Cache
    ) -> tuple[Float[Tensor, "batch target d_model"], Cache]:
        """Run the decoder over the next tokens.

        Return the hidden vectors, from which `logits` predicts the token after each, and the new
        cache.
        """
        return self.decoder(self.embedding(target, start=cache.length), cache)

    def logits(self, hidden: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch vocab"]:
        """Return the logit of each token: the dot product with its embedding (section 3.4)."""
        return F.linear(hidden, self.logit_weight, self.logit_bias)

    @property
    def logit_weight(self) -> Float[Tensor, "vocab d_model"]:
        """The matrix of the linear map before the softmax."""
        own = self.output.weight
        return self.embedding.weight if own is None else own

    @property
    def logit_bias(self) -> Float[Tensor, " vocab"] | None:
        """The bias of that map; None, as in the paper, unless model.logit_bias is set."""
        return self.output.bias

    def forward(self, target: Int[Tensor, "batch target"]) -> Float[Tensor, "batch target vocab"]:
        """Return the logits of the next token at every position, as in training."""
        hidden, _ = self.decode(target, self.start())
        return self.logits(hidden)


def final_norm(config: ModelConfig) -> nn.Module:
    """Return the last LayerNorm of a pre-norm stack, whose last sum is not normalized."""
    return layer_norm(config) if config.norm == "pre" else nn.Identity()


def require_vocab_size(config: ModelConfig) -> int:
    """Return model.vocab_size; raise ConfigError if it is not set."""
    if config.vocab_size is None:
        raise ConfigError(
            "model.vocab_size is not set; set it to the number of tokens in the vocabulary"
        )
    return config.vocab_size


def initialize(model: nn.Module) -> None:
    """Initialize the weights in place, so that post-norm trains stably.

    The paper does not say how. Matrices: Xavier uniform, with W^Q, W^K and W^V counted as one
    matrix (gain 1/sqrt(2)), which keeps early attention nearly uniform. Embeddings, and an output
    matrix of its own: normal with standard deviation d_model^-0.5; then the logits and the scaled
    embeddings (section 3.4) have unit variance. Biases: zero.
    """
    if any(parameter.is_meta for parameter in model.parameters()):
        return  # no storage yet, and drawing on the meta device would take seconds
    for name, parameter in model.named_parameters():
        part = name.split(".")[-2]
        if parameter.dim() == 1:
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
        elif part.endswith("embedding") or part in ("positions", "output"):
            nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
        else:
            gain = 2**-0.5 if part in ("w_q", "w_k", "w_v") else 1.0
            nn.init.xavier_uniform_(parameter, gain=gain)


def count_parameters(model: nn.Module) -> dict[str, int]:
    """Return the number of parameters of each part, in the order of Figure 1.

    Keys are a stack and a part of it, such as "encoder self_attention". A shared matrix is counted
    once, where it is used first.
    """
    counts: dict[str, int] = {}
    for name, parameter in model.named_parameters():  # yields a shared parameter once
        path = [word for word in name.split(".") if not word.isdigit() and word != "layers"]
        if "norm" in name:
            part = "norms"
        elif len(path) > 2:
            part = path[1]
        else:
            part = "bias" if path[-1] == "bias" else "matrix"
        key = f"{path[0].removesuffix('_norm')} {part}"
        counts[key] = counts.get(key, 0) + parameter.numel()
    return counts
