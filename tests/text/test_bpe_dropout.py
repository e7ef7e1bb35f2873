import math
from collections import Counter
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.grammar import generate
from transduce.text.bpe_dropout import BpeDropout
from transduce.text.vocabulary import learn_vocabulary

LINES = [side for pair in generate("en-it", 1500, seed=1) for side in (pair.source, pair.target)]
VOCABULARY = learn_vocabulary(LINES, "bpe", 900)
ENCODER = BpeDropout(VOCABULARY)


def test_without_dropout_it_is_the_encoding_of_sentencepiece() -> None:
    random = Random(0)
    for line in [
        *LINES,
        "",
        " ",
        "  two  spaces ",
        "\ttab",
        "日本 emoji 🙂",
        "▁a▁▁b",
        "<s> [EOS] </s>",
    ]:
        assert ENCODER.encode(line, 0.0, random) == VOCABULARY.encode(line)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_without_dropout_it_is_the_encoding_of_sentencepiece_for_any_text(text: str) -> None:
    assert ENCODER.encode(text, 0.0, Random(0)) == VOCABULARY.encode(text)


@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
    st.floats(0, 1),
    st.integers(0, 2**32),
)
def test_dropout_keeps_the_text_and_the_seed_determines_the_tokens(
    text: str, dropout: float, seed: int
) -> None:
    ids = ENCODER.encode(text, dropout, Random(seed))
    assert VOCABULARY.decode(ids) == VOCABULARY.decode(VOCABULARY.encode(text))
    assert ids == BpeDropout(VOCABULARY).encode(text, dropout, Random(seed))


def test_dropping_every_merge_leaves_characters() -> None:
    assert len(ENCODER.encode("gatto nero", 1.0, Random(0))) == 1 + len("gatto nero")


def step_by_step(symbols: tuple[str, ...], dropout: float, random: Random) -> tuple[str, ...]:
    """Segment as the paper describes: at each step drop merges at random, then apply the best."""
    ranks = VOCABULARY.merge_ranks()
    while True:
        merges = [(ranks[a + b], i) for i, (a, b) in enumerate(pairwise(symbols)) if a + b in ranks]
        kept = [merge for merge in merges if random.random() >= dropout]
        if not kept:
            return symbols
        i = min(kept)[1]
        symbols = (*symbols[:i], symbols[i] + symbols[i + 1], *symbols[i + 2 :])


@pytest.mark.parametrize("dropout", [0.1, 0.5])
def test_segmentations_are_as_frequent_as_in_the_algorithm_of_the_paper(dropout: float) -> None:
    """Compare the counts of each segmentation in two samples of 4000.

    Each comparison fails by chance (|z| > 4.5) with a probability below 7e-6.
    """
    n, word = 4000, "▁mangiano"
    random = Random(1)
    ours = Counter(ENCODER._segment(word, dropout, random) for _ in range(n))
    theirs = Counter(step_by_step(tuple(word), dropout, random) for _ in range(n))
    assert len(ours) > 3
    for symbols in ours.keys() | theirs.keys():
        a, b = ours[symbols], theirs[symbols]
        assert abs(a - b) <= 4.5 * math.sqrt(a + b) + 1
