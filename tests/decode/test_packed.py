"""A packed model gives the numbers of the model it was made of."""

import pytest
import torch

from transduce.decode.packed import Packed, can_pack
from transduce.model import ModelConfig, Transformer

SHAPE = ModelConfig(vocab_size=53, n_layers=2, d_model=22, d_ff=37, n_heads=3, d_k=7, d_v=5, dropout=0.3)


@pytest.fixture
def model() -> Transformer:
    torch.manual_seed(1)
    return Transformer(SHAPE).eval()


def read_step_by_step(model: Transformer) -> torch.Tensor:
    """The logits of five target pieces of three sentences, one piece at a time."""
    random = torch.Generator().manual_seed(2)
    source, target = (torch.randint(4, 53, (3, n), generator=random) for n in (11, 5))
    cache, found = model.start(source, torch.ones(3, 11, dtype=torch.bool)), []
    for piece in target.T:
        hidden, cache = model.decode(piece[:, None], cache)
        found.append(model.logits(hidden[:, 0]))
    return torch.stack(found)


def test_a_packed_model_gives_the_same_logits(model: Transformer) -> None:
    with torch.inference_mode():
        packed = Packed(model).get()
        assert packed is not model
        torch.testing.assert_close(read_step_by_step(packed), read_step_by_step(model), rtol=1e-5, atol=1e-5)


def test_weights_that_change_are_packed_anew(model: Transformer) -> None:
    packed = Packed(model)
    before = packed.get()
    assert packed.get() is before
    with torch.no_grad():
        model.decoder.layers[1].feed_forward.w_2.bias += 1  # type: ignore[operator, union-attr]
    with torch.inference_mode():
        torch.testing.assert_close(read_step_by_step(packed.get()), read_step_by_step(model), rtol=1e-5, atol=1e-5)


def test_a_model_that_trains_is_left_alone(model: Transformer) -> None:
    assert can_pack(model)
    assert Packed(model.train()).get() is model


def test_where_onednn_is_missing_the_model_itself_searches(model: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert Packed(model).get() is model
