import pytest

from transduce.grammar import generate
from transduce.text import survey
from transduce.text.corpus import Pair
from transduce.text.survey import ValidationCandidates, survey_pairs

PAIRS = list(generate("en-it", 300, seed=1))


def test_pairs_with_the_same_source_are_never_on_both_sides() -> None:
    found = survey_pairs(PAIRS * 3, 50)
    assert found.n_pairs == 900
    assert 48 <= len(found.valid) <= 50
    assert not {pair.source for pair in found.sample} & {pair.source for pair in found.valid}
    assert len(found.sample) + len(found.valid) == 900


def test_the_split_does_not_depend_on_the_order_of_the_corpus() -> None:
    assert set(survey_pairs(PAIRS, 20).valid) == set(survey_pairs(PAIRS[::-1], 20).valid)


def test_a_sentence_repeated_a_thousand_times_does_not_fill_the_validation_set() -> None:
    for repeated in PAIRS[:20]:
        assert 10 < len(survey_pairs([*PAIRS, *[repeated] * 1000], 15).valid) <= 15


def test_a_twentieth_is_split_off_by_default() -> None:
    assert len(survey_pairs(PAIRS, None).valid) == 15
    assert len(survey_pairs(PAIRS, 0).valid) == 0


def test_blank_pairs_are_counted_and_dropped() -> None:
    found = survey_pairs([Pair("", "a"), *PAIRS, Pair("b", "\t ")], 0)
    assert (found.n_pairs, found.n_blank, len(found.sample)) == (300, 2, 300)


def test_candidates_are_those_of_a_full_sort_and_no_more_are_kept() -> None:
    few, all_of_them = ValidationCandidates(40), ValidationCandidates(1000)
    for pair in PAIRS:
        few.add(pair)
        all_of_them.add(pair)
    assert few.choose(30) == all_of_them.choose(30)
    assert few.n_sources is None
    assert all_of_them.n_sources == len({pair.source for pair in PAIRS})


def test_a_sample_is_spread_evenly_over_the_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of it from either half, within five standard deviations; the seed is fixed."""
    monkeypatch.setattr(survey, "SAMPLE_SIZE", 1000)
    found = survey_pairs([Pair(str(i), "x") for i in range(4000)], 0).sample
    assert len({pair.source for pair in found}) == 1000
    assert abs(sum(int(pair.source) < 2000 for pair in found) - 500) < 70


def test_a_source_with_just_as_many_pairs_as_there_is_room_for_is_chosen() -> None:
    candidates = ValidationCandidates(10)
    for target in "abc":
        candidates.add(Pair("one", target))
    assert [pair.target for pair in candidates.choose(3)] == ["a", "b", "c"]
    assert candidates.choose(2) == []


def test_as_many_sources_are_kept_as_requested_and_the_corpus_of_one_pair_is_its_validation() -> (
    None
):
    candidates = ValidationCandidates(3)
    for source in "abc":
        candidates.add(Pair(source, "x"))
    assert candidates.n_sources == 3
    candidates.add(Pair("d", "x"))
    assert candidates.n_sources is None
    assert len(candidates.choose(9)) == 3
    assert survey_pairs([Pair("a", "x")], None).valid == [Pair("a", "x")]
