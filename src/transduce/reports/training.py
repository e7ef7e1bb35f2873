"""The page report.html of a run, rewritten from metrics.jsonl at each validation."""

import errno
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from transduce.reports.charts import Series, bar_chart, line_chart
from transduce.reports.html import Html, details, element, page, table, tiles

Rows = Sequence[Mapping[str, Any]]
# Histogram of sentence lengths: classes of 0 to 4 words, 5 to 9, ..., 60 and more.
WORDS_PER_CLASS, N_CLASSES = 5, 13
STEP_NUMBERS = ("loss", "rate", "tokens_per_second")  # of a row about training steps
# Larger values in metrics.jsonl are damage.
MAX_COUNT, MAX_NUMBER = 1 << 53, 1e300
MAX_METRICS_BYTES = 1 << 28  # a million steps have five
MAX_POINTS = 400  # points of a line; more would not be visible


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the rows of metrics.jsonl, without those that `parse_row` cannot read."""
    lines = read_metrics_lines(path) if path.is_file() else []
    return [row for line in lines if (row := parse_row(line)) is not None]


def read_metrics_lines(path: Path) -> list[str]:
    """Return the lines of metrics.jsonl; raise OSError if it is too large to be one."""
    with path.open("rb") as file:
        content = file.read(MAX_METRICS_BYTES + 1)
    if len(content) > MAX_METRICS_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return content.decode(errors="replace").split("\n")


def parse_row(line: str) -> dict[str, Any] | None:
    """Return a row of metrics.jsonl, or None if it is incomplete or damaged."""
    try:
        row = json.loads(line)
        json.dumps(row, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict):
        return None
    required = STEP_NUMBERS if "loss" in row else ()
    numbers = {*required, *(key for key in row if key in STEP_NUMBERS or key.startswith("valid_"))}
    is_valid = (
        _is_count(row.get("step"))
        and all(_is_number(row.get(key)) for key in numbers)
        and ("valid_loss" not in row or _is_validation(row))
    )
    return row if is_valid else None


def _is_validation(row: Mapping[str, Any]) -> bool:
    """Return whether the sample, the worst sentences and the lengths have their form."""
    lengths, hardest = row.get("lengths", {}), row.get("hardest", [])
    return (
        _are_texts(row.get("sample"), 2)
        and isinstance(hardest, list)
        and all(
            isinstance(each, list)
            and len(each) == 4
            and _is_number(each[0])
            and _are_texts(each[1:], 3)
            for each in hardest
        )
        and isinstance(lengths, dict)
        and all(
            isinstance(counts, list)
            and len(counts) <= N_CLASSES
            and all(_is_count(count) for count in counts)
            for counts in lengths.values()
        )
    )


def _are_texts(value: object, n: int) -> bool:
    return (
        isinstance(value, list) and len(value) == n and all(isinstance(each, str) for each in value)
    )


def _is_count(value: object) -> bool:
    return _is_number(value) and isinstance(value, int) and 0 <= value <= MAX_COUNT


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -MAX_NUMBER <= value <= MAX_NUMBER  # false for NaN


def training_page(name: str, rows: Rows, facts: Mapping[str, object], settings: str) -> str:
    """Return the page: progress, curves, the translations of one sample, corpus and settings."""
    return page(f"{name}: training", *_sections(name, rows, facts, settings))


def _sections(name: str, rows: Rows, facts: Mapping[str, object], settings: str) -> Iterator[Html]:
    steps, validations = (
        [row for row in rows if "loss" in row],
        [row for row in rows if "valid_loss" in row],
    )
    yield element("h1", name)
    yield element("p", "Training report", style="quiet")
    yield tiles(_summary(steps, validations))
    yield element("h2", "Curves, by step")
    yield element("div", *_charts(steps, validations), style="charts")
    if validations:
        yield element("h2", "Output for a sample text")
        yield element("p", validations[-1]["sample"][0], style="quiet")
        shown = [
            (row["step"], f"{row['valid_loss']:.3f}", row["sample"][1])
            for row in _thin(validations, 25)
        ]
        yield table(["step", "validation loss", "output"], shown, numbers=(0, 1))
        if hardest := validations[-1].get("hardest"):
            yield element("h2", "Worst sentences of the last validation")
            worst = [(f"{chrf:.0f}", *texts) for chrf, *texts in hardest]
            yield table(["chrF", "source", "output", "reference"], worst, numbers=(0,))
    yield element("h2", "Corpus and settings")
    yield table(["", ""], [(key, value) for key, value in facts.items()])
    yield details("All settings", element("pre", settings))


def _summary(steps: Rows, validations: Rows) -> Iterator[tuple[object, object]]:
    if steps:
        yield f"{steps[-1]['step']:,}", "steps"
        yield f"{steps[-1]['tokens_per_second']:,.0f}", "tokens per second (latest)"
    if validations:
        best = min(validations, key=lambda row: float(row["valid_loss"]))
        yield f"{best['valid_loss']:.3f}", f"lowest validation loss (step {best['step']:,})"
        for key, label in (
            ("valid_bleu", "BLEU (greedy, last validation)"),
            ("valid_perplexity", "perplexity"),
        ):
            if key in validations[-1]:
                yield f"{validations[-1][key]:.2f}", label


def _charts(steps: Rows, validations: Rows) -> Iterator[Html]:
    few = _thin(steps, MAX_POINTS)
    if steps:
        yield _curve("Training loss (with label smoothing)", few, "loss")
    if validations:
        yield _curve("Validation loss", validations, "valid_loss")
        for key in validations[-1]:
            if key.startswith("valid_") and key != "valid_loss":
                name = key.removeprefix("valid_").replace("_", " ").capitalize()
                yield _curve("BLEU, greedy" if key == "valid_bleu" else name, validations, key)
    if steps:
        yield _curve("Learning rate", few, "rate")
        yield _curve("Tokens per second", few, "tokens_per_second")
    if validations and validations[-1].get("lengths"):
        yield _lengths(validations[-1]["lengths"])


def _curve(title: str, rows: Rows, key: str) -> Html:
    values = [float(row.get(key, math.nan)) for row in rows]
    return line_chart(title, [float(row["step"]) for row in rows], [Series(key, values)])


def _lengths(lengths: Mapping[str, Sequence[int]]) -> Html:
    """Return a histogram of the lengths of references and translations, in words."""
    n_classes = max(
        (i + 1 for counts in lengths.values() for i, n in enumerate(counts) if n), default=1
    )
    names = [
        f"{WORDS_PER_CLASS * i} to {WORDS_PER_CLASS * (i + 1) - 1} words"
        for i in range(N_CLASSES - 1)
    ]
    names = [*names, f"{WORDS_PER_CLASS * (N_CLASSES - 1)} words and more"][:n_classes]
    series = [Series(name, counts[:n_classes]) for name, counts in lengths.items()]
    return bar_chart(
        "Sentences by number of words, last validation",
        names,
        series,
        [(i, str(WORDS_PER_CLASS * i)) for i in range(n_classes)],
    )


def _thin(rows: Rows, limit: int) -> Rows:
    """Return at most `limit` rows, evenly spaced, including the last one."""
    every = max(1, math.ceil(len(rows) / limit))
    return [row for i, row in enumerate(rows) if (len(rows) - 1 - i) % every == 0]
