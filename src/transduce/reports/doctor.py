"""`transduce doctor --html`: the diagnosis as one page."""

from collections.abc import Iterator

import numpy as np

from transduce.doctor import FAULTS, Diagnosis, Finding
from transduce.doctor.measure import RATIO_BINS, RATIO_STEP, Counts, Place
from transduce.doctor.summary import headline, percent, quantiles, shown, told, where
from transduce.reports.charts import Series, bar_chart
from transduce.reports.html import Html, details, element, join, page, table, tiles

BARS = 32
BAR_BINS = 5  # bins of ratios that are shown as one bar
REACH = 105  # bins on each side of 1: up to eight times


def doctor_page(diagnosis: Diagnosis) -> str:
    """The whole page."""
    return page("transduce doctor", *_parts(diagnosis))


def _parts(diagnosis: Diagnosis) -> Iterator[Html]:
    n_alarming = sum(finding.is_alarming for finding in diagnosis.findings)
    n_alarming += bool(diagnosis.unequal) + diagnosis.are_swapped
    yield element("h1", "Corpus report")
    yield element("p", diagnosis.name, style="quiet")
    yield element("p", headline(diagnosis), style="quiet")
    yield tiles(
        [
            (f"{diagnosis.n_pairs:,}", "pairs examined"),
            (
                percent(diagnosis.n_usable / diagnosis.n_pairs) if diagnosis.n_pairs else "0 %",
                "worth keeping",
            ),
            (f"{diagnosis.n_pairs - diagnosis.n_usable:,}", "a cleaned copy leaves out"),
            (
                element("span", n_alarming, style="bad" if n_alarming else "good"),
                "alarming findings",
            ),
        ]
    )
    for unequal in diagnosis.unequal:
        yield element("p", element("b", "Unequal files. ", style="bad"), f"{unequal}.")
    if diagnosis.are_swapped and diagnosis.languages:
        a, b = diagnosis.languages
        text = f"The source is mostly {b}, the target mostly {a}: exchange --source and --target."
        yield element("p", element("b", "Swapped. ", style="bad"), text)
    for place in diagnosis.places:
        yield _place(place)
    yield element("h2", "Lengths")
    yield element("div", _ratios(diagnosis.ratios), _lengths(diagnosis), style="charts")
    yield element("h2", "Findings")
    for finding in diagnosis.findings:
        yield _finding(finding, diagnosis)
    found = {finding.fault for finding in diagnosis.findings}
    absent = ", ".join(fault.name for fault in FAULTS if fault not in found)
    yield element("p", f"Not found: {absent or 'nothing'}.", style="quiet")
    for remark in diagnosis.remarks:
        yield element("p", f"Note: {remark}.", style="quiet")


def _finding(finding: Finding, diagnosis: Diagnosis) -> Html:
    fault = finding.fault
    mark = element("span", "● ", style="bad" if finding.is_alarming else "quiet")
    pairs = "pair" if finding.count == 1 else "pairs"
    summary = join(
        [
            mark,
            element("b", fault.name),
            f": {finding.count:,} {pairs} ({percent(finding.share)}) {fault.says}",
        ]
    )
    fate = "A cleaned copy leaves them out." if fault.drops else "A cleaned copy keeps them."
    rows = [
        (where(one, diagnosis), shown(one.source), shown(one.target), shown(one.note))
        for one in finding.examples
    ]
    headers = (
        "where",
        "source",
        "target",
        "found" if any(one.note for one in finding.examples) else "",
    )
    advice = element("p", f"{fault.advice[0].upper()}{fault.advice[1:]}. {fate}", style="quiet")
    return details(summary, advice, table(headers, rows), is_open=finding.is_alarming)


def _place(place: Place) -> Html:
    rows = [
        (f"{i:,}", shown(source), f"{j:,}", shown(target))
        for (i, source), (j, target) in zip(place.source, place.target, strict=False)
    ]
    summary = join([element("span", "● ", style="bad"), element("b", "drift"), f" {told(place)}"])
    return details(
        summary, table(("line", "source", "line", "target"), rows, numbers=(0, 2)), is_open=True
    )


def _ratios(ratios: Counts) -> Html:
    """How many times longer the target is, from an eighth to eight times; what is beyond is in the outermost bars."""
    middle, reach = RATIO_BINS // 2, BAR_BINS * (REACH // BAR_BINS) + BAR_BINS // 2
    shown = ratios[middle - reach : middle + reach + 1].copy()
    shown[0] += ratios[: middle - reach].sum()
    shown[-1] += ratios[middle + reach + 1 :].sum()
    values = shown.reshape(-1, BAR_BINS).sum(axis=1)
    centre = len(values) // 2
    labels = [f"{np.exp((i - centre) * BAR_BINS * RATIO_STEP):.2g}" for i in range(len(values))]
    marks = [
        (centre + np.log(times) / (BAR_BINS * RATIO_STEP), f"{times:g}")
        for times in (0.125, 0.25, 0.5, 1, 2, 4, 8)
    ]
    return bar_chart(
        "Length of target / length of source", labels, [Series("pairs", values.tolist())], marks
    )


def _lengths(diagnosis: Diagnosis) -> Html:
    sides = (diagnosis.source_lengths, diagnosis.target_lengths)
    longest = max(quantiles(side)["p99"] for side in sides) * 1.2
    width = next(width for width in (1, 2, 5, 10, 20, 50, 100) if width * BARS >= longest)
    starts = range(0, BARS * width, width)
    names = diagnosis.languages or ("source", "target")
    series = [
        Series(
            name,
            [int(side[start : start + width].sum()) for start in starts[:-1]]
            + [int(side[starts[-1] :].sum())],
        )
        for name, side in zip(names, sides, strict=True)
    ]
    return bar_chart(
        "Characters of a line (last bar: longer)", [str(start) for start in starts], series
    )
