import math
import os
from pathlib import Path

import pytest

from transduce.config import (
    Config,
    StackShape,
    differences,
    parse_assignment,
    read_toml,
    resolve,
    setting_names,
    to_toml,
)
from transduce.errors import ConfigError, MissingInputError
from transduce.presets import PRESETS, RECIPES

SETTINGS = """
text.kind text.vocab_size text.joint text.normalization text.languages text.dropout
text.source_prefix
data.batch_tokens data.max_length data.valid_pairs
model.kind model.vocab_size model.target_vocab_size model.n_layers
model.n_layers_decoder model.d_model model.d_ff model.d_ff_decoder model.n_heads
model.n_heads_decoder model.d_k model.d_v model.attention_bias model.activation
model.embedding_scale model.tied_output model.logit_bias
model.dropout model.norm model.norm_epsilon model.positions model.window model.max_positions
train.steps train.warmup_steps train.learning_rate train.schedule train.label_smoothing
train.consistency train.accumulate train.clip_norm train.validate_every train.save_every
train.average_last train.patience train.start_share train.better_by train.seed train.precision
decode.beam decode.alpha decode.length_penalty decode.max_length
"""


def test_the_list_of_settings_changes_only_on_purpose() -> None:
    assert setting_names() == SETTINGS.split()


def test_later_layers_override_earlier_ones() -> None:
    config = resolve({"train": {"steps": 5, "seed": 3}}, {"train": {"steps": 7}})
    assert (config.train.steps, config.train.seed) == (7, 3)


def test_bpe_dropout_with_a_source_prefix_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"this model puts >>fra<< before each source, which BPE"):
        resolve({"text": {"dropout": 0.1, "source_prefix": [">>fra<<"]}})


def test_every_setting_has_a_description() -> None:
    for name in setting_names():
        section, key = name.split(".")
        assert getattr(Config(), section).__class__.model_fields[key].description


def test_the_decoder_has_the_sizes_of_the_encoder_unless_they_are_set() -> None:
    model = resolve({"model": {"n_layers": 5, "d_model": 96, "d_ff": 37, "n_heads": 4}}).model
    assert model.encoder == model.decoder == StackShape(5, 37, 4, key_size=24, value_size=24)
    decoder = {"n_layers_decoder": 2, "d_ff_decoder": 31, "n_heads_decoder": 3}
    model = resolve({"model": {"n_layers": 5, "d_model": 96, "d_ff": 37, "n_heads": 4, **decoder}})
    assert model.model.encoder == StackShape(5, 37, 4, key_size=24, value_size=24)
    assert model.model.decoder == StackShape(2, 31, 3, key_size=32, value_size=32)
    fixed = resolve({"model": {"n_heads": 4, "n_heads_decoder": 7, "d_k": 5, "d_v": 3}}).model
    assert fixed.decoder == StackShape(6, 2048, 7, key_size=5, value_size=3)


def test_settings_survive_a_round_trip_through_toml(tmp_path: Path) -> None:
    config = resolve(
        {
            "train": {"learning_rate": 0.0035, "steps": 12},
            "model": {"norm": "pre", "vocab_size": 100},
        }
    )
    (tmp_path / "run.toml").write_text(to_toml(config))
    assert resolve(read_toml(tmp_path / "run.toml")) == config


@pytest.mark.parametrize(
    ("text", "layer"),
    [
        ("train.steps=500", {"train": {"steps": 500}}),
        ("model.norm=pre", {"model": {"norm": "pre"}}),
        ('model.norm="pre"', {"model": {"norm": "pre"}}),
        ("text.joint = false", {"text": {"joint": False}}),
        ("train.learning_rate=3e-4", {"train": {"learning_rate": 3e-4}}),
    ],
)
def test_assignments_are_toml_values_or_bare_words(text: str, layer: object) -> None:
    assert parse_assignment(text) == layer


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("train.stepps=5", "unknown setting 'train.stepps': did you mean 'train.steps'"),
        ("steps=5", "unknown setting 'steps': did you mean 'train.steps'"),
        ("model.beam=5", "unknown setting 'model.beam': did you mean 'decode.beam'"),
        ("train.steps", "--set 'train.steps': expected section.key=value"),
    ],
)
def test_an_unknown_setting_names_the_nearest(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_assignment(text)


def test_an_unknown_setting_in_a_file_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("[model]\nd_modle = 512\n")
    with pytest.raises(
        ConfigError, match=r"unknown setting 'model.d_modle': did you mean 'model.d_model'"
    ):
        resolve(read_toml(tmp_path / "a.toml"))
    (tmp_path / "a.toml").write_text("stpes = 512\n")
    with pytest.raises(ConfigError, match=r"unknown setting 'stpes': did you mean"):
        resolve(read_toml(tmp_path / "a.toml"))


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ({"train": {"steps": "many"}}, r"train.steps is 'many': expected a valid integer"),
        (
            {"train": {"steps": 0}},
            r"train.steps is 0: expected a number greater than or equal to 1",
        ),
        ({"model": {"norm": "middle"}}, r"model.norm is 'middle': expected 'post' or 'pre'"),
        ({"model": {"d_model": 511}}, r"model.d_model is 511: expected an even number"),
        (
            {"model": {"d_model": 100, "n_heads": 8}},
            r"model.d_model is 100 and model.n_heads is 8: .* or set model.d_k and",
        ),
        (
            {"model": {"d_model": 96, "n_heads": 8, "n_heads_decoder": 5}},
            r"model.d_model is 96 and model.n_heads_decoder is 5: "
            r"d_model must be divisible by n_heads_decoder, or set model.d_k and model.d_v",
        ),
        (
            {"model": {"kind": "decoder-only", "n_layers_decoder": 3}},
            r"model.n_layers_decoder is 3, but a language model has a single stack; "
            r"set model.n_layers",
        ),
        ({"modle": {}}, r"unknown setting 'modle': did you mean"),
        (
            {"model": {"positions": "learned", "max_positions": 256}},
            r"model.max_positions is 256 and data.max_length is 256: max_positions must be greater",
        ),
        ({"train": {"learning_rate": float("nan")}}, r"train.learning_rate is nan"),
        ({"train": {"accumulate": 1e21}}, r"train.accumulate is 1e\+21: the number is too large"),
        (
            {"train": {"accumulate": 1025}},
            r"train.accumulate is 1025: expected a number less than or equal to 1024",
        ),
        (
            {"train": {"steps": 1 << 20_000}},
            r"train.steps is an int that is too large to show: expected a number less than",
        ),
        ({"train": {"steps": "9" * 5000}}, r"train.steps is '9{79}\.\.\.: the number is too large"),
    ],
)
def test_an_invalid_setting_is_reported_with_the_value_found_and_the_value_expected(
    layer: dict[str, dict[str, object]], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve(layer)


def numeric_settings() -> dict[str, dict[str, float]]:
    """The JSON schema of each setting that is a number, by dotted name."""
    schema = Config.model_json_schema()
    found = {}
    for name in setting_names():
        section, key = name.split(".")
        title = getattr(Config(), section).__class__.__name__
        field = schema["$defs"][title]["properties"][key]
        for choice in field.get("anyOf", [field]):
            if choice.get("type") in ("integer", "number"):
                found[name] = choice
    return found


@pytest.mark.parametrize("name", numeric_settings())
def test_every_number_has_a_lower_and_an_upper_bound(name: str) -> None:
    schema = numeric_settings()[name]
    bounds = [schema.get("minimum", schema.get("exclusiveMinimum"))]
    bounds.append(schema.get("maximum", schema.get("exclusiveMaximum")))
    assert all(bound is not None and math.isfinite(bound) for bound in bounds), bounds
    section, key = name.split(".")
    for beyond in (bounds[0] - 1, bounds[1] + 1):
        with pytest.raises(ConfigError, match=rf"{name} is .*: expected a number (less|greater)"):
            resolve({section: {key: beyond}})


def test_the_numbers_of_a_setting_are_those_this_file_looks_at() -> None:
    """A new number is found by its type, not by a list that someone keeps."""
    assert {"train.accumulate", "decode.max_length", "model.dropout"} <= numeric_settings().keys()
    assert not {"text.kind", "text.joint", "text.languages"} & numeric_settings().keys()


@pytest.mark.parametrize("value", ["9" * 5000, "[" * 100_000], ids=["digits", "brackets"])
def test_a_value_that_no_parser_reads_is_an_error_of_one_short_line(
    value: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"train\.steps is '") as found:
        resolve(parse_assignment(f"train.steps={value}"))
    assert len(str(found.value)) < 200
    (tmp_path / "run.toml").write_text(f"[train]\nsteps = {value}\n")
    with pytest.raises(ConfigError, match=r"run\.toml is not valid TOML") as found:
        resolve(read_toml(tmp_path / "run.toml"))
    assert len(str(found.value)) < 300


def test_presets_and_published_recipes_are_within_the_bounds() -> None:
    for settings in (*PRESETS.values(), *RECIPES.values()):
        resolve(settings)
    recipes = list((Path(__file__).parent.parent / "results").rglob("*.toml"))
    assert recipes
    for path in recipes:
        resolve(read_toml(path))


def test_explicit_head_sizes_need_no_divisible_d_model() -> None:
    assert (
        resolve(
            {"model": {"d_model": 100, "n_heads": 8, "d_k": 7, "d_v": 5}}
        ).model.encoder.key_size
        == 7
    )


def test_differences_are_listed_by_name() -> None:
    old, new = (
        resolve({"train": {"steps": 1}}),
        resolve({"train": {"steps": 2}, "decode": {"beam": 7}}),
    )
    assert differences(old.model_dump(), new.model_dump()) == [
        "train.steps: 1 -> 2",
        "decode.beam: 4 -> 7",
    ]


def test_a_missing_or_broken_settings_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="cannot be read: Is a directory"):
        read_toml(tmp_path)
    with pytest.raises(MissingInputError, match=r"no settings file .*gone\.toml"):
        read_toml(tmp_path / "gone.toml")
    (tmp_path / "broken.toml").write_text("[model\n")
    with pytest.raises(ConfigError, match=r"broken\.toml is not valid TOML"):
        read_toml(tmp_path / "broken.toml")


def test_consistency_without_dropout_is_rejected() -> None:
    message = (
        r"train\.consistency is 5\.0 and model\.dropout is 0: "
        r"without dropout both passes are identical; set"
    )
    with pytest.raises(ConfigError, match=message):
        resolve({"train": {"consistency": 5}, "model": {"dropout": 0}})


def test_half_a_surrogate_pair_is_refused_before_any_work() -> None:
    with pytest.raises(
        ConfigError, match=r"text\.languages\.0 is '.udcff': expected a valid string"
    ):
        resolve({"text": {"languages": ["\udcff", "it"]}})


def test_a_file_too_large_for_settings_is_not_read_to_its_end(tmp_path: Path) -> None:
    huge = tmp_path / "run.toml"
    huge.touch()
    os.truncate(huge, 1 << 40)
    for path in (huge, Path("/dev/zero")):
        with pytest.raises(ConfigError, match="has more than 16 MB; expected a file of settings"):
            read_toml(path)
