"""What is doubtful about a translation: has_repetition, copies, lengths and guesses, by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.decode.quality import has_repetition, is_copy, is_unsure, wrong_length


@pytest.mark.parametrize(
    "ids",
    [
        [7] * 8,
        [1, 2] * 4,
        [1, 2, 3] * 4,
        [9, 9, *[1, 2, 3] * 4, 5],
        [*range(12)] * 4,
        [1, 2, 3] * 3 + [1, 2, 3],
    ],
)
def test_the_same_pieces_four_times_on_end_and_eight_in_all_are_a_loop(ids: list[int]) -> None:
    assert has_repetition(ids)


@pytest.mark.parametrize(
    "ids",
    [
        [],
        [7] * 7,
        [1, 2, 3] * 3,
        [1, 2] * 3,
        [1, 2, 3, 9] * 3,
        [*range(13)] * 4,
        [1, 2, 3, 1, 2, 4, 1, 2, 5, 1, 2, 6],
        [1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 1, 2, 3, 4, 6, 1, 2, 3, 4],
    ],
)
def test_less_than_that_is_no_loop(ids: list[int]) -> None:
    assert not has_repetition(ids)


@given(st.lists(st.integers(0, 2), max_size=50))
def test_loops_are_what_brute_force_calls_so(ids: list[int]) -> None:
    def repeats(start: int, period: int) -> int:
        n = 0
        while start + n + period < len(ids) and ids[start + n] == ids[start + n + period]:
            n += 1
        return n + period

    assert has_repetition(ids) == any(
        repeats(start, period) >= max(4 * period, 8) and start + period < len(ids)
        for period in range(1, 13)
        for start in range(len(ids))
    )


def test_the_same_words_in_any_case_are_a_copy() -> None:
    assert is_copy("The black cat", "the Black  cat")
    assert not is_copy("The black cat", "the black cat sleeps")


@pytest.mark.parametrize("text", ["Maria", "Maria 7", "12:30", "", "7 {name}"])
def test_a_single_word_may_be_a_name_and_numbers_stay(text: str) -> None:
    assert not is_copy(text, text)


@pytest.mark.parametrize(
    ("source", "target", "wanted"),
    [
        (10, 10, None),
        (16, 2, None),
        (17, 2, "too_short"),
        (2, 16, None),
        (2, 17, "too_long"),
        (1, 0, "too_short"),
        (0, 0, None),
        (0, 11, "too_long"),
    ],
)
def test_more_than_three_times_the_other_side_and_ten_is_far_too_long(
    source: int, target: int, wanted: str | None
) -> None:
    assert wrong_length(range(source), range(target)) == wanted


def test_a_mean_probability_under_a_fifth_is_a_guess() -> None:
    assert is_unsure(5 * math.log(0.19), 5)
    assert not is_unsure(5 * math.log(0.21), 5)
    assert not is_unsure(0.0, 0)
