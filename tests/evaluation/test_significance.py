"""Paired significance tests, against known answers and against trying all exchanges."""

import itertools
from collections import Counter

import numpy as np
import pytest
from sacrebleu.significance import PairedTest

from tests.evaluation.test_metrics import TARGETS, spoil
from transduce.errors import UsageError
from transduce.evaluation.metrics import corpus_scores, make_metrics
from transduce.evaluation.significance import (
    N_RESAMPLES,
    N_TRIALS,
    half_interval,
    p_value,
    read_seed,
    score_systems,
)


def test_a_better_system_is_found_and_a_copy_does_not_differ() -> None:
    first, better = spoil(TARGETS, 0.3, 1), spoil(TARGETS, 0.1, 2)
    rows = score_systems({"first": first, "better": better, "copy": list(first)}, TARGETS)
    assert [(row.system, row.score.name) for row in rows] == [
        (system, name)
        for name in ("BLEU", "chrF2", "TER")
        for system in ("first", "better", "copy")
    ]
    for base, good, copy in (rows[:3], rows[3:6], rows[6:]):
        assert (base.difference, base.p_bootstrap, base.p_randomisation) == (None, None, None)
        assert (copy.difference, copy.p_bootstrap, copy.p_randomisation) == (0, 1, 1)
        assert good.difference == pytest.approx(good.score.value - base.score.value)
        assert (good.difference < 0) == (good.score.name == "TER")
        assert good.p_bootstrap is not None
        assert good.p_randomisation is not None
        assert max(good.p_bootstrap, good.p_randomisation) < 0.01
        assert good.interval > 0
        assert "bs:1000|ar:10000|seed:12345" in good.score.signature
    for row, score in zip(rows[1::3], corpus_scores(better, TARGETS), strict=True):
        assert row.score.value == pytest.approx(score.value)


@pytest.mark.parametrize(
    ("n_better", "n_worse"), [(1, 0), (2, 0), (5, 0), (8, 0), (7, 1), (6, 2), (3, 3)]
)
def test_p_of_randomization_is_that_of_trying_all_exchanges(n_better: int, n_worse: int) -> None:
    """Brute force over all exchanges, possible where few sentences differ.

    With 10,000 trials, four standard errors are at most 0.02. Each line has one wrong word, so many
    exchanges tie with the observed difference.
    """
    right, wrong = TARGETS[:30], [f"{line.rsplit(' ', 1)[0]} x" for line in TARGETS[:30]]
    first, other = (
        [*wrong[:n_better], *right[n_better:]],
        [*right[:-n_worse], *wrong[-n_worse:]] if n_worse else right,
    )
    places = [i for i in range(30) if first[i] != other[i]]
    found = {
        row.score.name: row
        for row in score_systems({"first": first, "other": other}, right)
        if row.difference
    }
    larger: Counter[str] = Counter()
    # Exchanging the first line or not only changes the sign of a difference.
    exchanges = list(itertools.product((False, True), repeat=len(places) - 1))
    for flips in exchanges:
        one, two = list(first), list(other)
        for i in itertools.compress(places[1:], flips):
            one[i], two[i] = two[i], one[i]
        for ours, theirs in zip(corpus_scores(one, right), corpus_scores(two, right), strict=True):
            if ours.name in found:
                observed = found[ours.name].difference or 0
                larger[ours.name] += abs(ours.value - theirs.value) >= abs(observed) - 1e-9
    for name, row in found.items():
        assert row.p_randomisation == pytest.approx(larger[name] / len(exchanges), abs=0.02)


def test_two_equally_bad_systems_do_not_differ_significantly() -> None:
    first, second = spoil(TARGETS, 0.2, 1), spoil(TARGETS, 0.2, 2)
    for row in score_systems({"first": first, "second": second}, TARGETS)[1::2]:
        assert min(row.p_bootstrap or 1, row.p_randomisation or 1) > 0.05


def test_the_p_value_counts_ties_and_the_observation_itself() -> None:
    assert p_value(np.array([0.0, 1.0, 2.0, 3.0]), 2.0) == pytest.approx(3 / 5)
    assert p_value(np.array([0.0, 0.0, 0.0]), 1.0) == pytest.approx(1 / 4)
    assert p_value(np.array([1.0, 1.0, 1.0]), 1.0) == 1


def test_the_interval_omits_one_in_forty_on_each_side() -> None:
    assert half_interval(np.arange(1000.0)) == (974 - 25) / 2


def test_one_sentence_that_differs_is_not_significant() -> None:
    """Exchanged or not, the absolute difference is the same: p = 1."""
    worse = [f"{TARGETS[0]} x", *TARGETS[1:20]]
    rows = score_systems({"worse": worse, "right": TARGETS[:20]}, TARGETS[:20])
    assert {row.p_randomisation for row in rows if row.difference} == {1.0}


def test_without_ties_scores_and_p_values_are_those_of_sacrebleu() -> None:
    """Same samples from the same seed; sacreBLEU leaves out samples equal to the observation."""
    systems = {"first": spoil(TARGETS, 0.2, 1), "second": spoil(TARGETS, 0.22, 2)}
    rows = {(row.score.name, row.system): row for row in score_systems(systems, TARGETS)}
    for name, metric in make_metrics().items():
        named = list(systems.items())
        _, bootstrap = PairedTest(named, {name: metric}, [TARGETS], "bs", N_RESAMPLES)()
        _, randomization = PairedTest(named, {name: metric}, [TARGETS], "ar", N_TRIALS)()
        for theirs, system in zip(bootstrap[name], systems, strict=True):
            ours = rows[name, system]
            assert ours.score.value == pytest.approx(theirs.score, abs=1e-9)
            assert ours.interval == pytest.approx(theirs.ci, abs=1e-4)  # theirs are float32
        ours = rows[name, "second"]
        assert ours.p_bootstrap == pytest.approx(bootstrap[name][1].p_value, abs=0.002)
        assert ours.p_randomisation >= randomization[name][1].p_value - 1e-9
        if name != "TER":  # whole edits: many trials tie with the observation
            assert ours.p_randomisation == pytest.approx(randomization[name][1].p_value, abs=0.002)


def test_the_seed_is_that_of_sacrebleu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    assert read_seed() == 12345
    monkeypatch.setenv("SACREBLEU_SEED", "0")
    assert read_seed() == 0
    monkeypatch.setenv("SACREBLEU_SEED", "None")
    assert read_seed() is None
    monkeypatch.setenv("SACREBLEU_SEED", "1.5")
    with pytest.raises(UsageError, match=r"SACREBLEU_SEED is '1\.5'; expected a whole number"):
        read_seed()
