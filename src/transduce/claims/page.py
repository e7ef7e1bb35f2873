"""`transduce claims --html`: every experiment as one page: what is claimed, what was done, the numbers, the plots, the verdict."""

from collections.abc import Iterator, Mapping

from transduce.claims import TEXTS, VERDICTS, Claim, Plot, Result, Verdict, claims
from transduce.reports.charts import bar_chart, line_chart
from transduce.reports.html import Html, details, element, join, page, table, tiles

MEANS: Mapping[Verdict, str] = {
    "shown": "the numbers say what the claim says, and the control behaves as it must",
    "shown in part": "some of it is seen, or only in some of the cases",
    "not at this scale": "the experiment cannot tell: the effect is smaller than chance here, or the control does not behave",
    "refuted": "the numbers say otherwise",
}
COLOUR = dict(zip(VERDICTS, ("good", "half", "quiet", "bad"), strict=True))


def claims_page(results: Mapping[str, Result], about: str, command: str, date: str) -> str:
    """The whole page; `about` says which model was looked into."""
    return page("transduce claims", *_parts(results, about, command, date))


def _parts(results: Mapping[str, Result], about: str, command: str, date: str) -> Iterator[Html]:
    yield element("h1", "Attention Is All You Need, claim by claim")
    yield element(
        "p",
        "What the paper, and texts that explain it, say about the Transformer, each put to the test.",
    )
    yield element("p", f"{about} {TEXTS}")
    yield element("p", element("code", command), f" · {date}", style="quiet")
    counts = [
        (verdict, sum(result.verdict == verdict for result in results.values()))
        for verdict in VERDICTS
    ]
    yield tiles([(element("span", n, style=COLOUR[verdict]), verdict) for verdict, n in counts])
    yield details("What the verdicts mean", table(("", ""), MEANS.items()))
    yield element("h2", "All claims")
    links = [Html(f'<a href="#{name}">{claims()[name].title}</a>') for name in results]
    yield table(
        ("claim", "verdict"),
        [(link, _verdict(result)) for link, result in zip(links, results.values(), strict=True)],
    )
    for name, result in results.items():
        yield Html(f'<section id="{name}">{join(_claim(claims()[name], result))}</section>')


def _claim(claim: Claim, result: Result) -> Iterator[Html]:
    yield element("h2", f"{claim.title}  ", _verdict(result))
    yield element(
        "p",
        element("b", "Claim: "),
        claim.statement,
        element("span", f"  ({claim.source})", style="quiet"),
    )
    yield element("p", element("b", "Would refute it: "), claim.refuted_by)
    yield element(
        "p",
        element("b", "Done: "),
        "(With models of its own.) " * (claim.model == "own"),
        claim.done,
    )
    yield element("p", element("b", "Found: "), result.says)
    yield element("p", element("b", "Control: "), result.control)
    yield element("div", *(_plot(plot, result) for plot in result.plots), style="charts")
    columns = zip(*result.rows, strict=True)
    right = [
        i
        for i, cells in enumerate(columns)
        if all(cell == "" or not isinstance(cell, str) for cell in cells)
    ]
    yield details(
        "All numbers", table(result.headers, [[*map(written, row)] for row in result.rows], right)
    )
    facts: list[object] = [f"Seeds: {claim.seeds}. "]
    if claim.station:
        made = element("code", "transduce inspect --html")
        facts += [f"See it: station “{claim.station}” of the page that ", made, " makes. "]
    yield element(
        "p", *facts, "Again: ", element("code", f"transduce claims {claim.name}"), style="quiet"
    )


def _verdict(result: Result) -> Html:
    return element("span", f"● {result.verdict}", style=f"verdict {COLOUR[result.verdict]}")


def _plot(plot: Plot, result: Result) -> Html:
    every = max(1, round(len(plot.labels) / 9))
    marks = [(float(i), plot.labels[i]) for i in range(0, len(plot.labels), every)]
    if plot.kind == "bars":
        ends_in_control = len(plot.labels) == len(result.rows) and "(control)" in str(
            result.rows[-1][0]
        )
        return bar_chart(
            plot.title,
            plot.labels,
            plot.series,
            marks,
            int(ends_in_control and len(plot.series) == 1),
        )
    return line_chart(
        plot.title,
        [float(i) for i in range(len(plot.labels))],
        plot.series,
        marks,
        is_log=plot.is_log,
    )


def written(cell: object) -> str:
    """A number as people read it."""
    if not isinstance(cell, (int, float)):
        return str(cell)
    if cell == round(cell) and abs(cell) < 1e6:
        return f"{cell:.0f}"
    return (
        f"{cell:.3g}" if abs(cell) < 1000 else f"{cell:,.0f}" if abs(cell) < 1e6 else f"{cell:.1e}"
    )
