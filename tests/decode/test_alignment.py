"""Word alignment: examples worked out by hand, and the alignments of the grammar."""

import numpy as np
import pytest

from transduce.config import ModelConfig
from transduce.decode.alignment import align, pharaoh, word_indices
from transduce.decode.load import load
from transduce.grammar import generate
from transduce.text.vocabulary import Vocabulary


def test_links_are_written_in_pharaoh_format() -> None:
    assert pharaoh([(0, 0), (1, 2), (2, 1)]) == "0-0 1-2 2-1"
    assert pharaoh([]) == ""


@pytest.mark.parametrize(
    "text", ["I love you", "  I  love you ", "I", "Is it Maria's cat?", "naïve 愛 zebra"]
)
def test_tokens_get_the_index_of_their_word_as_str_split_counts_words(
    vocabulary: Vocabulary, text: str
) -> None:
    ids = vocabulary.encode(text)
    numbers = word_indices(ids, vocabulary)
    words = text.split()
    assert sorted(set(numbers)) == list(range(len(words)))
    for number, word in enumerate(words):
        own = [i for i, n in zip(ids, numbers, strict=True) if n == number]
        assert vocabulary.decode(own).strip() == word


def hand_made(vocabulary: Vocabulary, rows: list[list[float]]) -> list[tuple[int, int]]:
    """Two words on either side; `rows` is the attention of each target word, [EOS] last."""
    source, target = vocabulary.encode("the cat"), vocabulary.encode("il gatto")
    from_words, to_words = word_indices(source, vocabulary), word_indices(target, vocabulary)
    attention = np.array(
        [
            [rows[j][i] / from_words.count(i) for i in from_words] + [rows[j][2]]
            for j in [*to_words, 0]
        ],
        dtype=np.float32,
    )
    return align(attention, source, target, (vocabulary, vocabulary))


def test_each_target_word_links_to_the_source_word_it_attended_to_most(
    vocabulary: Vocabulary,
) -> None:
    assert hand_made(vocabulary, [[0.8, 0.1, 0.1], [0.3, 0.6, 0.1]]) == [(0, 0), (1, 1)]
    assert hand_made(vocabulary, [[0.1, 0.8, 0.1], [0.6, 0.3, 0.1]]) == [(0, 1), (1, 0)]


def test_an_unlinked_source_word_links_to_the_target_word_that_attended_to_it_most(
    vocabulary: Vocabulary,
) -> None:
    assert hand_made(vocabulary, [[0.9, 0.1, 0.0], [0.8, 0.2, 0.0]]) == [(0, 0), (0, 1), (1, 1)]
    assert hand_made(vocabulary, [[0.99, 0.01, 0.0], [0.98, 0.02, 0.0]]) == [(0, 0), (0, 1)]
    assert hand_made(vocabulary, [[0.99, 0.01, 0.0], [0.96, 0.04, 0.0]]) == [(0, 0), (0, 1)]
    assert hand_made(vocabulary, [[0.99, 0.01, 0.0], [0.94, 0.06, 0.0]]) == [(0, 0), (0, 1), (1, 1)]


def test_attention_to_the_end_of_the_source_does_not_count(vocabulary: Vocabulary) -> None:
    assert hand_made(vocabulary, [[0.06, 0.04, 0.9], [0.04, 0.06, 0.9]]) == [(0, 0), (1, 1)]


def test_the_last_layer_but_one_aligns_from_four_layers_on() -> None:
    layers = [ModelConfig(n_layers=n).alignment_layer for n in range(1, 8)]
    assert layers == [0, 1, 2, 2, 3, 4, 5]


def test_an_empty_side_has_no_links(vocabulary: Vocabulary) -> None:
    ids = vocabulary.encode("the cat")
    assert align(np.ones((1, len(ids) + 1), np.float32), ids, [], (vocabulary, vocabulary)) == []
    assert align(np.ones((len(ids) + 1, 1), np.float32), [], ids, (vocabulary, vocabulary)) == []


def test_the_alignment_error_rate_against_the_grammar_is_below_a_tenth() -> None:
    """200 held-out sentences; the error rate is that of Och & Ney 2003 with sure links only."""
    pairs = list(generate("en-it", 200, seed=123, split="held-out"))
    scored = load(engine="torch").score([(pair.source, pair.target) for pair in pairs])
    n_right = n_links = 0
    for pair, each in zip(pairs, scored, strict=True):
        found = {tuple(map(int, link.split("-"))) for link in each.alignment.split()}
        n_right += 2 * len(found & set(pair.alignment))
        n_links += len(found) + len(pair.alignment)
    assert 1 - n_right / n_links < 0.10


def test_the_alignment_of_a_split_text_numbers_words_across_its_parts() -> None:
    translator = load(engine="torch")
    first, second = "Does Maria love the cat?", "Does the dog sleep?"
    n = 1 + translator.max_source_tokens() // len(translator.source_vocabulary.encode(first))
    whole = translator.translate([" ".join([first] * n + [second])], details=True)[0]
    alone = [translator.translate([text], details=True)[0] for text in (first, second)]
    before = (n * len(first.split()), n * len(alone[0].text.split()))
    links = [tuple(map(int, link.split("-"))) for link in whole.alignment.split()]
    last = [(i - before[0], j - before[1]) for i, j in links if i >= before[0]]
    assert "sentences" in whole.notes
    assert pharaoh(last) == alone[1].alignment
    assert pharaoh([link for link in links if link[0] < len(first.split())]) == alone[0].alignment
