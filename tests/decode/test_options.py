"""The limits of options belong to what is allowed."""

import pytest

from transduce.config import DecodeConfig
from transduce.decode.options import MAX_ALTERNATIVES, Sampling, TranslateOptions
from transduce.errors import UsageError


def test_the_lowest_and_the_highest_temperature_are_allowed_and_no_others_beyond() -> None:
    for temperature in (0.0, 0.01, 100.0):
        assert Sampling(temperature=temperature).temperature == temperature
    for temperature in (0.009, 100.1):
        with pytest.raises(UsageError, match=r"expected 0, or 0\.01 to 100"):
            Sampling(temperature=temperature)


def test_as_many_hypotheses_as_the_beam_keeps_can_be_returned_and_no_more() -> None:
    config = DecodeConfig(beam=3)
    assert TranslateOptions(config, n_best=3).n_best == 3
    assert TranslateOptions(config, n_best=1, sampling=Sampling()).width == 1
    with pytest.raises(UsageError, match="n_best is 4; expected 1 to the beam size"):
        TranslateOptions(config, n_best=4)


def test_the_most_alternatives_are_allowed_and_one_more_is_not() -> None:
    config = DecodeConfig()
    assert TranslateOptions(config, alternatives=MAX_ALTERNATIVES).width == MAX_ALTERNATIVES
    with pytest.raises(UsageError, match="expected 0 to 128"):
        TranslateOptions(config, alternatives=MAX_ALTERNATIVES + 1)


def test_top_p_may_be_1_and_top_k_and_the_seed_may_be_0() -> None:
    found = Sampling(top_k=0, top_p=1.0, seed=0)
    assert (found.top_k, found.top_p, found.seed) == (0, 1.0, 0)
