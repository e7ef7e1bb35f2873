"""The page of `transduce claims --html`: every experiment with its numbers, plots and verdict.

It is not in reports/ because it needs the types of claims, which is above reports.
"""

from collections.abc import Iterator, Mapping

from transduce.claims import SOURCES, claims
from transduce.claims.claim import VERDICTS, Claim, Plot, Result, Verdict
from transduce.reports.charts import bar_chart, line_chart
from transduce.reports.html import Html, details, element, page, table, tiles

MEANINGS: Mapping[Verdict, str] = {
    "shown": "the numbers agree with the claim, and the control behaves as expected",
    "shown in part": "the numbers agree with part of the claim, or only in some cases",
    "not at this scale": "inconclusive: the effect is smaller than chance here, or the control "
    "does not behave as expected",
    "refuted": "the numbers contradict the claim",
}
STYLES = dict(zip(VERDICTS, ("good", "half", "quiet", "bad"), strict=True))
N_MARKS = 9  # approximate number of labels below a plot


def claims_page(results: Mapping[str, Result], about: str, command: str, date: str) -> str:
    """Return the page. `about` says which model was examined."""
    return page("transduce claims", *_sections(results, about, command, date))


def _sections(results: Mapping[str, Result], about: str, command: str, date: str) -> Iterator[Html]:
    yield element("h1", "Attention Is All You Need, claim by claim")
    yield element(
        "p",
        "What the paper, and texts that explain it, claim about the Transformer. "
        "Each claim is tested by an experiment.",
    )
    yield element("p", f"{about} {SOURCES}")
    yield element("p", element("code", command), f" \u00b7 {date}", style="quiet")
    numbers = []
    for verdict in VERDICTS:
        count = sum(result.verdict == verdict for result in results.values())
        numbers.append((element("span", count, style=STYLES[verdict]), verdict))
    yield tiles(numbers)
    yield details("What the verdicts mean", table(("", ""), MEANINGS.items()))
    yield element("h2", "All claims")
    rows = [
        (element("a", claims()[name].title, href=f"#{name}"), _verdict(result))
        for name, result in results.items()
    ]
    yield table(("claim", "verdict"), rows)
    for name, result in results.items():
        yield element("section", *_claim(claims()[name], result), id=name)


def _claim(claim: Claim, result: Result) -> Iterator[Html]:
    yield element("h2", f"{claim.title}  ", _verdict(result))
    source = element("span", f"  ({claim.source})", style="quiet")
    yield _labelled("Claim: ", claim.statement, source)
    yield _labelled("Would refute it: ", claim.refuted_by)
    own_models = "(With models of its own.) " if claim.model == "own" else ""
    yield _labelled("Done: ", own_models, claim.done)
    yield _labelled("Found: ", result.says)
    yield _labelled("Control: ", result.control)
    yield element("div", *(_plot(plot, result) for plot in result.plots), style="charts")
    yield details("All numbers", _numbers(result))
    notes: list[object] = [f"Seeds: {claim.seeds}. "]
    if claim.station:
        command = element("code", "transduce inspect --html")
        notes += ["See it: station \u201c", claim.station, "\u201d of the page of ", command, ". "]
    notes += ["Run it: ", element("code", f"transduce claims {claim.name}")]
    yield element("p", *notes, style="quiet")


def _labelled(label: str, *content: object) -> Html:
    return element("p", element("b", label), *content)


def _verdict(result: Result) -> Html:
    return element("span", f"\u25cf {result.verdict}", style=f"verdict {STYLES[result.verdict]}")


def _numbers(result: Result) -> Html:
    """Return the table of a result. Columns without text are aligned to the right."""
    numbers = [
        column
        for column, cells in enumerate(zip(*result.rows, strict=True))
        if all(cell == "" or not isinstance(cell, str) for cell in cells)
    ]
    rows = [[format_cell(cell) for cell in row] for row in result.rows]
    return table(result.headers, rows, numbers)


def _plot(plot: Plot, result: Result) -> Html:
    every = max(1, round(len(plot.labels) / N_MARKS))
    marks = [(float(i), plot.labels[i]) for i in range(0, len(plot.labels), every)]
    if plot.kind == "bars":
        n_pale = 1 if _ends_in_control(plot, result) else 0
        return bar_chart(plot.title, plot.labels, plot.series, marks, n_pale)
    positions = [float(i) for i in range(len(plot.labels))]
    return line_chart(plot.title, positions, plot.series, marks, is_log=plot.is_log)


def _ends_in_control(plot: Plot, result: Result) -> bool:
    """Return whether the last bar of a plot is the control.

    It is if there is one bar for each row of the result, and the last row is the control.
    """
    is_row_each = len(plot.labels) == len(result.rows) and len(plot.series) == 1
    return is_row_each and "(control)" in str(result.rows[-1][0])


def format_cell(cell: object) -> str:
    """Return a cell of a table as text; numbers with about three significant digits."""
    if not isinstance(cell, (int, float)):
        return str(cell)
    if cell == round(cell) and abs(cell) < 1e6:
        return f"{cell:.0f}"
    if abs(cell) < 1000:
        return f"{cell:.3g}"
    return f"{cell:,.0f}" if abs(cell) < 1e6 else f"{cell:.1e}"
