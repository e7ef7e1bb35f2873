"""Planted drifts are found; files without drift raise no alarm."""

import random

import numpy as np
import pytest

from transduce.grammar import generate
from transduce.text.drift import Drift, find_drifts, likely_drift

MAX_ERROR = 50  # lines between a drift and the place where it is reported
Lengths = list[int]


def lengths(n: int, seed: int) -> tuple[Lengths, Lengths]:
    pairs = list(generate("en-it", n, seed=seed))
    return [len(pair.source) for pair in pairs], [len(pair.target) for pair in pairs]


@pytest.mark.parametrize("n", [100, 1000, 4000])
@pytest.mark.parametrize("seed", range(3))
def test_a_deleted_line_is_found_on_either_side_wherever_it_was(n: int, seed: int) -> None:
    source, target = lengths(n, seed)
    rng = random.Random(seed)
    for place in (0, n - 1, *(rng.randrange(n) for _ in range(4))):
        (drift,) = find_drifts(source[:place] + source[place + 1 :], target)
        assert abs(drift.line - place - 1) <= MAX_ERROR
        assert drift.shift == 1
        (drift,) = find_drifts(source, target[:place] + target[place + 1 :])
        assert abs(drift.line - place - 1) <= MAX_ERROR
        assert drift.shift == -1


def test_a_missing_block_is_one_drift() -> None:
    source, target = lengths(3000, 1)
    for first, n in ((300, 500), (1500, 37), (2900, 100)):
        (drift,) = find_drifts(source[:first] + source[first + n :], target)
        assert abs(drift.line - first - 1) <= MAX_ERROR
        assert drift.shift == n
        (drift,) = find_drifts(source, target[:first] + target[first + n :])
        assert abs(drift.line - first - 1) <= MAX_ERROR
        assert drift.shift == -n


def test_several_deletions_are_all_found() -> None:
    source, target = lengths(4000, 2)
    deleted = [700, 1900, 3100]
    drifts = find_drifts([length for i, length in enumerate(source) if i not in deleted], target)
    assert [drift.shift for drift in drifts] == [1, 2, 3]
    assert all(
        abs(drift.line - place) <= MAX_ERROR for drift, place in zip(drifts, deleted, strict=True)
    )


def test_files_of_equal_length_can_drift_and_become_aligned_again() -> None:
    source, target = lengths(4000, 3)
    drifts = find_drifts([*source[:1000], *source[1001:3000], 17, *source[3000:]], target)
    assert [drift.shift for drift in drifts] == [1, 0]
    assert abs(drifts[0].line - 1001) <= MAX_ERROR
    assert abs(drifts[1].line - 3000) <= MAX_ERROR


def test_a_drift_is_found_in_files_truncated_to_equal_length() -> None:
    source, target = lengths(2000, 4)
    (drift,) = find_drifts(source[:600] + source[601:], target[:-1])
    assert abs(drift.line - 601) <= MAX_ERROR
    assert drift.shift == 1


@pytest.mark.parametrize("seed", range(10))
def test_no_alarm_in_files_that_are_parallel_sorted_or_unrelated(seed: int) -> None:
    """A false alarm in parallel files has probability 0.001, so 0.01 for all ten seeds."""
    source, target = lengths(2000, seed)
    assert find_drifts(source, target) == ()
    order = sorted(range(len(source)), key=source.__getitem__)
    assert find_drifts([source[i] for i in order], [target[i] for i in order]) == ()
    random.Random(seed).shuffle(target)
    assert find_drifts(source, target) == ()


def test_lines_of_equal_length_raise_no_alarm() -> None:
    assert find_drifts([7] * 500, [7] * 500) == ()
    assert len(find_drifts([7] * 499, [7] * 500)) == 1
    assert find_drifts([0] * 30, [0] * 30) == ()


def test_few_lines_are_not_enough_evidence() -> None:
    assert likely_drift([5] * 19, [5] * 18) is None
    assert likely_drift([], [5] * 100) is None


def test_the_likely_drift_is_the_first() -> None:
    source, target = lengths(1000, 5)
    place = likely_drift(source[:400] + source[401:], target)
    assert place is not None
    assert abs(place - 401) <= MAX_ERROR
    assert likely_drift(source, target) is None


def test_a_surplus_line_at_the_end_is_found_near_the_end() -> None:
    source, target = lengths(200, 6)
    (drift,) = find_drifts(np.array(source), np.array([*target, 23]))
    assert drift.line >= 150
    assert drift == Drift(drift.line, 1)


def test_twenty_lines_are_enough_to_find_the_place_of_a_missing_one() -> None:
    lengths = [10 * (7 * i % 23) + 5 for i in range(21)]
    assert find_drifts(lengths[:20], lengths[:21])
    assert find_drifts(lengths[:19], lengths[:20]) == ()


@pytest.mark.parametrize("line", [120, 200, 281])
def test_where_lengths_leave_no_doubt_the_exact_line_is_found(line: int) -> None:
    """Translations of exactly the same length, and lengths that are never equal by chance."""
    lengths = [10 + 37 * i % 401 for i in range(400)]
    shorter = [*lengths[: line - 1], *lengths[line:]]
    assert find_drifts(shorter, lengths) == (Drift(line, 1),)
    assert find_drifts(lengths, shorter) == (Drift(line, -1),)
