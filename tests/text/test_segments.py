"""Long texts are split into parts that fit."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from transduce.text import segments
from transduce.text.segments import Segment, split_text

TEXTS = st.lists(
    st.sampled_from(
        [
            "a",
            "bb",
            "ccc",
            " ",
            "  ",
            "\n",
            "\u3000",
            ". ",
            "? ",
            '."',
            "! ",
            ", ",
            "; ",
            "。",
            "、",
            "…",
            "x" * 9,
            "è",
        ]
    ),
    max_size=40,
).map("".join)


def measure(texts: Sequence[str]) -> list[int]:
    """Count a token per byte, and none for a single space, which is part of the next word."""
    return [
        sum(len(c.encode()) for c in text.replace("  ", "\0\0")) - text.count(" ") for text in texts
    ]


@given(TEXTS, st.integers(1, 40))
@example("   a", 2)
def test_the_parts_joined_with_their_gaps_give_the_text(text: str, max_tokens: int) -> None:
    parts = split_text(text, max_tokens, measure)
    assert "".join(part.text + part.gap for part in parts) == text
    assert all(not part.gap.strip() for part in parts)


@given(TEXTS, st.integers(1, 40))
@example(" " * 50 + "a", 3)
@example("a" + " " * 50 + "a", 3)
def test_every_part_fits_unless_it_has_no_space_to_be_split_at(text: str, max_tokens: int) -> None:
    for part in split_text(text, max_tokens, measure):
        assert measure([part.text])[0] <= max_tokens or not any(c.isspace() for c in part.text)


def test_a_text_that_fits_is_not_split() -> None:
    assert split_text("One. Two. Three.", 100, measure) == [Segment("One. Two. Three.", "")]


def test_each_sentence_is_a_part() -> None:
    text = 'He said "no." She left?  Then (he slept!) And so on...'
    assert split_text(text, 20, measure) == [
        Segment('He said "no."', " "),
        Segment("She left?", "  "),
        Segment("Then (he slept!)", " "),
        Segment("And so on...", ""),
    ]


def test_a_long_sentence_is_split_into_clauses_joined_as_far_as_they_fit() -> None:
    text = "one, two; three: four, five"
    assert [part.text for part in split_text(text, 12, measure)] == [
        "one, two;",
        "three: four,",
        "five",
    ]


def test_a_long_clause_is_split_between_words_and_a_long_word_is_not_split() -> None:
    assert [part.text for part in split_text("one two three incomprehensible x", 9, measure)] == [
        "one two",
        "three",
        "incomprehensible",
        "x",
    ]


def test_scripts_without_spaces_are_split_after_their_own_punctuation() -> None:
    assert [part.text for part in split_text("私は猫。犬、鳥、魚！誰", 15, measure)] == [
        "私は猫。",
        "犬、鳥、",
        "魚！",
        "誰",
    ]


def test_the_cost_of_splitting_is_linear_in_the_length() -> None:
    """Each of the three levels measures a long text at most twice."""
    n_measured = 0

    def counting(texts: Sequence[str]) -> list[int]:
        nonlocal n_measured
        n_measured += sum(map(len, texts))
        return measure(texts)

    for text in ("word " * 20_000, "one, two; " * 10_000, "One. Two. " * 10_000, "x" * 100_000):
        n_measured = 0
        split_text(text, 30, counting)
        assert n_measured <= 6 * len(text)


def test_a_text_that_just_fits_is_whole_and_parts_are_joined_until_they_just_fit() -> None:
    assert split_text("aa. bb", 5, measure) == [Segment("aa. bb", "")]
    assert split_text("aa. bb", 4, measure) == [Segment("aa.", " "), Segment("bb", "")]
    joined = [Segment("a b", " "), Segment("c d", " "), Segment("e", "")]
    assert split_text("a b c d e", 2, measure) == joined


def test_the_tokens_of_a_wide_space_count_when_parts_are_joined() -> None:
    wide = "\u3000"  # three bytes
    assert split_text(f"a{wide}b{wide}c", 5, measure) == [
        Segment(f"a{wide}b", wide),
        Segment("c", ""),
    ]
    apart = [Segment("a", wide), Segment("b", wide), Segment("c", "")]
    assert split_text(f"a{wide}b{wide}c", 4, measure) == apart


def test_sentences_are_joined_only_if_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "MAX_SENTENCES", 4)
    few = split_text("One. Two. Three. Four.", 10, measure)
    assert [part.text for part in few] == ["One.", "Two.", "Three.", "Four."]
    many = split_text("One. Two. Three. Four. Five. Six.", 10, measure)
    assert [part.text for part in many] == ["One. Two.", "Three.", "Four. Five.", "Six."]


def test_no_more_than_a_block_of_parts_is_measured_at_once() -> None:
    largest = 0

    def counting(texts: Sequence[str]) -> list[int]:
        nonlocal largest
        largest = max(largest, len(texts))
        return measure(texts)

    for text in ("word " * 10_000, "One. " * 10_000, "one, " * 10_000):
        parts = split_text(text, 30, counting)
        assert "".join(part.text + part.gap for part in parts) == text
    assert largest == segments.BLOCK_SIZE
