"""Bar charts and line charts as SVG, without scripts."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from transduce.reports.html import Html, element, escape, join

# Size of a chart, and the margins for its labels, in units of the SVG.
WIDTH, HEIGHT = 480, 200
LEFT, RIGHT, TOP, BOTTOM = 44, 8, 8, 22
DIGIT_WIDTH = 7  # approximate width of a digit
COLORS = ("one", "two", "three", "four")  # classes of html.css
BAR_SHARE = 0.86  # share of the width of a group that its bars take; the rest is a gap

Marks = Sequence[tuple[float, str]]  # labels below a chart: position and text


@dataclass(frozen=True, slots=True)
class Series:
    """Named values: the heights of bars, or of the points of a line."""

    name: str
    values: Sequence[float]


def bar_chart(
    title: str,
    labels: Sequence[str],
    series: Sequence[Series],
    marks: Marks | None = None,
    n_pale: int = 0,
) -> Html:
    """Draw up to four series as groups of bars, one group per label.

    `marks` are the labels of the axis, at indices of `labels`; by default about eight labels are
    shown. The last `n_pale` groups are paler. A bar too low to be seen gets its value as text, if
    there is room.
    """
    ticks = _ticks(0, max((value for each in series for value in each.values), default=0) or 1)
    group_width = (WIDTH - LEFT) / max(len(labels), 1)
    bar_width = group_width * BAR_SHARE / len(series)
    bars = []
    for number, (each, color) in enumerate(zip(series, COLORS, strict=False)):
        for i, value in enumerate(each.values):
            is_pale = i >= len(labels) - n_pale
            bars.append(
                _bar(
                    label=f"{labels[i]}: {_exact(value)}",
                    value=value,
                    x=LEFT + i * group_width + number * bar_width,
                    width=bar_width,
                    style=f"{color} pale" if is_pale else color,
                    ticks=ticks,
                )
            )
    if marks is None:
        every = max(1, round(len(labels) / 8))
        marks = [(i, labels[i]) for i in range(0, len(labels), every)]
    middle = BAR_SHARE / 2
    below = [(LEFT + (at + middle) * group_width, label) for at, label in marks]
    return _figure(title, series, bars, below, ticks)


def _bar(
    *, label: str, value: float, x: float, width: float, style: str, ticks: Sequence[float]
) -> Html:
    top, floor = _y(value, ticks), _y(0, ticks)
    bar = Html(
        f'<rect class="{style}" x="{x:.1f}" y="{top:.1f}" width="{width:.1f}" '
        f'height="{floor - top:.1f}">{element("title", label)}</rect>'
    )
    number = _exact(value)
    is_invisible = floor - top < 1
    fits = len(number) * DIGIT_WIDTH <= width
    if not (is_invisible and fits):
        return bar
    return join([bar, _text(x + width / 2, floor - 4, number, anchor="middle")])


def line_chart(
    title: str,
    x: Sequence[float],
    series: Sequence[Series],
    marks: Marks | None = None,
    *,
    is_log: bool = False,
) -> Html:
    """Draw up to four series as lines over the same x. A value that is not finite leaves a gap.

    `marks` labels the x axis, by default with five numbers. With `is_log` the y axis is logarithmic
    and values of zero or less leave a gap.
    """
    if is_log:
        series = [Series(each.name, [_log10(v) for v in each.values]) for each in series]
    finite = [value for each in series for value in each.values if math.isfinite(value)]
    ticks = _ticks(min(finite, default=0.0), max(finite, default=1.0))
    first, last = (x[0], x[-1]) if x else (0.0, 1.0)
    span = (last - first) or 1

    def place(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - first) / span

    paths = []
    for each, color in zip(series, COLORS, strict=False):
        points, is_gap = [], True
        for at, value in zip(x, each.values, strict=True):
            if math.isfinite(value):
                command = "M" if is_gap else "L"
                points.append(f"{command}{place(at):.1f} {_y(value, ticks):.1f}")
            is_gap = not math.isfinite(value)
        paths.append(Html(f'<path class="{color}" d="{" ".join(points)}"></path>'))
    if marks is None:
        shown = [first + (last - first) * i / 4 for i in range(5)]
        marks = [(value, _short(value)) for value in shown]
    below = [(place(at), label) for at, label in marks]
    return _figure(title, series, paths, below, ticks, _power_of_ten if is_log else _short)


def _log10(value: float) -> float:
    return math.log10(value) if value > 0 else math.nan


def _short(value: float) -> str:
    """Write a number for an axis: 12000 is 12k."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def _power_of_ten(exponent: float) -> str:
    """Write a number for a logarithmic axis, given its exponent."""
    return _short(10**exponent) if -3 <= exponent <= 6 else f"1e{exponent:g}"


def _exact(value: float) -> str:
    """Write a number for a tooltip."""
    return f"{value:,.0f}" if value == round(value) else f"{value:.3g}"


def _figure(
    title: str,
    series: Sequence[Series],
    shapes: Iterable[Html],
    marks: Marks,
    ticks: Sequence[float],
    format_tick: Callable[[float], str] = _short,
) -> Html:
    """Put shapes into a figure with a grid, labels and, for several series, a legend."""
    grid = []
    for value in ticks:
        y = _y(value, ticks)
        line = f'<line class="axis" x1="{LEFT}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"></line>'
        grid += [Html(line), _text(LEFT - 6, y + 4, format_tick(value), anchor="end")]
    below = [_text(x, HEIGHT - 4, label, anchor="middle") for x, label in marks]
    legend = []
    if len(series) > 1:
        for each, color in zip(series, COLORS, strict=False):
            key = element("span", style=f"key {color}")
            legend += [element("span", key, each.name), " "]
    picture = Html(
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
        f"{join([*grid, *shapes, *below])}</svg>"
    )
    return element("figure", element("figcaption", title, " ", *legend), picture, style="card")


def _text(x: float, y: float, text: str, *, anchor: str) -> Html:
    position = {"x": f"{x:.1f}", "y": f"{y:.1f}"}
    return element("text", text, **position, **{"text-anchor": anchor})


def _ticks(low: float, high: float) -> list[float]:
    """Return three to six round numbers that enclose a range."""
    largest = max(abs(low), abs(high))
    if high - low <= max(1e-9 * largest, 1e-300):  # flat, as far as floats can tell
        margin = max(0.5, 1e-6 * largest)
        low, high = low - margin, high + margin
    rough = (high - low) / 4
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * size for size in (1, 2, 2.5, 5, 10) if unit * size >= rough)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [step * i for i in range(first, last + 1)]


def _y(value: float, ticks: Sequence[float]) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (ticks[-1] - value) / (ticks[-1] - ticks[0])
