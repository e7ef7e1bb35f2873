"""A diagnosis as text for people, and as JSON for programs."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from transduce.doctor import FAULTS, Diagnosis, FaultExample
from transduce.doctor.measure import MAX_MEASURED, Counts, DriftLocation

MAX_EXCERPT = 96  # characters of a text
# Control characters are shown as the symbols of Unicode's block "Control Pictures".
CONTROL_PICTURES = {**{code: 0x2400 + code for code in range(32)}, 0x7F: 0x2421}


def as_dict(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return a diagnosis as a JSON object, with whole texts and plain numbers."""
    return {
        "name": diagnosis.name,
        "pairs": diagnosis.n_pairs,
        "usable": diagnosis.n_usable,
        "languages": diagnosis.languages,
        "swapped": diagnosis.are_swapped,
        "typical_ratio": round(diagnosis.typical_ratio, 3),
        "lengths": {
            "source": length_quantiles(diagnosis.source_lengths),
            "target": length_quantiles(diagnosis.target_lengths),
        },
        "unequal": [asdict(files) for files in diagnosis.unequal],
        "drifts": [
            {
                "file": drift.file,
                "line": drift.line,
                "shift": drift.shift,
                "source": [{"line": line, "text": text} for line, text in drift.source],
                "target": [{"line": line, "text": text} for line, text in drift.target],
            }
            for drift in diagnosis.drifts
        ],
        "findings": [
            {
                "name": finding.fault.name,
                "count": finding.count,
                "share": finding.share,
                "alarming": finding.is_alarming,
                "dropped": finding.fault.is_dropped,
                "advice": finding.fault.advice,
                "examples": [asdict(example) for example in finding.examples],
            }
            for finding in diagnosis.findings
        ],
        "remarks": list(diagnosis.remarks),
    }


def as_text(diagnosis: Diagnosis) -> str:
    """Return a diagnosis as the text of `transduce doctor`."""
    return "\n".join(_lines(diagnosis))


def headline(diagnosis: Diagnosis) -> str:
    """Return a summary in one line: number of pairs, languages, typical length ratio."""
    languages = ""
    if diagnosis.languages:
        languages = f"{diagnosis.languages[0]} -> {diagnosis.languages[1]}, "
    return (
        f"{diagnosis.n_pairs:,} pairs, {languages}"
        f"target typically {diagnosis.typical_ratio:.2f} times as long as source"
    )


def describe_drift(drift: DriftLocation) -> str:
    """Return where and how two files drift apart, in words."""
    n = abs(drift.missing)
    lines = "1 line is" if n == 1 else f"{n:,} lines are"
    side, other = ("source", "target") if drift.missing > 0 else ("target", "source")
    again = " (aligned again from here on)" if drift.shift == 0 else ""
    return (
        f"at about line {drift.line:,} of the source: "
        f"{lines} missing in the {side}, or superfluous in the {other}{again}"
    )


def percent(share: float) -> str:
    """Format a share with two significant digits; only 0 and 1 become 0 % and 100 %."""
    if share in (0, 1):
        return f"{100 * share:.0f} %"
    return f"{100 * share:.2g} %" if share < 0.995 else f"{min(100 * share, 99.99):.2f} %"


def excerpt(text: str) -> str:
    """Return the beginning of a text, with control characters made visible."""
    ellipsis = "…" if len(text) > MAX_EXCERPT else ""
    return (text[:MAX_EXCERPT] + ellipsis).translate(CONTROL_PICTURES)


def location(example: FaultExample, diagnosis: Diagnosis) -> str:
    """Return the line of an example, and its file if the corpus has several."""
    file = f" of {example.file}" if example.file != diagnosis.name else ""
    return f"line {example.line:,}{file}"


def length_quantiles(lengths: Counts) -> dict[str, int]:
    """Return median, 99th percentile and maximum of a histogram of lengths."""
    if not lengths.sum():
        return {"median": 0, "p99": 0, "longest": 0}
    cumulative = np.cumsum(lengths) / lengths.sum()
    return {
        "median": int(np.searchsorted(cumulative, 0.5)),
        "p99": int(np.searchsorted(cumulative, 0.99)),
        "longest": int(np.flatnonzero(lengths)[-1]),
    }


def _lines(diagnosis: Diagnosis) -> Iterator[str]:
    yield diagnosis.name
    yield f"  {headline(diagnosis)}"
    usable = percent(diagnosis.n_usable / diagnosis.n_pairs) if diagnosis.n_pairs else "0 %"
    yield f"  {diagnosis.n_usable:,} usable ({usable}): a cleaned copy would keep them"
    yield from _unequal_lines(diagnosis)
    for drift in diagnosis.drifts:
        yield from _drift_lines(drift, diagnosis)
    if diagnosis.are_swapped and diagnosis.languages:
        a, b = diagnosis.languages
        yield ""
        yield (
            f"! swapped: the source is mostly {b}, the target mostly {a}; "
            "exchange --source and --target"
        )
    yield from _table_lines(diagnosis)
    yield from _example_lines(diagnosis)
    yield ""
    found = {finding.fault for finding in diagnosis.findings}
    not_found = ", ".join(fault.name for fault in FAULTS if fault not in found)
    yield f"not found: {not_found or 'nothing'}"
    for remark in diagnosis.remarks:
        yield f"note: {remark}"


def _unequal_lines(diagnosis: Diagnosis) -> Iterator[str]:
    for files in diagnosis.unequal:
        yield ""
        yield f"! unequal: {files}"
        if not diagnosis.drifts:
            yield (
                "  The place where they drift apart is unknown: "
                f"too few lines, or more than {MAX_MEASURED:,}."
            )
        yield f"  The findings below are of the {diagnosis.n_pairs:,} pairs before that place."


def _drift_lines(drift: DriftLocation, diagnosis: Diagnosis) -> Iterator[str]:
    """Yield a drift and the lines around it, with a rule where it happens."""
    file = f", in {drift.file}" if drift.file != diagnosis.name else ""
    yield ""
    yield f"! drift {describe_drift(drift)}{file}"
    for (i, source), (j, target) in zip(drift.source, drift.target, strict=False):
        yield f"  {i:>9,}  {excerpt(source)}"
        yield f"  {j:>9,}  {excerpt(target)}"
        if i == drift.line - 1:
            yield "  " + "-" * 40


def _table_lines(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield the findings as a table; alarming ones are marked with "!"."""
    if not diagnosis.findings:
        return
    yield ""
    yield f"  {'':<18} {'pairs':>11} {'share':>9}           that"
    for finding in diagnosis.findings:
        fault = finding.fault
        mark = "!" if finding.is_alarming else " "
        outcome = "dropped" if fault.is_dropped else "kept"
        yield (
            f"{mark} {fault.name:<18} {finding.count:>11,} {percent(finding.share):>9}  "
            f"{outcome:<7}  {fault.description}"
        )


def _example_lines(diagnosis: Diagnosis) -> Iterator[str]:
    for finding in diagnosis.findings:
        yield ""
        yield f"{finding.fault.name}: {finding.fault.advice}"
        for example in finding.examples:
            note = f": {excerpt(example.note)}" if example.note else ""
            yield f"  {location(example, diagnosis)}{note}"
            yield f"      {excerpt(example.source)}"
            yield f"      {excerpt(example.target)}"
