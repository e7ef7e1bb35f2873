"""What rules forbid, by hand and by brute force."""

import re
import time
from collections.abc import Sequence
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce.decode.rules import (
    MAX_FORBIDDEN,
    begin_with,
    forbid,
    no_repeat,
    not_empty,
    only_text,
)
from transduce.decode.search import NEVER, Rows, Rule
from transduce.decode.words import Words
from transduce.errors import DataError
from transduce.text.terms import MAX_TERM_LENGTH
from transduce.text.vocabulary import EOS, PAD, SOS, UNKNOWN, Vocabulary

VOCAB = 7
PIECES = ["buon", "giorno", " ", " giorno", "buon  giorno", "x"]


def forbidden(rule: Rule, written: list[int], n_tokens: int = VOCAB) -> set[int]:
    """Return the tokens that a rule forbids after some others."""
    rows = Rows(torch.tensor([[SOS, *written]]), torch.tensor([0]))
    log_probs = rule(rows, torch.zeros(1, n_tokens))
    return {token for token in range(n_tokens) if log_probs[0, token] == NEVER}


def test_a_translation_has_no_special_token_and_is_not_empty() -> None:
    assert forbidden(only_text, []) == {PAD, SOS, UNKNOWN}
    assert forbidden(not_empty, []) == {EOS}
    assert forbidden(not_empty, [5]) == set()


@settings(deadline=None)
@given(st.lists(st.integers(4, 6), max_size=7), st.integers(1, 4))
def test_exactly_the_tokens_that_would_write_a_run_a_second_time_are_forbidden(
    written: list[int], n: int
) -> None:
    def repeats(token: int) -> bool:
        text = [*written, token]
        runs = [tuple(text[i : i + n]) for i in range(len(text) - n + 1)]
        return bool(runs) and runs[-1] in runs[:-1]

    assert forbidden(no_repeat(n), written) == {token for token in range(VOCAB) if repeats(token)}


@pytest.mark.parametrize("length", [0, 1, 2, 3])
def test_the_last_token_of_a_prefix_is_given_and_the_next_one_is_free(length: int) -> None:
    prefix = [4, 5, UNKNOWN]  # the last is one that another rule forbids
    rows = Rows(torch.tensor([[SOS, *prefix[:length]]]), torch.tensor([0]))
    log_probs = begin_with([prefix], [only_text])(rows, torch.full((1, VOCAB), -2.0))
    allowed = {token for token in range(VOCAB) if log_probs[0, token] > NEVER}
    assert allowed == ({prefix[length]} if length < len(prefix) else {EOS, 4, 5, 6})
    assert all(float(log_probs[0, token]) == -2.0 for token in allowed)
    assert {PAD, SOS}.isdisjoint(allowed)


class PieceWords(Words):
    """A vocabulary of a few pieces of text after the special tokens."""

    def __init__(self, pieces: Sequence[str] = PIECES) -> None:
        self.surfaces = ["", "", "", "", *pieces]  # type: ignore[misc]


@pytest.mark.parametrize("phrase", ["buon giorno", "buon  giorno", " Buon\tgiorno "])
@pytest.mark.parametrize("between", [(" ",), (" ", " "), (" ", " ", " ")])
def test_a_forbidden_phrase_is_found_with_any_spaces_between_its_words(
    phrase: str, between: tuple[str, ...]
) -> None:
    rule = forbid([phrase], PieceWords())
    n = len(PIECES) + 4
    written = [PIECES.index(piece) + 4 for piece in ("buon", *between)]
    giorno = PIECES.index("giorno") + 4
    assert giorno in forbidden(rule, written, n)
    assert PIECES.index(" giorno") + 4 in forbidden(rule, written, n)
    assert PIECES.index("x") + 4 not in forbidden(rule, written, n)
    assert giorno not in forbidden(rule, [], n)


def test_a_forbidden_phrase_with_two_spaces_is_not_written_by_a_real_vocabulary(
    vocabulary: Vocabulary,
) -> None:
    """The last token of a phrase is forbidden after its others, however the phrase was typed."""
    words = Words(vocabulary)
    *begun, last = vocabulary.encode("the cat")
    for phrase in ("the cat", "the  cat", "the   cat"):
        assert last in forbidden(forbid([phrase], words), begun, len(vocabulary))


FRAGMENTS = ["a", "b", "ab", "ba", " a", " ab", "a b", ".", " .", "a.b", "A", "_a", " ", "\u5b57"]


@settings(deadline=None)
@given(
    st.lists(st.text("ab.\u5b57 ", min_size=1, max_size=5).filter(str.strip), max_size=4),
    st.lists(st.integers(0, len(FRAGMENTS) - 1), max_size=7),
)
def test_exactly_the_tokens_that_end_an_occurrence_of_a_phrase_are_forbidden(
    phrases: list[str], written: list[int]
) -> None:
    """By regular expressions over the whole text, for every token that could be next."""
    patterns = [spaced_pattern(phrase) for phrase in phrases]
    begun = re.sub(r"\s+", " ", "".join(FRAGMENTS[i] for i in written).lower())

    def is_forbidden(piece: str) -> bool:
        for text in {begun, begun.rstrip()}:
            whole = text + piece.lower()
            for pattern in patterns:
                for start in range(len(whole)):
                    for end in range(len(text) + 1, len(whole) + 1):
                        is_phrase = re.fullmatch(pattern, whole[start:end])
                        if is_phrase and is_boundary(whole, start) and is_boundary(whole, end):
                            return True
        return False

    rule = forbid(phrases, PieceWords(FRAGMENTS))
    expected = {i + 4 for i, piece in enumerate(FRAGMENTS) if is_forbidden(piece)}
    assert forbidden(rule, [i + 4 for i in written], len(FRAGMENTS) + 4) == expected


def spaced_pattern(phrase: str) -> str:
    """Return a pattern of a phrase of the letters above, with or without optional spaces."""
    words = re.findall(r"[ab]+|[^ab\s]", phrase)
    pattern = re.escape(words[0])
    for before, word in pairwise(words):
        both_are_letters = before[-1] in "ab" and word[0] in "ab"
        pattern += (" " if both_are_letters else " ?") + re.escape(word)
    return pattern


def is_boundary(text: str, place: int) -> bool:
    """Return whether no word of the letters above goes on at a place in a text."""
    return not (text[:place][-1:] in {*"ab_"} and text[place : place + 1] in {*"ab_"})


def test_the_longest_list_and_the_longest_phrases_are_ready_in_seconds(
    vocabulary: Vocabulary,
) -> None:
    words = Words(vocabulary)
    assert words.surfaces
    n_phrases = MAX_FORBIDDEN // MAX_TERM_LENGTH
    written = vocabulary.encode("the cat sees the dog, " * 20)
    for phrases in (
        [f"w{i:06} the" for i in range(MAX_FORBIDDEN // 11)],
        [f"{i:06}".ljust(MAX_TERM_LENGTH, "a") for i in range(n_phrases)],
        ["the cat sees the dog, " * 22] * 2,
    ):
        start = time.process_time()
        rule = forbid(phrases, words)
        for n in range(0, len(written), 10):
            forbidden(rule, written[:n], len(vocabulary))
        assert time.process_time() - start < 20


def test_too_long_a_phrase_and_too_long_a_list_are_refused(vocabulary: Vocabulary) -> None:
    words = Words(vocabulary)
    with pytest.raises(DataError, match=r"forbidden phrase 'a{80}' has 501 characters, more than"):
        forbid(["a" * (MAX_TERM_LENGTH + 1)], words)
    phrases = ["a" * MAX_TERM_LENGTH] * (MAX_FORBIDDEN // MAX_TERM_LENGTH) + ["b"]
    with pytest.raises(DataError, match=r"have 1,000,001 characters together, more than 1,000,000"):
        forbid(phrases, words)
