"""How a verdict follows from findings, by a table of all cases; and the toy language."""

from itertools import product

from transduce.claims import toy
from transduce.claims.claim import IN_PART, INCONCLUSIVE, REFUTED, SHOWN, judge, judge_variants


def test_a_verdict_needs_its_control_and_says_whether_all_or_some_or_none_was_found() -> None:
    for found in product([True, False], repeat=3):
        assert judge(False, *found) == INCONCLUSIVE
        expected = SHOWN if all(found) else REFUTED if not any(found) else IN_PART
        assert judge(True, *found) == expected


def test_variants_are_judged_by_clear_differences_in_either_direction() -> None:
    yes, no = [True, True], [False, False]
    assert judge_variants(False, yes, no) == INCONCLUSIVE
    assert judge_variants(True, no, no) == INCONCLUSIVE
    assert judge_variants(True, no, [False, True]) == REFUTED
    assert judge_variants(True, [True, False], no) == IN_PART
    assert judge_variants(True, yes, no) == SHOWN


def test_phrases_of_the_toy_language_are_nested_as_deeply_as_requested() -> None:
    def depths(nested: tuple[int, int]) -> set[int]:
        pairs = toy.sentences(200, seed=1, nested=nested)
        return {pair.source.split().count("of") for pair in pairs}

    assert depths((0, 0)) == {0}
    assert depths((0, 1)) == {0, 1, 2}
    assert depths((2, 2)) == {4}
