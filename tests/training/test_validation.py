from transduce.text.corpus import Pair
from transduce.training.validation import count_words, find_worst


def test_the_worst_translations_come_first_and_exact_matches_are_omitted() -> None:
    pairs = [Pair("one", "eins"), Pair("two", "zwei"), Pair("three", "drei")]
    found = find_worst(pairs, ["eins", "zwie", "xyz"])
    assert [each.source for each in found] == ["three", "two"]
    assert found[0].chrf < found[1].chrf < 100


def test_words_are_counted_in_fives_and_the_last_class_takes_the_rest() -> None:
    assert count_words(["", "a b c d", "a b c d e", "a " * 1000]) == [2, 1, *([0] * 10), 1]
