"""Pages: text stays text, nothing is loaded, charts show what they are given."""

import math
import re
from html.parser import HTMLParser

import pytest

from transduce.reports.charts import Series, bar_chart, line_chart
from transduce.reports.html import Html, details, element, escape, join, page, table, tiles

ATTACK = "<script>alert('x')</script>\"&"
VOID = {"meta"}


class Balanced(HTMLParser):
    """A parser that fails on a tag that is not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def whole_page(text: str) -> str:
    series = [Series(text, [1, 2, 0]), Series(text, [3, math.nan, 1])]
    return page(
        text,
        text,
        element("p", text, style="quiet"),
        tiles([(text, text)]),
        table((text,), [(text,), (3,)], numbers=(0,)),
        details(text, text, is_open=True),
        bar_chart(text, [text, text, text], series[:1], marks=[(0, text)]),
        line_chart(text, [0, 1, 2], series),
    )


def test_text_is_escaped_wherever_it_goes_in() -> None:
    shown = whole_page(ATTACK)
    assert "<script" not in shown
    assert shown.count("&lt;script&gt;") >= 14
    parser = Balanced()
    parser.feed(shown)
    parser.close()
    assert parser.open == []
    assert "script" not in parser.seen


def test_what_is_html_is_not_escaped_twice() -> None:
    assert escape(escape("<b>")) == "&lt;b&gt;"
    assert join([Html("<b>"), "<b>"]) == "<b>&lt;b&gt;"
    assert element("p", element("b", "&")) == "<p><b>&amp;</b></p>"


def test_a_page_loads_nothing_and_runs_nothing() -> None:
    shown = whole_page("x")
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in shown
    assert shown.startswith("<!doctype html>")
    for outside in ("http://", "https://", "src=", "@import", "url(", "href="):
        assert outside not in shown


def heights(chart: str) -> list[float]:
    return [float(height) for height in re.findall(r'<rect[^>]* height="([\d.]+)"', chart)]


def test_bars_are_as_high_as_their_numbers() -> None:
    one, two, four = heights(bar_chart("t", ["a", "b", "c"], [Series("s", [10, 20, 40])]))
    assert two == pytest.approx(2 * one, abs=0.1)
    assert four == pytest.approx(4 * one, abs=0.1)
    assert heights(bar_chart("t", ["a"], [Series("s", [0])])) == [0.0]
    assert heights(bar_chart("t", [], [Series("s", [])])) == []


def test_a_bar_too_low_to_be_seen_has_its_number_and_the_last_ones_can_be_paler() -> None:
    chart = bar_chart("t", ["a", "b", "c"], [Series("s", [0, 1e-9, 40])], n_pale=1)
    assert ">1e-09</text>" in chart
    assert [" pale" in each for each in re.findall(r"<rect[^>]*>", chart)] == [False, False, True]
    assert "1e-09</text>" not in bar_chart("t", ["a"] * 20, [Series("s", [1e-9] * 19 + [40])])


def test_a_line_goes_up_where_its_numbers_do_and_has_gaps_where_there_are_none() -> None:
    chart = line_chart("t", [0, 1, 2, 3], [Series("s", [1.0, 2.0, math.nan, 3.0])])
    path = re.search(r'd="([^"]*)"', chart)
    assert path is not None
    points = path[1].split("M")[1:]
    assert len(points) == 2
    ys = [float(point.split(" ")[1]) for point in re.split("[ML]", path[1])[1:]]
    assert ys == sorted(ys, reverse=True)


@pytest.mark.parametrize("values", [[], [math.nan, math.inf], [5.0, 5.0], [-1e12, 1e12]])
def test_lines_of_missing_or_extreme_values_can_be_drawn(values: list[float]) -> None:
    chart = line_chart("t", list(range(len(values))), [Series("s", values)])
    assert "nan" not in chart
    assert "inf" not in chart


def test_the_axis_has_round_numbers_that_enclose_the_values() -> None:
    labels = re.findall(
        r'text-anchor="end">([^<]*)<', line_chart("t", [0, 1], [Series("s", [1130, 2870])])
    )
    assert labels == ["1k", "1.5k", "2k", "2.5k", "3k"]
