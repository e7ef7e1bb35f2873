"""What every self-contained page shares: shell, tables, charts in SVG, escaping. A page loads nothing and runs nothing.

Everything that is not `Html` already is escaped on its way in, so that text out of a corpus stays text.
"""

import html
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

STYLE = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 480, 200, 44, 22, 8  # of a chart and of the room for its labels
DIGIT = 7  # about as wide as one
COLORS = ("one", "two", "three", "four")

Marks = Sequence[tuple[float, str]]  # what stands below a chart, and where


class Html(str):
    """Text that is HTML already, and is not escaped again."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Series:
    """Numbers with a name: the heights of bars, or of the points of a line."""

    name: str
    values: Sequence[float]


def escape(content: object) -> Html:
    """Anything as HTML: text is escaped, HTML stays."""
    return content if isinstance(content, Html) else Html(html.escape(str(content)))


def join(parts: Iterable[object]) -> Html:
    """Parts one after the other."""
    return Html("".join(escape(part) for part in parts))


def element(name: str, *content: object, style: str = "") -> Html:
    """An element; `style` is one of the classes of STYLE."""
    opening = f'{name} class="{html.escape(style)}"' if style else name
    return Html(f"<{opening}>{join(content)}</{name}>")


def page(title: str, *content: object) -> str:
    """A whole page."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><style>\n{STYLE}</style></head>'
        f"<body><main>{join(content)}</main></body></html>\n"
    )


def tiles(items: Iterable[tuple[object, object]]) -> Html:
    """Large numbers, each with what it counts."""
    each = (
        element("div", element("b", value), element("span", label), style="tile")
        for value, label in items
    )
    return element("div", *each, style="tiles")


def table(
    headers: Sequence[object], rows: Iterable[Sequence[object]], numbers: Iterable[int] = ()
) -> Html:
    """A table; the columns named by `numbers`, from 0, stand to the right."""
    right = set(numbers)

    def row(cell: str, cells: Sequence[object]) -> Html:
        return element(
            "tr",
            *(
                element(cell, text, style="number" if i in right else "")
                for i, text in enumerate(cells)
            ),
        )

    body = element("tbody", *(row("td", cells) for cells in rows))
    whole = element("table", element("thead", row("th", headers)), body)
    return Html(
        f'<div class="scroll" tabindex="0">{whole}</div>'
    )  # so that arrow keys scroll it where it is too wide


def details(summary: object, *content: object, is_open: bool = False) -> Html:
    """Something to unfold."""
    return Html(
        f"<details{' open' if is_open else ''}>{element('summary', summary)}{join(content)}</details>"
    )


def bar_chart(
    title: str,
    labels: Sequence[str],
    series: Sequence[Series],
    marks: Marks | None = None,
    n_pale: int = 0,
) -> Html:
    """Bars side by side for up to four series, the last `n_pale` paler; one too low to be seen has its number, if that fits.

    `marks` says what stands below which bar (from 0); left out, about eight labels.
    """
    ticks = _ticks(0, max((value for one in series for value in one.values), default=0) or 1)
    step = (WIDTH - LEFT) / max(len(labels), 1)
    width = step * 0.86 / len(series)
    floor, left = _y(0, ticks), [LEFT + i * step for i in range(len(labels))]
    pale = [""] * (len(labels) - n_pale) + [" pale"] * n_pale
    bars = [
        f'<rect class="{color}{pale[i]}" x="{left[i] + number * width:.1f}" y="{_y(value, ticks):.1f}" width="{width:.1f}" '
        f'height="{floor - _y(value, ticks):.1f}"><title>{escape(f"{labels[i]}: {_exactly(value)}")}</title></rect>'
        + f'<text x="{left[i] + (number + 0.5) * width:.1f}" y="{floor - 4:.1f}" text-anchor="middle">'
        f"{_exactly(value)}</text>"
        * (floor - _y(value, ticks) < 1 and len(_exactly(value)) * DIGIT <= width)
        for number, (one, color) in enumerate(zip(series, COLORS, strict=False))
        for i, value in enumerate(one.values)
    ]
    if marks is None:
        marks = [(i, labels[i]) for i in range(0, len(labels), max(1, round(len(labels) / 8)))]
    return _figure(
        title, series, bars, [(LEFT + (at + 0.43) * step, label) for at, label in marks], ticks
    )


def line_chart(
    title: str,
    x: Sequence[float],
    series: Sequence[Series],
    marks: Marks | None = None,
    *,
    is_log: bool = False,
) -> Html:
    """Lines for up to four series over the same x; a value that is not finite leaves a gap.

    `marks` says what stands below which x; left out, five numbers. With `is_log` the scale is in powers of ten.
    """
    if is_log:
        series = [
            Series(one.name, [math.log10(v) if v > 0 else math.nan for v in one.values])
            for one in series
        ]
    finite = [value for one in series for value in one.values if math.isfinite(value)]
    ticks = _ticks(min(finite, default=0.0), max(finite, default=1.0))
    first, last = (x[0], x[-1]) if x else (0.0, 1.0)

    def place(value: float) -> float:
        return LEFT + (WIDTH - LEFT - 8) * (value - first) / ((last - first) or 1)

    paths = []
    for one, color in zip(series, COLORS, strict=False):
        drawn, gap = [], True
        for at, value in zip(x, one.values, strict=True):
            if math.isfinite(value):
                drawn.append(f"{'M' if gap else 'L'}{place(at):.1f} {_y(value, ticks):.1f}")
            gap = not math.isfinite(value)
        paths.append(f'<path class="{color}" d="{" ".join(drawn)}"></path>')
    if marks is None:
        marks = [
            (first + (last - first) * i / 4, _short(first + (last - first) * i / 4))
            for i in range(5)
        ]
    below = [(place(at), label) for at, label in marks]
    return _figure(title, series, paths, below, ticks, _power if is_log else _short)


def _figure(
    title: str,
    series: Sequence[Series],
    drawn: Iterable[str],
    marks: Marks,
    ticks: Sequence[float],
    written: Callable[[float], str] = lambda value: _short(value),
) -> Html:
    grid = [
        f'<line class="axis" x1="{LEFT}" x2="{WIDTH}" y1="{_y(value, ticks):.1f}" y2="{_y(value, ticks):.1f}"></line>'
        f'<text x="{LEFT - 6}" y="{_y(value, ticks) + 4:.1f}" text-anchor="end">{escape(written(value))}</text>'
        for value in ticks
    ]
    below = [
        f'<text x="{x:.1f}" y="{HEIGHT - 4}" text-anchor="middle">{escape(label)}</text>'
        for x, label in marks
    ]
    keys = [
        Html(f'<span><span class="key {color}"></span>{escape(one.name)}</span> ')
        for one, color in zip(series, COLORS, strict=False)
        if len(series) > 1
    ]
    picture = Html(
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">{"".join([*grid, *drawn, *below])}</svg>'
    )
    return element("figure", element("figcaption", title, " ", *keys), picture, style="card")


def _ticks(low: float, high: float) -> list[float]:
    """Three to six round numbers that enclose a range."""
    if low == high:
        low, high = low - 0.5, high + 0.5
    rough = (high - low) / 4
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * size for size in (1, 2, 2.5, 5, 10) if unit * size >= rough)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [step * i for i in range(first, last + 1)]


def _y(value: float, ticks: Sequence[float]) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (ticks[-1] - value) / (ticks[-1] - ticks[0])


def _exactly(value: float) -> str:
    """A number for whoever points at it."""
    return f"{value:,.0f}" if value == round(value) else f"{value:.3g}"


def _power(exponent: float) -> str:
    """A number on a logarithmic axis, given its exponent."""
    return _short(10**exponent) if -3 <= exponent <= 6 else f"1e{exponent:g}"


def _short(value: float) -> str:
    """A number for an axis: 12000 is 12k."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"
