import pytest
import torch

from transduce.config import ModelConfig, resolve
from transduce.errors import ConfigError
from transduce.model import Transformer
from transduce.presets import (
    PAPER_MILLIONS,
    PRESETS,
    TABLE_3,
    preset,
    preset_for_pairs,
    propose,
    propose_text,
)


def model_config(name: str, vocab_size: int) -> ModelConfig:
    return resolve(preset(name), {"model": {"vocab_size": vocab_size}}).model


def count(config: ModelConfig) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in Transformer(config).parameters())


def count_by_hand(c: ModelConfig) -> int:
    """Count the parameters of a Transformer from its shape.

    It has one shared embedding matrix, attention without biases, feed-forward layers with biases,
    and a gain and a bias per LayerNorm.
    """
    assert c.vocab_size is not None
    attention = c.n_heads * c.d_model * (2 * c.encoder.key_size + 2 * c.encoder.value_size)
    feed_forward = 2 * c.d_model * c.d_ff + c.d_ff + c.d_model
    norm = 2 * c.d_model
    encoder_layer, decoder_layer = (
        attention + feed_forward + 2 * norm,
        2 * attention + feed_forward + 3 * norm,
    )
    learned = c.max_positions * c.d_model if c.positions == "learned" else 0
    return c.vocab_size * c.d_model + learned + c.n_layers * (encoder_layer + decoder_layer)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_has_the_parameters_that_arithmetic_gives(name: str) -> None:
    config = model_config(name, 37_000)
    assert count(config) == count_by_hand(config)


@pytest.mark.parametrize("name", PAPER_MILLIONS)
def test_rows_of_table_3_fit_the_paper_at_41000_tokens_and_big_at_35900(name: str) -> None:
    """The paper states about 37,000 tokens; its printed counts need 41,000 (big: 35,900)."""
    vocab_size = 35_900 if name == "big" else 41_000
    assert count(model_config(name, vocab_size)) / 1e6 == pytest.approx(
        PAPER_MILLIONS[name], abs=0.55
    )


def test_with_37000_tokens_base_has_two_million_parameters_fewer_than_printed() -> None:
    assert count(model_config("base", 37_000)) == 63_045_632


def test_table_3_has_a_preset_for_every_row_a_to_e() -> None:
    assert {row: sum(name.startswith(row) for name in TABLE_3) for row in "ABCDE"} == {
        "A": 4,
        "B": 2,
        "C": 7,
        "D": 4,
        "E": 1,
    }


def test_rows_a_keep_heads_times_head_size_constant() -> None:
    for name in TABLE_3:
        if name.startswith("A"):
            config = model_config(name, 37_000)
            stack = config.encoder
            assert stack.n_heads * stack.key_size == stack.n_heads * stack.value_size == 512


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_a_valid_configuration(name: str) -> None:
    resolve(preset(name))


def test_an_unknown_preset_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="unknown preset 'smal': did you mean 'small'"):
        preset("smal")


def test_larger_corpora_get_larger_models_and_the_choice_depends_on_nothing_else() -> None:
    chosen = [preset_for_pairs(n) for n in (100, 30_000, 500_000, 4_500_000, 36_000_000)]
    assert chosen == ["tiny", "tiny", "small", "base", "big"]
    assert propose(30_000, 450_000, "tiny") == propose(30_000, 450_000, "tiny")


def test_requested_settings_change_the_proposal() -> None:
    """Fewer steps shorten the warm-up, larger batches reduce the steps.

    A requested setting has no reason.
    """
    requested = propose(30_000, 450_000, "tiny", [{"train": {"steps": 100}}])
    assert requested.settings["train"]["warmup_steps"] == 20
    assert "train.steps" not in requested.reasons
    larger = propose(30_000, 450_000, "tiny", [{"data": {"batch_tokens": 8192}}])
    assert (
        larger.settings["train"]["steps"]
        == propose(30_000, 450_000, "tiny").settings["train"]["steps"] // 2
    )


@pytest.mark.parametrize("n_pairs", [1, 50, 5_000, 29_000, 300_000, 40_000_000])
def test_every_proposal_is_a_valid_configuration(n_pairs: int) -> None:
    config = resolve(propose(n_pairs, 14 * n_pairs, preset_for_pairs(n_pairs)).settings)
    assert config.train.warmup_steps < config.train.steps


def test_accumulation_does_not_change_the_number_of_tokens_trained_on() -> None:
    """Four batches per step instead of one give a quarter of the steps."""
    layers = [{"data": {"batch_tokens": 1024}, "train": {"accumulate": n}} for n in (1, 4)]
    steps = [
        propose(30_000, 409_600, "tiny", [layer]).settings["train"]["steps"] for layer in layers
    ]
    assert steps == [24_000, 6000]
    steps = [propose_text(409_600, "tiny", [layer]).settings["train"]["steps"] for layer in layers]
    assert steps == [4000, 1000]
