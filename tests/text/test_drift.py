"""Drifts that were planted are found; files without drift raise no alarm."""

import random

import numpy as np
import pytest

from transduce.grammar import generate
from transduce.text.drift import Drift, find_drifts, likely_drift

CLOSE = 50  # lines: the promise
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
        assert abs(drift.line - place - 1) <= CLOSE
        assert drift.shift == 1
        (drift,) = find_drifts(source, target[:place] + target[place + 1 :])
        assert abs(drift.line - place - 1) <= CLOSE
        assert drift.shift == -1


def test_a_missing_block_is_one_drift() -> None:
    source, target = lengths(3000, 1)
    for first, n in ((300, 500), (1500, 37), (2900, 100)):
        (drift,) = find_drifts(source[:first] + source[first + n :], target)
        assert abs(drift.line - first - 1) <= CLOSE
        assert drift.shift == n
        (drift,) = find_drifts(source, target[:first] + target[first + n :])
        assert abs(drift.line - first - 1) <= CLOSE
        assert drift.shift == -n


def test_several_deletions_are_all_found() -> None:
    source, target = lengths(4000, 2)
    gone = [700, 1900, 3100]
    drifts = find_drifts([length for i, length in enumerate(source) if i not in gone], target)
    assert [drift.shift for drift in drifts] == [1, 2, 3]
    assert all(abs(drift.line - place) <= CLOSE for drift, place in zip(drifts, gone, strict=True))


def test_files_of_equal_length_can_drift_too_and_come_together_again() -> None:
    source, target = lengths(4000, 3)
    drifts = find_drifts([*source[:1000], *source[1001:3000], 17, *source[3000:]], target)
    assert [drift.shift for drift in drifts] == [1, 0]
    assert abs(drifts[0].line - 1001) <= CLOSE
    assert abs(drifts[1].line - 3000) <= CLOSE


def test_files_cut_to_the_same_length_after_a_drift() -> None:
    source, target = lengths(2000, 4)
    (drift,) = find_drifts(source[:600] + source[601:], target[:-1])
    assert abs(drift.line - 601) <= CLOSE
    assert drift.shift == 1


@pytest.mark.parametrize("seed", range(10))
def test_no_alarm_in_files_that_are_parallel_sorted_or_unrelated(seed: int) -> None:
    """Ten corpora, three ways each: by construction a false alarm has a chance of 0.001 in parallel files, 0.01 in all ten."""
    source, target = lengths(2000, seed)
    assert find_drifts(source, target) == ()
    order = sorted(range(len(source)), key=source.__getitem__)
    assert find_drifts([source[i] for i in order], [target[i] for i in order]) == ()
    random.Random(seed).shuffle(target)
    assert find_drifts(source, target) == ()


def test_lines_of_one_length_say_nothing_and_do_no_harm() -> None:
    assert find_drifts([7] * 500, [7] * 500) == ()
    assert len(find_drifts([7] * 499, [7] * 500)) == 1
    assert find_drifts([0] * 30, [0] * 30) == ()


def test_few_lines_say_nothing() -> None:
    assert likely_drift([5] * 19, [5] * 18) is None
    assert likely_drift([], [5] * 100) is None


def test_the_likely_drift_is_the_first() -> None:
    source, target = lengths(1000, 5)
    place = likely_drift(source[:400] + source[401:], target)
    assert place is not None
    assert abs(place - 401) <= CLOSE
    assert likely_drift(source, target) is None


def test_one_line_too_many_at_the_end() -> None:
    source, target = lengths(200, 6)
    (drift,) = find_drifts(np.array(source), np.array([*target, 23]))
    assert drift.line >= 150
    assert drift == Drift(drift.line, 1)
