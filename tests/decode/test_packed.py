"""A packed model gives the numbers of the model it was made of."""

import pytest
import torch

from transduce.decode.load import load
from transduce.decode.packed import can_pack, pack
from transduce.model import ModelConfig, Transformer
from transduce.text.vocabulary import EOS

SHAPE = ModelConfig(
    vocab_size=53, n_layers=2, d_model=22, d_ff=37, n_heads=3, d_k=7, d_v=5, dropout=0.3
)


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
        torch.testing.assert_close(
            read_step_by_step(pack(model)), read_step_by_step(model), rtol=1e-5, atol=1e-5
        )


def test_an_engine_notices_that_weights_have_changed() -> None:
    """The built-in model, then the same engine with [EOS] made the likeliest piece of all."""
    translator = load(engine="torch")
    assert translator.translate(["I love you very much"], beam=1)[0].text == "Ti amo molto"
    norm = translator.model.decoder.layers[-1].feed_forward_norm.norm
    with torch.no_grad():
        norm.weight.zero_()
        norm.bias.copy_(100 * translator.model.logit_weight[EOS])
    assert translator.translate(["I love you very much"], beam=1)[0].text == ""


def test_only_a_model_that_does_not_train_is_packed_and_only_where_there_is_onednn(
    model: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert can_pack(model)
    assert not can_pack(model.train())
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert not can_pack(model.eval())
    assert load(engine="torch").translate(["I love you very much"])[0].text == "Ti amo molto"
