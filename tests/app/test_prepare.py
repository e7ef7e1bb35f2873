import pytest

from transduce.app.prepare import divide, fingerprint_of, prepare, split_off
from transduce.config import Config
from transduce.errors import DataError
from transduce.text.corpus import Corpus, Pair
from transduce.text.grammar import generate

PAIRS = list(generate("en-it", 300, seed=1))


def test_pairs_with_the_same_source_are_never_on_both_sides() -> None:
    train, valid = split_off(PAIRS * 3, 50)
    assert len(train) + len(valid) == 900
    assert 48 <= len(valid) <= 50
    assert not {pair.source for pair in train} & {pair.source for pair in valid}


def test_the_split_does_not_depend_on_the_order_of_the_corpus() -> None:
    assert set(split_off(PAIRS, 20)[1]) == set(split_off(PAIRS[::-1], 20)[1])


def test_one_sentence_repeated_cannot_be_divided() -> None:
    with pytest.raises(DataError, match="7 pairs with 1 different sources are too few to split 1 off"):
        divide(Corpus([Pair("a", "b")] * 7), None, Config(), lambda text: None)


def test_a_sentence_repeated_a_thousand_times_does_not_swallow_the_validation_set() -> None:
    for repeated in PAIRS[:20]:
        assert len(split_off([*PAIRS, *[repeated] * 1000], 15)[1]) <= 15


def test_one_vocabulary_serves_both_languages_unless_asked_otherwise() -> None:
    joint, apart = (
        prepare(Corpus(PAIRS), None, "nano", [{"text": {"joint": joint}}], lambda text: None) for joint in (True, False)
    )
    assert joint.vocabularies.source == joint.vocabularies.target
    assert joint.config.model.target_vocab_size is None
    assert apart.vocabularies.source != apart.vocabularies.target
    assert apart.config.model.target_vocab_size == len(apart.vocabularies.target)


@pytest.mark.parametrize("joint", [True, False])
def test_the_settings_of_a_run_give_the_same_run_again(joint: bool) -> None:
    first = prepare(Corpus(PAIRS), None, "nano", [{"text": {"joint": joint}}], lambda text: None)
    again = prepare(Corpus(PAIRS), None, "nano", [first.config.model_dump(exclude_none=True)], lambda text: None)
    assert again.config == first.config


def test_heads_that_suit_the_preset_are_accepted_though_they_do_not_suit_the_default() -> None:
    prepared = prepare(Corpus(PAIRS), None, "nano", [{"model": {"n_heads": 3}}], lambda text: None)
    assert prepared.config.model.key_size == 32


def test_validation_pairs_that_are_too_long_are_left_out_and_counted() -> None:
    said: list[str] = []
    valid = Corpus([*PAIRS[:5], Pair("word " * 3000, "parola " * 3000)])
    assert len(prepare(Corpus(PAIRS), valid, None, [], said.append).valid_examples) == 5
    assert "left out: 1 validation pairs longer than 256 pieces (data.max_length)" in said


def test_pairs_that_are_too_long_are_left_out_and_counted() -> None:
    said: list[str] = []
    settings = [{"data": {"max_length": 10}}]
    prepared = prepare(Corpus(PAIRS, n_blank=3), Corpus(PAIRS[:5]), None, settings, said.append)
    assert 0 < len(prepared.examples) < 300
    assert f"left out: {300 - len(prepared.examples)} pairs longer than 10 pieces (data.max_length)" in said
    assert "corpus: 300 pairs, 3 left out (blank on a side)" in said


def test_nothing_but_long_pairs_is_an_error() -> None:
    long = [Pair(f"{i} " + "word " * 300, "parola " * 300) for i in range(20)]
    with pytest.raises(DataError, match=r"none of the pairs has 256 pieces or fewer: set a larger data\.max_length"):
        prepare(Corpus(long), None, None, [{"text": {"vocab_size": 290}}], lambda text: None)


def test_another_text_has_another_fingerprint() -> None:
    assert fingerprint_of(PAIRS) == fingerprint_of(list(PAIRS))
    assert fingerprint_of(PAIRS) != fingerprint_of(PAIRS[1:])
    assert fingerprint_of(PAIRS[:9], PAIRS[9:]) != fingerprint_of(PAIRS[:8], PAIRS[8:])
