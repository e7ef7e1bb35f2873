"""Our model can be a MarianMTModel of Hugging Face: the same logits in all its shapes."""

from typing import Any

import pytest
import torch

from tests.marian import marian_of
from tests.shapes import Shape, name_of, random_model, random_shapes
from transduce.data.batch import encode_source, pad
from transduce.model import Transformer
from transduce.text.vocabulary import PAD, SOS

pytest.importorskip("transformers")

SHAPE = {"vocab_size": 61, "n_layers": 2, "d_model": 26, "d_ff": 37, "n_heads": 2, "dropout": 0.0}
SHAPES: list[dict[str, Any]] = [
    {},
    {"norm_epsilon": 0.1},
    {"attention_bias": True},
    {"activation": "gelu"},
    {"activation": "swish"},
    {"n_layers_decoder": 3},
    {"target_vocab_size": 43},
    {"tied_output": False},
    {"logit_bias": True},
    {"embedding_scale": False},
    {"tied_output": False, "logit_bias": True, "target_vocab_size": 43},
    {"n_layers": 3, "n_layers_decoder": 1, "d_ff_decoder": 23, "n_heads_decoder": 13},
]


def random_ids(lengths: list[int], n_tokens: int, seed: int) -> list[list[int]]:
    draw = torch.Generator().manual_seed(seed)
    return [torch.randint(4, n_tokens, (n,), generator=draw).tolist() for n in lengths]


@torch.inference_mode()
def largest_difference(model: Transformer) -> float:
    """Return the largest difference of our logits and Marian's, over sentences with padding."""
    n_target = len(model.target_embedding.weight)
    n_source = len(model.source_embedding.weight)
    source = pad([encode_source(ids) for ids in random_ids([11, 5, 1, 8], n_source, seed=1)])
    target = torch.tensor([[SOS, *ids] for ids in random_ids([7, 7, 7, 7], n_target, seed=2)])
    theirs = marian_of(model)(
        input_ids=source, attention_mask=(source != PAD).long(), decoder_input_ids=target
    ).logits
    return float((model(source, source != PAD, target) - theirs).abs().max())


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "-".join(map(str, shape)) or "paper")
def test_marian_computes_the_same_logits_with_each_setting(shape: dict[str, Any]) -> None:
    assert largest_difference(random_model({**SHAPE, **shape})) < 1e-5


@pytest.mark.parametrize("shape", random_shapes(12, seed=5), ids=name_of)
def test_marian_computes_the_same_logits_in_random_shapes(shape: Shape) -> None:
    assert largest_difference(random_model({**SHAPE, **shape})) < 1e-5
