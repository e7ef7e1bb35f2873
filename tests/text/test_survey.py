from transduce.grammar import generate
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
