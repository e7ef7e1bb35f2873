"""The limits of the checks: what is just allowed, and what is just too much."""

from transduce.doctor import checks
from transduce.doctor.faults import MANY_TARGETS
from transduce.doctor.measure import PartStatistics, measure_part
from transduce.doctor.repeats import MAX_OTHER_TARGETS, DuplicateDetector, near_fingerprints
from transduce.text.corpus import Pair, PairList
from transduce.text.drift import Drift


def test_a_source_may_have_as_many_translations_as_the_limit_and_the_next_is_reported() -> None:
    detector = DuplicateDetector()
    pairs = [Pair("a dog", "un " + letter * 9) for letter in "abcdefgh"]
    notes = [detector.notes(pair, near_fingerprints(pair)) for pair in pairs]
    assert [bool(note) for note in notes] == [i >= MAX_OTHER_TARGETS for i in range(len(pairs))]
    assert notes[-1][0][0] == MANY_TARGETS


def test_a_copy_of_three_words_is_found_and_one_of_two_is_a_name() -> None:
    assert checks.find_copy(Pair("Anna loves Bob", "Anna loves Bob"))
    assert not checks.find_copy(Pair("Anna Bob", "Anna Bob"))


def test_a_copied_run_of_twelve_characters_is_found_and_one_of_eleven_is_a_name() -> None:
    assert checks.find_copy(Pair("愛" * 12, "愛" * 12))
    assert not checks.find_copy(Pair("愛" * 11, "愛" * 11))


def test_the_most_characters_and_the_most_words_are_allowed() -> None:
    for most, unit in ((2000, "x"), (250, "x ")):
        assert checks.find_excess_length(Pair("a", unit * most)) is None
        assert checks.find_excess_length(Pair("a", unit * (most + 1))) is not None


def test_a_number_of_two_digits_matters_and_one_of_a_digit_does_not() -> None:
    assert checks.find_different_numbers(Pair("12 cats", "gatti")) == "12 on one side only"
    assert checks.find_different_numbers(Pair("7 cats", "gatti")) is None
    assert checks.find_different_numbers(Pair("007 and 1,000", "7 e 1.000")) is None


def test_pairs_are_trusted_up_to_the_line_before_a_drift() -> None:
    pairs = PairList([Pair("a", "b")])
    measured = measure_part(pairs)
    assert measured.n_trusted == 1

    def unequal(*drifts: Drift) -> PartStatistics:
        lengths = (measured.source_lengths, measured.target_lengths, measured.ratios)
        return PartStatistics(pairs, 30, 31, drifts, *lengths)

    assert unequal(Drift(line=12, shift=1)).n_trusted == 11
    assert unequal().n_trusted == 30
