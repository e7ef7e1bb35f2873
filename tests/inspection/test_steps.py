import pytest

from transduce.decode.load import load
from transduce.inspection.steps import time_steps


def test_i_love_you_very_much_takes_four_time_steps_of_one_token() -> None:
    steps = time_steps(load(), "I love you very much")
    assert [step.written for step in steps] == ["Ti", "amo", "molto", "[EOS]"]
    assert [step.read for step in steps] == [
        ("[SOS]",),
        ("[SOS]", "Ti"),
        ("[SOS]", "Ti", "amo"),
        ("[SOS]", "Ti", "amo", "molto"),
    ]
    for step in steps:
        probabilities = [candidate.probability for candidate in step.candidates]
        assert probabilities == sorted(probabilities, reverse=True)
        assert sum(probabilities) <= 1.0001
        assert step.written == step.candidates[0].token


def test_the_steps_spell_the_greedy_translation() -> None:
    translator = load()
    text = "The girls did not eat my apples"
    written = [step.written for step in time_steps(translator, text)][:-1]
    assert " ".join(written).replace(" ##", "") == translator.translate([text], beam=1)[0].text


def test_the_probability_of_a_translation_is_the_product_of_its_steps() -> None:
    """The candidates shown agree with the score of greedy search (log-probability by length)."""
    import math

    translator = load()
    steps = time_steps(translator, "I love you very much")
    total = sum(math.log(step.candidates[0].probability) for step in steps)
    [translation] = translator.translate(["I love you very much"], beam=1, alpha=1.0)
    assert translation.score * len(steps) == pytest.approx(total, abs=1e-4)
