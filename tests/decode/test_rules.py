"""What rules forbid, by hand and by brute force."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce.decode.rules import begin_with, forbid, no_repeat, not_empty, only_text
from transduce.decode.search import NEVER, Rows, Rule
from transduce.decode.words import Words
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

    def __init__(self) -> None:
        self.surfaces = ["", "", "", "", *PIECES]  # type: ignore[misc]


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
