from transduce.text.printable import (
    MAX_WORD_LENGTH,
    MAX_WORDS,
    list_words,
    printable,
    printable_lines,
    shorten,
)


def test_a_word_of_the_longest_length_is_shown_whole_and_a_longer_one_is_cut() -> None:
    longest = "x" * MAX_WORD_LENGTH
    assert list_words([longest]) == longest
    assert list_words([longest + "y"]) == longest + "..."


def test_words_beyond_the_last_that_is_shown_are_counted() -> None:
    words = [str(i) for i in range(MAX_WORDS)]
    assert list_words(words) == ", ".join(words)
    assert list_words([*words, "a"]) == ", ".join(words) + " and 1 more"
    assert list_words([]) == ""


def test_spaces_are_shown_and_what_a_terminal_obeys_is_shown_as_its_code() -> None:
    assert printable("où\u00a0?\u3000\u202f") == "où\u00a0?\u3000\u202f"
    assert (
        printable("a\x1b[1m\x9b\u202e\u200d\u2028\n") == "aU+001B[1mU+009BU+202EU+200DU+2028U+000A"
    )
    assert printable_lines("a\x1b\nb\r\n") == "aU+001B\nbU+000D\n"


def test_a_number_of_thousands_of_digits_is_cut_in_a_message() -> None:
    shown = "1" * MAX_WORD_LENGTH
    assert shorten(f"--n-best is {'1' * 4300}; expected 1") == f"--n-best is {shown}...; expected 1"
    assert shorten("1" * (2 * MAX_WORD_LENGTH - 1)) == "1" * (2 * MAX_WORD_LENGTH - 1)
    assert shorten("1" * 2 * MAX_WORD_LENGTH) == shown + "..."
