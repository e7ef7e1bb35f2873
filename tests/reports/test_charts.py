"""Where charts draw their numbers."""

import re

import pytest

from transduce.reports.charts import BOTTOM, HEIGHT, TOP, Series, _ticks, bar_chart
from transduce.reports.html import element


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (0, 41.12), (-3, 7), (0.1, 0.9), (5, 5), (0, 2.6e9)]
)
def test_ticks_enclose_the_range_and_none_could_be_left_out(low: float, high: float) -> None:
    ticks = _ticks(low, high)
    assert ticks[0] <= low
    assert ticks[-1] >= high
    if low < high:
        assert ticks[1] > low
        assert ticks[-2] < high


def test_a_higher_bar_begins_higher_and_all_stand_on_the_floor() -> None:
    drawn = bar_chart("t", ["a", "b", "c"], [Series("s", [1.0, 2.0, 4.0])])
    bars = [
        (float(y), float(height))
        for y, height in re.findall(r'<rect [^>]*y="([\d.]+)"[^>]*height="([\d.]+)"', drawn)
    ]
    assert bars[0] > bars[1] > bars[2]
    assert [y + height for y, height in bars] == pytest.approx([HEIGHT - BOTTOM] * 3, abs=0.2)
    assert bars[2][0] >= TOP
    assert bars[2][1] == pytest.approx(4 * bars[0][1], abs=0.3)


def test_an_attribute_of_zero_is_written_and_one_of_none_is_not() -> None:
    assert element("p", "x", tabindex=0, title=None) == '<p tabindex="0">x</p>'
