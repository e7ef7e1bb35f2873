"""Models of all shapes: cached decoding, loss, training, saving."""

from pathlib import Path

import pytest
import torch

from tests.shapes import Shape, name_of, random_shapes
from tests.training.test_loop import run, short
from transduce.config import ModelConfig
from transduce.data.batch import collate, encode_example
from transduce.evaluation.likelihood import loss
from transduce.model import Transformer
from transduce.model.transformer import count_parameters
from transduce.model.weights import (
    build,
    build_from_bytes,
    pack_weights,
    weight_shapes,
    weights_of,
)

LANGUAGE_MODEL = {
    "kind": "decoder-only",
    "vocab_size": 61,
    "d_model": 22,
    "n_layers": 3,
    "d_ff": 19,
    "n_heads": 11,
    "attention_bias": True,
    "activation": "swish",
    "embedding_scale": False,
    "tied_output": False,
    "logit_bias": True,
}
every_shape = pytest.mark.parametrize("shape", random_shapes(8, seed=7), ids=name_of)


def make(shape: Shape) -> Transformer:
    """Return a model in which every norm and every bias matters."""
    torch.manual_seed(3)
    model = Transformer(ModelConfig(**shape)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def random_ids(*size: int, seed: int) -> torch.Tensor:
    return torch.randint(4, 53, size, generator=torch.Generator().manual_seed(seed))


@every_shape
def test_decoding_with_the_cache_equals_reading_all_at_once(shape: Shape) -> None:
    model = make(shape)
    source, target = random_ids(3, 11, seed=1), random_ids(3, 7, seed=2)
    mask = torch.arange(11) < torch.tensor([[11], [5], [2]])
    at_once = model(source, mask, target)
    cache = model.start(source, mask)
    for t in range(7):
        hidden, cache = model.decode(target[:, t : t + 1], cache)
        torch.testing.assert_close(model.logits(hidden)[:, 0], at_once[:, t], atol=1e-5, rtol=1e-5)


@every_shape
def test_the_loss_is_the_mean_negative_log_probability(shape: Shape) -> None:
    model = make(shape)
    examples = [
        encode_example(random_ids(n, seed=n).tolist(), random_ids(m, seed=m).tolist())
        for n, m in ((3, 7), (11, 2), (5, 5))
    ]
    log_probs = []
    with torch.inference_mode():
        for each in examples:
            batch = collate([each])
            rows = torch.log_softmax(model(batch.source, batch.source_mask, batch.target_in), -1)
            log_probs += rows.gather(2, batch.target_out[:, :, None]).flatten().tolist()
    assert loss(model, examples).value == pytest.approx(-sum(log_probs) / len(log_probs), abs=1e-5)


@every_shape
def test_two_steps_of_training_change_every_weight(shape: Shape, tmp_path: Path) -> None:
    torch.manual_seed(3)
    model = Transformer(ModelConfig(**{**shape, "vocab_size": 300, "target_vocab_size": None}))
    before = {name: weight.clone() for name, weight in weights_of(model).items()}
    run(model, tmp_path, short(steps=2))
    same = [name for name, weight in weights_of(model).items() if torch.equal(weight, before[name])]
    assert same == []


@pytest.mark.parametrize("shape", [*random_shapes(8, seed=7), LANGUAGE_MODEL], ids=name_of)
def test_names_and_shapes_of_the_weights_are_known_without_building_the_model(
    shape: Shape,
) -> None:
    config = ModelConfig(**shape)
    model = build(config)
    weights = weights_of(model)
    assert weight_shapes(config) == {name: weight.shape for name, weight in weights.items()}
    assert sum(count_parameters(model).values()) == sum(each.numel() for each in weights.values())
    loaded = build_from_bytes(config, pack_weights(model, "float32"), Path("weights"))
    assert all(torch.equal(weights[name], each) for name, each in weights_of(loaded).items())


def test_a_language_model_of_another_shape_caches_exactly() -> None:
    torch.manual_seed(0)
    model = build(ModelConfig(**LANGUAGE_MODEL)).eval()
    text = random_ids(3, 11, seed=1)
    at_once, cache = model(text), model.start()
    for t in range(11):
        hidden, cache = model.decode(text[:, t : t + 1], cache)
        torch.testing.assert_close(model.logits(hidden)[:, 0], at_once[:, t], atol=1e-5, rtol=1e-5)
