"""What is mixed in: every pair in its turn, in equal shares, nothing that is held out."""

from collections import Counter

import pytest

from transduce.data import mixing
from transduce.data.mixing import Mixture, choose_mixture
from transduce.text.corpus import Pair

OWN = [Pair(f"own {i}", f"mine {i}") for i in range(7)]
OTHERS = [Pair(f"other {i}", f"theirs {i}") for i in range(50)]


@pytest.mark.parametrize("n_own", [1, 3, 7])
@pytest.mark.parametrize("n_others", [1, 5, 50])
def test_own_and_other_pairs_alternate_and_each_has_an_equal_share(
    n_own: int, n_others: int
) -> None:
    own = OWN[:n_own]
    mixture = choose_mixture(OTHERS[:n_others], n_own, held_out=())
    mixed = list(mixture.mix_into(iter(own)))
    assert mixed[::2] == own * mixture.n_times
    counts = Counter(mixed[1::2])
    assert max(counts.values()) - min(counts.values()) <= 1
    assert mixture.n_times == max(1, round(n_others / n_own))


def test_without_others_the_corpus_is_unchanged() -> None:
    assert list(Mixture().mix_into(OWN)) == OWN


def test_what_is_held_out_or_blank_is_never_mixed_in() -> None:
    others = [*OTHERS, Pair("", "x"), Pair("x", " ")]
    mixture = choose_mixture(others, 7, held_out={"other 3", "other 49"})
    assert sorted(mixture.others) == sorted(set(OTHERS) - {OTHERS[3], OTHERS[49]})


def test_of_many_pairs_a_sample_is_drawn_in_which_all_places_have_the_same_chance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mixing, "MIN_MIXED", 100)
    others = [Pair(str(i), str(i)) for i in range(1000)]
    mixture = choose_mixture(others, 5, held_out=())
    assert len(set(mixture.others)) == len(mixture.others) == 100
    assert choose_mixture(others, 5, held_out=()) == mixture
    # The mean of 100 places of 1,000 is 500, with a standard error of 27.
    assert 390 < sum(int(pair.source) for pair in mixture.others) / 100 < 610
    assert mixture.n_times == 20


def test_the_sample_grows_with_the_corpus_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixing, "MIN_MIXED", 10)
    monkeypatch.setattr(mixing, "MAX_MIXED", 40)
    sizes = [len(choose_mixture(OTHERS, n_own, held_out=()).others) for n_own in (1, 3, 4, 5, 90)]
    assert sizes == [10, 30, 40, 40, 40]
    assert choose_mixture(OTHERS, 90, held_out=()).n_times == 1
