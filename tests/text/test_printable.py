from transduce.text.printable import MAX_WORD_LENGTH, MAX_WORDS, list_words


def test_a_word_of_the_longest_length_is_shown_whole_and_a_longer_one_is_cut() -> None:
    longest = "x" * MAX_WORD_LENGTH
    assert list_words([longest]) == longest
    assert list_words([longest + "y"]) == longest + "..."


def test_words_beyond_the_last_that_is_shown_are_counted() -> None:
    words = [str(i) for i in range(MAX_WORDS)]
    assert list_words(words) == ", ".join(words)
    assert list_words([*words, "a"]) == ", ".join(words) + " and 1 more"
    assert list_words([]) == ""
