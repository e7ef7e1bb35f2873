import json
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from transduce.config import Layer
from transduce.data.prepared import describe_inputs, find_prepared, text_settings
from transduce.errors import DataError
from transduce.grammar import generate
from transduce.text.corpus import Pair, PairList, open_pairs
from transduce.training.batches import open_examples
from transduce.training.tasks.pairs import PairsSetup, PairsTask

PAIRS = list(generate("en-it", 300, seed=1))
BLANK = [Pair("", "vuoto"), Pair("empty", " "), Pair("", "")]


@pytest.fixture
def prepare(tmp_path: Path) -> "partial[PairsSetup]":
    def call(
        pairs, valid, preset, settings: list[Layer], log=lambda text: None, name="data"
    ) -> PairsSetup:
        task = PairsTask(PairList(pairs), PairList(valid) if valid is not None else None)
        layers, folder = [task.defaults, *settings], tmp_path / name
        requested = text_settings(layers)
        inputs = describe_inputs(requested, task.fingerprint())
        manifest = find_prepared(folder, inputs)
        manifest = manifest or task.encode(folder, inputs, requested, log)
        return task.set_up(manifest, folder, preset, layers, log)

    return partial(call)


def test_a_single_repeated_pair_cannot_be_split(prepare) -> None:
    with pytest.raises(
        DataError,
        match="7 pairs with 1 different sources are too few to split off a validation set",
    ):
        prepare([Pair("a", "b")] * 7, None, None, [])


@pytest.mark.parametrize("pairs", [[], BLANK])
def test_nothing_to_learn_from_is_an_error(prepare, pairs: list[Pair]) -> None:
    with pytest.raises(
        DataError,
        match=f"no training pair; all of the {len(pairs)} lines are blank on at least one side;",
    ):
        prepare(pairs, None, None, [])


def test_nothing_to_validate_on_is_an_error(prepare) -> None:
    with pytest.raises(
        DataError, match="no validation pair; all lines are blank on at least one side; check"
    ):
        prepare(PAIRS, BLANK, None, [])


def test_the_card_counts_the_lines_with_several_sentences(prepare) -> None:
    said: list[str] = []
    several = [Pair(f"{a.source}. {b.source}", b.target) for a, b in pairwise(PAIRS[:8])]
    setup = prepare([*PAIRS, *several], PAIRS[:5], "nano", [], log=said.append)
    assert (setup.card["pairs"], setup.card["several_sentences"]) == (307, 7)
    assert "7 of the sources have several sentences" in said
    assert prepare(PAIRS, PAIRS[:5], "nano", [], name="single").card["several_sentences"] == 0


def test_a_corpus_prepared_before_the_count_was_kept_is_used_and_has_none(
    prepare, tmp_path: Path
) -> None:
    prepare(PAIRS, None, "nano", [])
    path = tmp_path / "data" / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["several_sentences"]
    path.write_text(json.dumps(manifest))
    said: list[str] = []
    assert "several_sentences" not in prepare(PAIRS, None, "nano", [], log=said.append).card
    assert not any("encoding" in line for line in said)


def test_both_languages_share_a_vocabulary_unless_joint_is_false(prepare) -> None:
    joint, apart = (
        prepare(PAIRS, None, "nano", [{"text": {"joint": joint}}]) for joint in (True, False)
    )
    assert joint.vocabularies.source == joint.vocabularies.target
    assert joint.config.model.target_vocab_size is None
    assert apart.vocabularies.source != apart.vocabularies.target
    assert apart.config.model.target_vocab_size == len(apart.vocabularies.target)


@pytest.mark.parametrize("joint", [True, False])
def test_the_settings_of_a_run_give_the_same_run_again(prepare, joint: bool) -> None:
    first = prepare(PAIRS, None, "nano", [{"text": {"joint": joint}}])
    again = prepare(PAIRS, None, "nano", [first.config.model_dump(exclude_none=True)], name="again")
    assert again.config == first.config


def test_heads_that_suit_the_preset_are_accepted_though_they_do_not_suit_the_default(
    prepare,
) -> None:
    assert (
        prepare(PAIRS, None, "nano", [{"model": {"n_heads": 3}}]).config.model.encoder.key_size
        == 32
    )


def test_validation_pairs_that_are_too_long_are_dropped_and_counted(prepare) -> None:
    said: list[str] = []
    valid = [*PAIRS[:5], Pair("word " * 3000, "parola " * 3000)]
    assert len(prepare(PAIRS, valid, None, [], said.append).valid_examples) == 5
    assert "dropped: 1 validation pairs longer than 256 tokens (data.max_length)" in said


def test_training_pairs_that_are_too_long_are_dropped_and_counted(prepare) -> None:
    said: list[str] = []
    prepared = prepare(
        [*PAIRS, *BLANK], PAIRS[:5], None, [{"data": {"max_length": 10}}], said.append
    )
    assert 0 < prepared.n_pairs < 300
    assert (
        f"dropped: {300 - prepared.n_pairs} pairs longer than 10 tokens (data.max_length)" in said
    )
    assert "corpus: 300 pairs, 3 dropped (blank on one side)" in said


def test_nothing_but_long_pairs_is_an_error(prepare) -> None:
    long = [Pair(f"{i} " + "word " * 300, "parola " * 300) for i in range(20)]
    with pytest.raises(
        DataError, match=r"none of the pairs has 256 tokens or fewer; set a larger data\.max_length"
    ):
        prepare(long, None, None, [{"text": {"vocab_size": 290}}])


def test_validation_pairs_that_are_split_off_are_not_trained_on(prepare, tmp_path: Path) -> None:
    prepared = prepare(PAIRS * 2, None, "nano", [])
    examples = open_examples(tmp_path / "data", prepared.config)
    assert len(examples) == prepared.n_pairs
    decode = prepared.vocabularies.source.decode
    learnt = {decode(example.source.tolist()) for example in examples.block(0, 0)}
    held_out = {pair.source for pair in prepared.valid_pairs}
    assert held_out
    assert not learnt & held_out
    assert prepared.n_pairs + len(prepared.valid_pairs) == 600


def test_a_prepared_corpus_is_used_again_until_the_text_or_its_settings_change(prepare) -> None:
    def preparations(pairs: list[Pair], settings: list[Layer]) -> int:
        said: list[str] = []
        prepare(pairs, None, "nano", settings, said.append)
        return sum(line.startswith("learning the vocabulary") for line in said)

    assert preparations(PAIRS, []) == 1
    assert preparations(PAIRS, []) == 0
    assert preparations(PAIRS, [{"train": {"steps": 7}}]) == 0  # nothing to do with text
    assert preparations(PAIRS[1:], []) == 1
    assert preparations(PAIRS[1:], [{"text": {"normalization": "none"}}]) == 1
    assert preparations(PAIRS[1:], [{"data": {"max_length": 99}}]) == 1


def test_composed_and_decomposed_letters_are_the_same_text(prepare) -> None:
    composed = [Pair(f"caf\u00e9 {i}", "perch\u00e9") for i in range(40)]
    apart = [Pair(f"cafe\u0301 {i}\x00", "perche\u0301") for i in range(40)]
    first, second = (
        prepare(pairs, None, "nano", [], name=name)
        for pairs, name in ((composed, "a"), (apart, "b"))
    )
    assert first.vocabularies == second.vocabularies
    assert first.words == second.words
    assert first.valid_pairs == second.valid_pairs


def test_resampled_tokens_spell_the_same_text(prepare, tmp_path: Path) -> None:
    prepared = prepare(PAIRS, None, "nano", [{"text": {"dropout": 0.3}}])
    plain = prepare(PAIRS, None, "nano", [], name="plain")
    drawn, fixed = (
        open_examples(tmp_path / "data", prepared.config),
        open_examples(tmp_path / "plain", plain.config),
    )
    decode = prepared.vocabularies.source.decode
    again, other, whole = drawn.block(0, 0), drawn.block(0, 1), fixed.block(0, 0)
    for first, second, unbroken in zip(again, other, whole, strict=True):
        assert (
            decode(first.source.tolist())
            == decode(second.source.tolist())
            == decode(unbroken.source.tolist())
        )
    assert [example.source.tolist() for example in drawn.block(0, 0)] == [
        each.source.tolist() for each in again
    ]
    assert sum(len(each.source) for each in again) > 1.2 * sum(len(each.source) for each in whole)
    assert any(len(a.source) != len(b.source) for a, b in zip(again, other, strict=True))


def test_other_sides_other_orders_and_other_fields_are_other_corpora(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_text("one\n")
    b.write_text("uno\n")
    table = tmp_path / "c.jsonl"
    table.write_text("{}")
    given = [
        open_pairs([a], [b]),
        open_pairs([b], [a]),
        open_pairs([a, a], [b, b]),
        open_pairs([a, b], [b, a]),
        open_pairs([b, a], [a, b]),
        open_pairs(pairs=[table], fields=("a", "b")),
        open_pairs(pairs=[table], fields=("b", "a")),
    ]
    inputs = [describe_inputs(text_settings([]), PairsTask(each).fingerprint()) for each in given]
    assert all(inputs.count(each) == 1 for each in inputs)
