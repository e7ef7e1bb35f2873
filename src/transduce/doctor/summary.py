"""What the doctor found, in words: for people, and as JSON for programs."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from transduce.doctor import FAULTS, Diagnosis, Example
from transduce.doctor.measure import Counts, Place

WIDEST = 96  # characters of a text that are shown
UNSEEN = {
    **{code: 0x2400 + code for code in range(32)},
    0x7F: 0x2421,
}  # control characters as their pictures


def as_dict(diagnosis: Diagnosis) -> dict[str, Any]:
    """For programs: whole texts, plain numbers."""
    return {
        "name": diagnosis.name,
        "pairs": diagnosis.n_pairs,
        "usable": diagnosis.n_usable,
        "languages": diagnosis.languages,
        "swapped": diagnosis.are_swapped,
        "typical_ratio": round(diagnosis.typical_ratio, 3),
        "lengths": {
            "source": quantiles(diagnosis.source_lengths),
            "target": quantiles(diagnosis.target_lengths),
        },
        "unequal": [asdict(one) for one in diagnosis.unequal],
        "drifts": [
            {
                "file": place.file,
                "line": place.line,
                "shift": place.shift,
                "source": [{"line": line, "text": text} for line, text in place.source],
                "target": [{"line": line, "text": text} for line, text in place.target],
            }
            for place in diagnosis.places
        ],
        "findings": [
            {
                "name": finding.fault.name,
                "count": finding.count,
                "share": finding.share,
                "alarming": finding.is_alarming,
                "dropped": finding.fault.drops,
                "advice": finding.fault.advice,
                "examples": [asdict(one) for one in finding.examples],
            }
            for finding in diagnosis.findings
        ],
        "remarks": list(diagnosis.remarks),
    }


def as_text(diagnosis: Diagnosis) -> str:
    """For people."""
    return "\n".join(_lines(diagnosis))


def headline(diagnosis: Diagnosis) -> str:
    """The corpus in a line."""
    languages = (
        f"{diagnosis.languages[0]} -> {diagnosis.languages[1]}, " if diagnosis.languages else ""
    )
    return f"{diagnosis.n_pairs:,} pairs, {languages}the target typically {diagnosis.typical_ratio:.2f} times as long as the source"


def told(place: Place) -> str:
    """A drift in words."""
    n = abs(place.missing)
    lines = "1 line is" if n == 1 else f"{n:,} lines are"
    side, other = ("source", "target") if place.missing > 0 else ("target", "source")
    again = " (the two sides are in step again)" if place.shift == 0 else ""
    return f"at about line {place.line:,} of the source: {lines} missing in the {side}, or too many in the {other}{again}"


def percent(share: float) -> str:
    """A share with two digits that matter; never 0 or 100 % of some."""
    if share in (0, 1):
        return f"{100 * share:.0f} %"
    return f"{100 * share:.2g} %" if share < 0.995 else f"{min(100 * share, 99.99):.2f} %"


def shown(text: str) -> str:
    """A text cut to be shown, its control characters made visible."""
    cut = text[:WIDEST] + ("…" if len(text) > WIDEST else "")
    return cut.translate(UNSEEN)


def where(example: Example, diagnosis: Diagnosis) -> str:
    """The line of an example, with its file where there are several."""
    return f"line {example.line:,}" + (
        f" of {example.file}" if example.file != diagnosis.name else ""
    )


def quantiles(lengths: Counts) -> dict[str, int]:
    """Median, 99th percentile and maximum of counted lengths."""
    if not lengths.sum():
        return {"median": 0, "p99": 0, "longest": 0}
    cumulated = np.cumsum(lengths) / lengths.sum()
    middle, high = (int(np.searchsorted(cumulated, share)) for share in (0.5, 0.99))
    return {"median": middle, "p99": high, "longest": int(np.flatnonzero(lengths)[-1])}


def _lines(diagnosis: Diagnosis) -> Iterator[str]:
    yield diagnosis.name
    yield f"  {headline(diagnosis)}"
    usable = percent(diagnosis.n_usable / diagnosis.n_pairs) if diagnosis.n_pairs else "0 %"
    yield f"  {diagnosis.n_usable:,} of them ({usable}) have no fault for which a cleaned copy leaves them out"
    for unequal in diagnosis.unequal:
        yield ""
        yield f"! unequal: {unequal}"
        if not diagnosis.places:
            yield "  Where they drift apart cannot be told: too few lines, or more than 2,000,000."
        yield f"  What follows is about the {diagnosis.n_pairs:,} pairs before they drift apart."
    for place in diagnosis.places:
        yield ""
        yield f"! drift {told(place)}" + (
            f", in {place.file}" if place.file != diagnosis.name else ""
        )
        for (i, source), (j, target) in zip(place.source, place.target, strict=False):
            yield f"  {i:>9,}  {shown(source)}"
            yield f"  {j:>9,}  {shown(target)}" + (
                "" if i < place.line - 1 or i >= place.line else "\n  " + "-" * 40
            )
    if diagnosis.are_swapped and diagnosis.languages:
        a, b = diagnosis.languages
        yield ""
        yield f"! swapped: the source is mostly {b}, the target mostly {a}; exchange --source and --target"
    yield from _table(diagnosis)
    for finding in diagnosis.findings:
        yield ""
        yield f"{finding.fault.name}: {finding.fault.advice}"
        for example in finding.examples:
            yield f"  {where(example, diagnosis)}" + (
                f": {shown(example.note)}" if example.note else ""
            )
            yield f"      {shown(example.source)}"
            yield f"      {shown(example.target)}"
    yield ""
    found = {finding.fault for finding in diagnosis.findings}
    yield f"not found: {', '.join(fault.name for fault in FAULTS if fault not in found) or 'nothing'}"
    for remark in diagnosis.remarks:
        yield f"note: {remark}"


def _table(diagnosis: Diagnosis) -> Iterator[str]:
    """What was found at a glance; a mark before what is alarming."""
    if not diagnosis.findings:
        return
    yield ""
    yield f"  {'':<18} {'pairs':>11} {'share':>9}           that"
    for finding in diagnosis.findings:
        fault = finding.fault
        mark, fate = "!" if finding.is_alarming else " ", "dropped" if fault.drops else "kept"
        yield f"{mark} {fault.name:<18} {finding.count:>11,} {percent(finding.share):>9}  {fate:<7}  {fault.says}"
