"""Random shapes of a MarianMT model: every setting that a MarianConfig has, with odd sizes."""

import random
from typing import Any

import torch

from transduce.config import ModelConfig
from transduce.model import Transformer

Shape = dict[str, Any]


def random_shapes(n: int, seed: int, **fixed: Any) -> list[Shape]:
    """Draw `n` sets of model settings; `fixed` are settings that all of them have."""
    draw = random.Random(seed)
    return [{**draw_shape(draw), **fixed} for _ in range(n)]


def draw_shape(draw: random.Random) -> Shape:
    heads, heads_decoder = draw.choice([(1, 3), (3, 1), (2, 3), (5, 2), (3, 3), (2, 2), (7, 1)])
    return {
        "vocab_size": draw.choice([61, 67, 101]),
        "target_vocab_size": draw.choice([None, None, 53, 71]),
        "d_model": heads * heads_decoder * 2 * draw.choice([2, 3, 5]),
        "n_layers": draw.randint(1, 4),
        "n_layers_decoder": draw.choice([None, 1, 2, 5]),
        "d_ff": draw.choice([19, 31, 37]),
        "d_ff_decoder": draw.choice([None, 23, 41]),
        "n_heads": heads,
        "n_heads_decoder": heads_decoder,
        "attention_bias": draw.random() < 0.7,
        "activation": draw.choice(["relu", "gelu", "swish"]),
        "norm_epsilon": draw.choice([1e-6, 1e-5, 0.01]),
        "embedding_scale": draw.random() < 0.7,
        "tied_output": draw.random() < 0.6,
        "logit_bias": draw.random() < 0.7,
        "dropout": 0.0,
    }


def random_model(shape: Shape) -> Transformer:
    """Return a model in which every norm and every bias matters."""
    torch.manual_seed(3)
    model = Transformer(ModelConfig(**shape)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def name_of(shape: Shape) -> str:
    """Return a name of a shape for a test."""
    return "-".join(str(value) for value in shape.values()) or "paper"
