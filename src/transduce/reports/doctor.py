"""The page of `transduce doctor --html`: the report with charts."""

from collections.abc import Iterator

import numpy as np

from transduce.doctor import FAULTS, Diagnosis, Finding
from transduce.doctor.measure import RATIO_BINS, RATIO_STEP, Counts, DriftLocation
from transduce.doctor.summary import (
    describe_drift,
    excerpt,
    headline,
    length_quantiles,
    location,
    percent,
)
from transduce.reports.charts import Series, bar_chart
from transduce.reports.html import Html, details, element, join, page, table, tiles

N_LENGTH_BARS = 32
BINS_PER_BAR = 5  # bins of the ratio histogram that are drawn as one bar
SHOWN_BINS = 105  # bins shown on each side of ratio 1, up to a ratio of 8


def doctor_page(diagnosis: Diagnosis) -> str:
    """Return a diagnosis as a self-contained HTML page."""
    return page("transduce doctor", *_parts(diagnosis))


def _parts(diagnosis: Diagnosis) -> Iterator[Html]:
    n_alarming = sum(finding.is_alarming for finding in diagnosis.findings)
    if diagnosis.unequal:
        n_alarming += 1
    if diagnosis.are_swapped:
        n_alarming += 1
    usable = percent(diagnosis.n_usable / diagnosis.n_pairs) if diagnosis.n_pairs else "0 %"
    yield element("h1", "Corpus report")
    yield element("p", diagnosis.name, style="quiet")
    yield element("p", headline(diagnosis), style="quiet")
    yield tiles(
        [
            (f"{diagnosis.n_pairs:,}", "pairs examined"),
            (usable, "usable"),
            (f"{diagnosis.n_pairs - diagnosis.n_usable:,}", "dropped by a cleaned copy"),
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
    for drift in diagnosis.drifts:
        yield _drift(drift)
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
            f": {finding.count:,} {pairs} ({percent(finding.share)}) {fault.description}",
        ]
    )
    outcome = "A cleaned copy drops them." if fault.is_dropped else "A cleaned copy keeps them."
    rows = [
        (
            location(example, diagnosis),
            excerpt(example.source),
            excerpt(example.target),
            excerpt(example.note),
        )
        for example in finding.examples
    ]
    has_notes = any(example.note for example in finding.examples)
    headers = ("where", "source", "target", "found" if has_notes else "")
    advice = element("p", f"{fault.advice[0].upper()}{fault.advice[1:]}. {outcome}", style="quiet")
    return details(summary, advice, table(headers, rows), is_open=finding.is_alarming)


def _drift(drift: DriftLocation) -> Html:
    rows = [
        (f"{i:,}", excerpt(source), f"{j:,}", excerpt(target))
        for (i, source), (j, target) in zip(drift.source, drift.target, strict=False)
    ]
    summary = join(
        [element("span", "● ", style="bad"), element("b", "drift"), f" {describe_drift(drift)}"]
    )
    return details(
        summary, table(("line", "source", "line", "target"), rows, numbers=(0, 2)), is_open=True
    )


def _ratios(ratios: Counts) -> Html:
    """Draw the histogram of length ratios from 1/8 to 8; the outermost bars hold the rest."""
    middle = RATIO_BINS // 2
    reach = BINS_PER_BAR * (SHOWN_BINS // BINS_PER_BAR) + BINS_PER_BAR // 2
    shown = ratios[middle - reach : middle + reach + 1].copy()
    shown[0] += ratios[: middle - reach].sum()
    shown[-1] += ratios[middle + reach + 1 :].sum()

    bars = shown.reshape(-1, BINS_PER_BAR).sum(axis=1)
    center = len(bars) // 2
    bar_width = BINS_PER_BAR * RATIO_STEP
    labels = [f"{np.exp((i - center) * bar_width):.2g}" for i in range(len(bars))]
    ticks = [
        (center + np.log(ratio) / bar_width, f"{ratio:g}")
        for ratio in (0.125, 0.25, 0.5, 1, 2, 4, 8)
    ]
    return bar_chart(
        "Length of target / length of source", labels, [Series("pairs", bars.tolist())], ticks
    )


def _lengths(diagnosis: Diagnosis) -> Html:
    """Draw the histograms of both sides' lengths, up to a little more than the 99th percentile."""
    sides = (diagnosis.source_lengths, diagnosis.target_lengths)
    longest = max(length_quantiles(side)["p99"] for side in sides) * 1.2
    width = next(width for width in (1, 2, 5, 10, 20, 50, 100) if width * N_LENGTH_BARS >= longest)
    starts = range(0, N_LENGTH_BARS * width, width)
    names = diagnosis.languages or ("source", "target")
    series = []
    for name, side in zip(names, sides, strict=True):
        values = [int(side[start : start + width].sum()) for start in starts[:-1]]
        values.append(int(side[starts[-1] :].sum()))
        series.append(Series(name, values))
    return bar_chart(
        "Characters of a line (last bar: longer)", [str(start) for start in starts], series
    )
