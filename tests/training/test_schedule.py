import pytest

from transduce.config import ModelConfig, TrainConfig
from transduce.training.schedule import cosine, inverse_sqrt, learning_rate, paper_peak


@pytest.mark.parametrize("step", [1, 10, 3999, 4000, 4001, 100_000])
def test_equation_3_as_printed(step: int) -> None:
    printed = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
    assert learning_rate(step, TrainConfig(), ModelConfig()) == pytest.approx(printed)


def test_the_peak_is_reached_at_the_end_of_the_warmup_and_nowhere_else() -> None:
    rates = [inverse_sqrt(step, 0.005, 100) for step in range(1, 1000)]
    assert max(rates) == rates[99] == 0.005
    assert rates[:100] == sorted(rates[:100])
    assert rates[99:] == sorted(rates[99:], reverse=True)


def test_a_given_peak_replaces_the_papers() -> None:
    assert learning_rate(4000, TrainConfig(learning_rate=0.002), ModelConfig()) == pytest.approx(
        0.002
    )
    assert paper_peak(512, 4000) == pytest.approx(0.000699, abs=1e-6)


def test_the_cosine_ends_at_zero() -> None:
    assert cosine(100, 0.01, 100, 1000) == 0.01
    assert cosine(550, 0.01, 100, 1000) == pytest.approx(0.005)
    assert cosine(1000, 0.01, 100, 1000) == pytest.approx(0)
