import unicodedata

from transduce.text.normalize import MAX_MARKS, normalize, split_words

BELOW, ABOVE = "\u0323", "\u0307"  # sorted: below, then above


def test_a_run_of_marks_is_sorted_as_a_whole_up_to_the_limit_and_split_beyond_it() -> None:
    """The letter counts no mark; a text of other letters makes it long enough to be split."""
    before = "\u00e8" * MAX_MARKS
    whole = before + "q" + ABOVE * (MAX_MARKS - 1) + BELOW
    assert normalize(whole, "nfc") == unicodedata.normalize("NFC", whole)
    longer = before + "q" + ABOVE * MAX_MARKS + BELOW
    assert normalize(longer, "nfc") == longer, "the mark below would move to the front"


def test_control_characters_are_dropped_and_space_of_every_kind_is_kept() -> None:
    assert normalize("a\x00b\x08\t\n\x0b\x0c\r\x0e\x1f\x7f\x85c", "nfc") == "ab\t\n\x0b\x0c\r\x85c"
    c1 = "".join(map(chr, range(0x80, 0xA0)))
    assert normalize(f"a{c1}b", "nfc") == normalize(f"a{c1}b", "nfkc") == "a\x85b"
    assert normalize("a\x00e\u0301", "none") == "a\x00e\u0301"


def test_compatibility_characters_change_with_nfkc_only() -> None:
    assert normalize("ﬁ ²", "nfc") == "ﬁ ²"
    assert normalize("ﬁ ²", "nfkc") == "fi 2"


def test_words_and_signs_are_separate() -> None:
    assert split_words("Don't, naïve_7!") == ["Don", "'", "t", ",", "naïve_7", "!"]
