"""Quality flags: repetition, copies, lengths and low probability, worked out by hand."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.commands import Run
from transduce.decode import quality
from transduce.decode.hypotheses import Hypothesis
from transduce.decode.quality import (
    MIN_TOKEN_LOG_PROB,
    has_gap,
    has_repetition,
    is_copy,
    is_too_long,
    is_too_short,
    is_unlikely,
    lacks_length,
)

ROOT = Path(__file__).parents[2]


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
def test_the_same_tokens_four_times_in_a_row_and_eight_in_all_are_a_repetition(
    ids: list[int],
) -> None:
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
def test_less_than_that_is_no_repetition(ids: list[int]) -> None:
    assert not has_repetition(ids)


@given(st.lists(st.integers(0, 2), max_size=50))
def test_repetition_equals_brute_force(ids: list[int]) -> None:
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
    ("source", "target", "expected"),
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
def test_more_than_three_times_the_other_side_plus_ten_is_far_too_long(
    source: int, target: int, expected: str | None
) -> None:
    assert is_too_short(range(source), range(target)) == (expected == "too_short")
    assert is_too_long(range(source), range(target)) == (expected == "too_long")


def test_a_mean_token_probability_below_a_fifth_is_unlikely() -> None:
    assert not is_unlikely(Hypothesis((7,) * 3, log_prob=4 * math.log(0.2), score=0.0))
    assert is_unlikely(Hypothesis((7,) * 4, log_prob=5 * math.log(0.19), score=0.0))
    assert not is_unlikely(Hypothesis((7,) * 4, log_prob=5 * math.log(0.21), score=0.0))
    assert not is_unlikely(Hypothesis((), log_prob=0.0, score=0.0))


def test_a_new_flag_is_shown_and_reported_by_translate(
    transduce: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One entry in the list is all it takes."""
    shouting = quality.Flag(
        name="shouting",
        message="the source is in capitals",
        check=lambda evidence: evidence.cleaned.isupper(),
    )
    monkeypatch.setattr(quality, "FLAGS", (*quality.FLAGS, shouting))
    report = tmp_path / "report.jsonl"
    _, _, err = transduce("translate", "--report", report, stdin=b"WE SLEEP\nWe sleep\n")
    first, second = (json.loads(line) for line in report.read_text().splitlines())
    assert "shouting" in first["flags"]
    assert "shouting" not in second["flags"]
    assert "line 1: the source is in capitals\n" in err


def test_the_documentation_lists_every_flag_and_note() -> None:
    page = (ROOT / "docs" / "translating.md").read_text(encoding="utf-8")
    names = [flag.name for flag in (*quality.FLAGS, *quality.NOTES)]
    assert len(set(names)) == len(names)
    assert [name for name in names if f"`{name}`" not in page] == []


@pytest.mark.parametrize(
    ("n_words", "n_characters", "n_tokens", "is_missing"),
    [
        (8, 27, 5, True),  # 40 characters and 8 tokens in the source: less than 28 and 6
        (8, 28, 5, False),
        (8, 27, 6, False),
        (7, 10, 2, False),  # too short to tell
    ],
)
def test_content_is_missing_if_characters_and_tokens_are_too_few(
    n_words: int, n_characters: int, n_tokens: int, is_missing: bool
) -> None:
    source = " ".join(["abcd"] * n_words).ljust(40, "x")
    ids = list(range(8))
    target = "x" * n_characters
    assert len(source) == 40
    assert lacks_length(source, target, ids, ids[:n_tokens]) == is_missing


def test_a_gap_is_a_token_that_the_model_did_not_expect() -> None:
    assert not has_gap([])
    assert not has_gap([-0.1, MIN_TOKEN_LOG_PROB])
    assert has_gap([-0.1, MIN_TOKEN_LOG_PROB - 0.01, -0.1])
