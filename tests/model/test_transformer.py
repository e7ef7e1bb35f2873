import pytest
import torch
from torch import nn

from transduce.config import ModelConfig
from transduce.errors import ConfigError
from transduce.model import LanguageModel, Transformer
from transduce.model.layers import AddAndNorm, DecoderLayer, EncoderLayer
from transduce.model.transformer import count_parameters

VARIANTS = [
    {},
    {"norm": "pre"},
    {"positions": "learned"},
    {"target_vocab_size": 43},
    {"attention_bias": True, "activation": "gelu"},
    {"tied_output": False, "logit_bias": True, "embedding_scale": False},
    {"n_layers_decoder": 3, "d_ff_decoder": 19, "n_heads_decoder": 2},
]


def random_ids(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(4, 41, shape, generator=torch.Generator().manual_seed(seed))


def make(config: ModelConfig, **changes: object) -> Transformer:
    torch.manual_seed(0)
    return Transformer(ModelConfig(**{**config.model_dump(), **changes})).eval()


def all_real(source: torch.Tensor) -> torch.Tensor:
    return torch.ones_like(source, dtype=torch.bool)


def copy_attention(ours: nn.Module, theirs: nn.MultiheadAttention) -> None:
    theirs.in_proj_weight.copy_(torch.cat((ours.w_q.weight, ours.w_k.weight, ours.w_v.weight)))
    theirs.in_proj_bias.zero_()
    theirs.out_proj.weight.copy_(ours.w_o.weight)
    theirs.out_proj.bias.zero_()


def copy_layer(ours: EncoderLayer | DecoderLayer, theirs: nn.Module) -> None:
    copy_attention(ours.self_attention, theirs.self_attn)
    norms = [ours.self_attention_norm.norm, ours.feed_forward_norm.norm]
    if isinstance(ours, DecoderLayer):
        copy_attention(ours.cross_attention, theirs.multihead_attn)
        norms.insert(1, ours.cross_attention_norm.norm)
    for number, norm in enumerate(norms, start=1):
        getattr(theirs, f"norm{number}").load_state_dict(norm.state_dict())
    theirs.linear1.load_state_dict(ours.feed_forward.w_1.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.w_2.state_dict())


@torch.no_grad()
def test_logits_equal_those_of_pytorchs_own_stacks() -> None:
    """nn.TransformerEncoder and nn.TransformerDecoder give the same logits, within 1e-5."""
    torch.manual_seed(0)
    ours = Transformer(
        ModelConfig(vocab_size=41, n_layers=3, d_model=26, d_ff=37, n_heads=2)
    ).eval()
    for parameter in ours.parameters():  # norms and biases too, so that a missing one shows
        parameter.add_(0.1 * torch.randn_like(parameter))
    shape = {
        "d_model": 26,
        "nhead": 2,
        "dim_feedforward": 37,
        "layer_norm_eps": ours.config.norm_epsilon,
        "batch_first": True,
    }
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(**shape), 3, norm=None, enable_nested_tensor=False
    ).eval()
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**shape), 3, norm=None).eval()
    for stack, layers in ((ours.encoder, encoder.layers), (ours.decoder.layers, decoder.layers)):
        for our_layer, their_layer in zip(stack, layers, strict=True):
            copy_layer(our_layer, their_layer)
    source, target = random_ids(5, 11), random_ids(5, 7, seed=1)
    source_mask = torch.arange(11) < torch.tensor([[11], [7], [3], [1], [10]])

    memory = encoder(ours.source_embedding(source), src_key_padding_mask=~source_mask)
    causal = nn.Transformer.generate_square_subsequent_mask(7)
    embedded = ours.target_embedding(target)
    hidden = decoder(
        embedded, memory, tgt_mask=causal, tgt_is_causal=True, memory_key_padding_mask=~source_mask
    )
    theirs = hidden @ ours.target_embedding.weight.T
    torch.testing.assert_close(ours(source, source_mask, target), theirs, atol=1e-5, rtol=0)


@pytest.mark.parametrize("changes", VARIANTS)
def test_decoding_token_by_token_with_the_cache_equals_reading_all_at_once(
    model_config: ModelConfig, changes: dict[str, object]
) -> None:
    model = make(model_config, **changes)
    source, target = random_ids(3, 11), random_ids(3, 7, seed=1)
    mask = torch.arange(11) < torch.tensor([[11], [5], [2]])
    at_once = model(source, mask, target)
    cache = model.start(source, mask)
    for t in range(7):
        hidden, cache = model.decode(target[:, t : t + 1], cache)
        torch.testing.assert_close(model.logits(hidden)[:, 0], at_once[:, t], atol=1e-5, rtol=0)
    assert cache.length == 7


@pytest.mark.parametrize("changes", VARIANTS)
def test_a_future_token_changes_no_earlier_logit(
    model_config: ModelConfig, changes: dict[str, object]
) -> None:
    model = make(model_config, **changes)
    source, target = random_ids(2, 5), random_ids(2, 7, seed=1)
    changed = target.clone()
    changed[:, 4] = (changed[:, 4] - 3) % 37 + 4
    before, after = (
        model(source, all_real(source), target),
        model(source, all_real(source), changed),
    )
    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4], after[:, 4])


@pytest.mark.parametrize("changes", VARIANTS)
def test_more_padding_changes_nothing(
    model_config: ModelConfig, changes: dict[str, object]
) -> None:
    model = make(model_config, **changes)
    source, target = random_ids(2, 5), random_ids(2, 7, seed=1)
    padded = torch.cat((source, torch.zeros(2, 6, dtype=torch.long)), dim=1)
    logits = model(source, all_real(source), target)
    torch.testing.assert_close(model(padded, padded != 0, target), logits, atol=1e-5, rtol=0)


def test_a_sentence_gets_the_same_result_in_a_batch_as_alone(model: Transformer) -> None:
    source, target = random_ids(5, 7), random_ids(5, 3, seed=1)
    together = model(source, all_real(source), target)
    for i in range(5):
        alone = model(source[i : i + 1], all_real(source[i : i + 1]), target[i : i + 1])
        torch.testing.assert_close(alone[0], together[i], atol=1e-5, rtol=0)


def test_the_same_matrix_is_both_embeddings_and_the_map_to_logits(model: Transformer) -> None:
    names = [name for name, _ in model.named_parameters() if "embedding" in name]
    assert names == ["source_embedding.weight"]
    hidden = torch.randn(3, 22)
    torch.testing.assert_close(model.logits(hidden), hidden @ model.source_embedding.weight.T)


def test_embeddings_are_scaled_by_the_root_of_d_model(model: Transformer) -> None:
    ids = random_ids(1, 5)
    difference = model.source_embedding(ids) - model.source_embedding(torch.zeros_like(ids))
    weight = model.source_embedding.weight
    torch.testing.assert_close(
        difference[0], (weight[ids[0]] - weight[0]) * 22**0.5, atol=1e-5, rtol=0
    )


def test_a_language_model_of_the_same_layers_sees_no_future_and_caches_exactly() -> None:
    torch.manual_seed(0)
    config = ModelConfig(
        kind="decoder-only", vocab_size=41, n_layers=2, d_model=22, d_ff=37, n_heads=2, norm="pre"
    )
    model = LanguageModel(config).eval()
    text = random_ids(3, 11)
    at_once = model(text)
    changed = text.clone()
    changed[:, 6] = 4
    assert torch.equal(model(changed)[:, :6], at_once[:, :6])
    cache = model.start()
    for t in range(11):
        hidden, cache = model.decode(text[:, t : t + 1], cache)
        torch.testing.assert_close(model.logits(hidden)[:, 0], at_once[:, t], atol=1e-5, rtol=0)
    assert not any("cross" in name for name, _ in model.named_parameters())


def test_dropout_acts_in_training_only(model_config: ModelConfig) -> None:
    model = make(model_config, dropout=0.5)
    source, target = random_ids(2, 5), random_ids(2, 7, seed=1)
    assert torch.equal(
        model(source, all_real(source), target), model(source, all_real(source), target)
    )
    model.train()
    assert not torch.allclose(
        model(source, all_real(source), target), model(source, all_real(source), target)
    )


def test_dropout_applies_to_the_output_of_a_sublayer_before_it_is_added(
    model_config: ModelConfig,
) -> None:
    """Section 5.4: with nearly everything dropped, LayerNorm(x + Dropout(y)) is LayerNorm(x)."""
    layer = AddAndNorm(ModelConfig(**{**model_config.model_dump(), "dropout": 0.999999})).train()
    x, y = torch.randn(2, 5, 22), torch.randn(2, 5, 22)
    torch.testing.assert_close(layer(x, y), layer.norm(x))
    assert not torch.allclose(layer.eval()(x, y), layer.norm(x))


def test_dropout_applies_to_the_sum_of_embedding_and_position(model_config: ModelConfig) -> None:
    embedding = make(model_config, dropout=0.5).source_embedding.train()
    ids = random_ids(3, 50)
    dropped, whole = embedding(ids), embedding.eval()(ids)
    kept = dropped != 0
    assert 0.4 < kept.float().mean() < 0.6
    torch.testing.assert_close(dropped[kept], 2 * whole[kept])


def test_a_model_in_bfloat16_runs(model: Transformer) -> None:
    source, target = random_ids(2, 5), random_ids(2, 7)
    assert model.bfloat16()(source, all_real(source), target).dtype == torch.bfloat16


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_fresh_weights_give_logits_of_size_one(norm: str) -> None:
    """The first loss is then close to ln(vocabulary), and a deep post-norm stack can learn."""
    torch.manual_seed(0)
    model = Transformer(
        ModelConfig(vocab_size=997, n_layers=6, d_model=128, d_ff=256, n_heads=4, norm=norm)
    ).eval()
    source, target = torch.randint(4, 997, (4, 23)), torch.randint(4, 997, (4, 19))
    assert 0.5 < model(source, all_real(source), target).std().item() < 2.0


def test_fresh_queries_keys_and_values_are_drawn_as_one_matrix() -> None:
    """Xavier uniform: the bound is sqrt(6 / (inputs + outputs)), with three times the outputs."""
    torch.manual_seed(0)
    model = Transformer(ModelConfig(vocab_size=41, n_layers=1, d_model=96, d_ff=150, n_heads=3))
    for attention in (model.encoder[0].self_attention, model.decoder.layers[0].cross_attention):
        for matrix, n_outputs in (
            (attention.w_q, 3 * 96),
            (attention.w_k, 3 * 96),
            (attention.w_v, 3 * 96),
            (attention.w_o, 96),
        ):
            bound = (6 / (96 + n_outputs)) ** 0.5
            assert 0.99 * bound < matrix.weight.abs().max().item() <= bound


def test_a_model_without_a_vocabulary_size_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"model\.vocab_size is not set"):
        Transformer(ModelConfig())


def test_parts_add_up_to_all_parameters(model: Transformer) -> None:
    assert sum(count_parameters(model).values()) == sum(
        parameter.numel() for parameter in model.parameters()
    )
