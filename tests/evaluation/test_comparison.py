"""How systems are compared: what is rare, what overlaps, and what a verdict needs."""

import pytest

from transduce.evaluation.comparison import _find_in_training, _group_by_overlap, verdict
from transduce.evaluation.comparison import _group_by_rare_words as group_by_rare_words
from transduce.evaluation.metrics import Score
from transduce.evaluation.significance import SystemScore


def row(
    p_bootstrap: float, p_randomisation: float, difference: float = 1.0, metric: str = "BLEU"
) -> SystemScore:
    score = Score(metric, 30.0, "")
    return SystemScore("new", score, 1.0, difference, p_bootstrap, p_randomisation)


def test_a_difference_is_significant_if_both_tests_give_less_than_a_twentieth() -> None:
    assert verdict(row(0.049, 0.01)) == "better"
    assert verdict(row(0.01, 0.049, difference=-1.0)) == "worse"
    assert verdict(row(0.05, 0.01)) == "not told apart"
    assert verdict(row(0.01, 0.05)) == "not told apart"


def test_a_higher_error_rate_is_worse() -> None:
    assert verdict(row(0.01, 0.01, difference=2.0, metric="TER")) == "worse"
    assert verdict(row(0.01, 0.01, difference=-2.0, metric="TER")) == "better"


@pytest.mark.parametrize(("rare", "expected"), [(1, 1), (2, 2), (3, 3), (9, 3)])
def test_a_word_is_rare_up_to_the_given_count_and_three_words_are_as_rare_as_more(
    rare: int, expected: int
) -> None:
    counts = {"a": 1, "b": 2, "c": 3, "d": 4}
    [found] = group_by_rare_words("source", [["a", "b", "c", "d", "a"]], counts, rare).label_of
    assert found == expected


def test_a_share_of_one_half_is_half_or_more_and_a_line_of_three_words_is_one_run() -> None:
    lines = [["a", "b", "c", "d"], ["a", "b", "c"], ["x", "y", "z"], ["a", "b"]]
    seen = _find_in_training(lines, ["a b c", "y z a b"])
    grouping = _group_by_overlap("source", lines, seen)
    found = [grouping.labels[i] for i in grouping.label_of]
    assert found == ["half or more", "the line itself", "under half", "under half"]
    [whole] = _group_by_overlap(
        "source", [["b", "c", "d"]], seen._replace(ngrams={("b", "c", "d")})
    ).label_of
    assert grouping.labels[whole] == "all of it"
