"""The whole model, Figure 1: ids in, logits out.

One decoder serves training and decoding: it reads the new pieces and a cache and returns the new cache. Training gives it all
pieces at once and an empty cache; decoding gives it one piece and what it returned before.
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
from transduce.model.layers import EPSILON, DecoderLayer, EncoderLayer
from transduce.model.positions import LearnedPositions, sinusoids


class Embedding(nn.Module):
    """Pieces as vectors, scaled by sqrt(d_model), plus their positions, then dropout: sections 3.4, 3.5 and 5.4.

    The matrix also is the linear map before the softmax (section 3.4): `logits` of a model.
    """

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, config.d_model))
        self.positions: LearnedPositions | None = (
            LearnedPositions(config) if config.positions == "learned" else None
        )
        self.dropout = Dropout(config.dropout)

    def forward(
        self, ids: Int[Tensor, "batch position"], start: int = 0
    ) -> Float[Tensor, "batch position d_model"]:
        """The vectors of pieces that stand at positions start, start+1, ..."""
        ids = ids.to(self.weight.device, non_blocking=True)
        d_model, length = self.weight.shape[1], ids.shape[1]
        if self.positions is None:
            positions = sinusoids(start, length, d_model, ids.device).to(self.weight.dtype)
        else:
            positions = self.positions(start, length)
        return self.dropout(F.embedding(ids, self.weight) * math.sqrt(d_model) + positions)


class Decoder(nn.Module):
    """The stack on the right of Figure 1, with or without attention to a source."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.n_layers))
        self.norm = final_norm(config)

    def start(
        self,
        memory: Float[Tensor, "batch source d_model"] | None = None,
        source_mask: Bool[Tensor, "batch source"] | None = None,
    ) -> Cache:
        """The cache before the first target piece."""
        layers = (
            layer for layer in self.layers if isinstance(layer, DecoderLayer)
        )  # all, for the type checker
        return Cache(tuple(layer.start(memory) for layer in layers), source_mask=source_mask)

    def forward(
        self, x: Float[Tensor, "batch target d_model"], cache: Cache
    ) -> tuple[Float[Tensor, "batch target d_model"], Cache]:
        """Read the new positions and remember them."""
        n_new = x.shape[1]
        target_mask = (
            causal_mask(n_new, cache.length + n_new, x.device) if n_new > 1 else None
        )  # one may see all
        source_mask = padding_mask(cache.source_mask) if cache.source_mask is not None else None
        layers = []
        for layer, layer_cache in zip(self.layers, cache.layers, strict=True):
            x, layer_cache = layer(x, layer_cache, target_mask, source_mask)
            layers.append(layer_cache)
        return self.norm(x), Cache(tuple(layers), cache.length + n_new, cache.source_mask)


class Transformer(nn.Module):
    """The paper's encoder-decoder, section 3.

    One matrix serves as both embeddings and as the map to logits (section 3.4).
    Departs: with `model.target_vocab_size` the source has its own vocabulary and matrix.
    Departs: learned positions (Table 3, E) live in the embedding, so where that is shared, encoder and decoder share them too.
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
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.n_layers))
        self.encoder_norm = final_norm(config)
        self.decoder = Decoder(config)
        initialise(self)

    def encode(
        self, source: Int[Tensor, "batch source"], source_mask: Bool[Tensor, "batch source"]
    ) -> Float[Tensor, "batch source d_model"]:
        """The source as one vector a piece: what the decoder attends to."""
        x = self.source_embedding(source)
        mask = padding_mask(source_mask.to(x.device))
        for layer in self.encoder:
            x = layer(x, mask)
        return self.encoder_norm(x)

    def start(
        self, source: Int[Tensor, "batch source"], source_mask: Bool[Tensor, "batch source"]
    ) -> Cache:
        """Read the source; the cache before the first target piece."""
        memory = self.encode(source, source_mask)
        return self.decoder.start(memory, source_mask.to(memory.device))

    def decode(
        self, target: Int[Tensor, "batch target"], cache: Cache
    ) -> tuple[Float[Tensor, "batch target d_model"], Cache]:
        """Read the next target pieces; the vectors from which the piece after each is predicted."""
        return self.decoder(self.target_embedding(target, start=cache.length), cache)

    def logits(self, hidden: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch vocab"]:
        """How well each piece of the target vocabulary fits: a dot product with its vector."""
        return F.linear(hidden, self.logit_weight)

    @property
    def logit_weight(self) -> Float[Tensor, "vocab d_model"]:
        """The matrix of the linear map before the softmax."""
        return self.target_embedding.weight

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        source_mask: Bool[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target vocab"]:
        """Predict, at every target position at once, the piece that follows."""
        hidden, _ = self.decode(target, self.start(source, source_mask))
        return self.logits(hidden)


class LanguageModel(nn.Module):
    """The decoder alone: the same layers, predicting the next piece of one text."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = Embedding(config, require_vocab_size(config))
        self.decoder = Decoder(config)
        initialise(self)

    def start(self) -> Cache:
        """The cache before the first piece."""
        return self.decoder.start()

    def decode(
        self, target: Int[Tensor, "batch target"], cache: Cache
    ) -> tuple[Float[Tensor, "batch target d_model"], Cache]:
        """Read the next pieces; the vectors from which the piece after each is predicted."""
        return self.decoder(self.embedding(target, start=cache.length), cache)

    def logits(self, hidden: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch vocab"]:
        """How well each piece of the vocabulary fits: a dot product with its vector."""
        return F.linear(hidden, self.logit_weight)

    @property
    def logit_weight(self) -> Float[Tensor, "vocab d_model"]:
        """The matrix of the linear map before the softmax."""
        return self.embedding.weight

    def forward(self, target: Int[Tensor, "batch target"]) -> Float[Tensor, "batch target vocab"]:
        """Predict, at every position at once, the piece that follows."""
        hidden, _ = self.decode(target, self.start())
        return self.logits(hidden)


def final_norm(config: ModelConfig) -> nn.Module:
    """With pre-norm a stack ends in one more LayerNorm, since its last sum was not normalised."""
    return nn.LayerNorm(config.d_model, eps=EPSILON) if config.norm == "pre" else nn.Identity()


def require_vocab_size(config: ModelConfig) -> int:
    """The size of the (source) vocabulary, which a model cannot be built without."""
    if config.vocab_size is None:
        raise ConfigError(
            "model.vocab_size is not set: a model needs to know how many pieces there are"
        )
    return config.vocab_size


def initialise(model: nn.Module) -> None:
    """Draw the weights, so that post-norm trains stably.

    The paper does not say how. Matrices: Xavier uniform, with q, k and v together counted as one matrix (gain 1/sqrt(2)), which
    keeps early attention flat. Embeddings: normal with deviation d_model^-0.5, so that they have size 1 after the scaling
    of section 3.4 and logits have size 1 too. Biases zero.
    """
    if any(parameter.is_meta for parameter in model.parameters()):
        return  # no numbers yet; to draw them there torch would load its compiler, which takes seconds
    for name, parameter in model.named_parameters():
        part = name.split(".")[-2]
        if parameter.dim() == 1:
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
        elif part.endswith("embedding") or part == "positions":
            nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
        else:
            nn.init.xavier_uniform_(
                parameter, gain=2**-0.5 if part in ("w_q", "w_k", "w_v") else 1.0
            )


def count_parameters(model: nn.Module) -> dict[str, int]:
    """Trainable numbers by part, in the order of Figure 1; a shared matrix is counted once, at its first use."""
    counts: dict[str, int] = {}
    for name, parameter in model.named_parameters():  # gives a shared parameter once
        path = [word for word in name.split(".") if not word.isdigit() and word != "layers"]
        part = "norms" if "norm" in name else path[1] if len(path) > 2 else "matrix"
        stack = path[0].removesuffix("_norm")
        counts[f"{stack} {part}"] = counts.get(f"{stack} {part}", 0) + parameter.numel()
    return counts
