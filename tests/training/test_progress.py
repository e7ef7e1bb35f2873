"""The progress bar, the log lines and metrics.jsonl."""

import errno
import io
import json
import resource
from pathlib import Path

import pytest
from rich.console import Console

from transduce.training.callbacks.base import StepMetrics, Validation
from transduce.training.callbacks.metrics_file import (
    MetricsFile,
    append_row,
    remove_rows_after,
)
from transduce.training.callbacks.optional_writes import OptionalWrites
from transduce.training.callbacks.progress import ConsoleProgress


def train_ten_steps(tmp_path: Path, *, is_terminal: bool) -> str:
    """Report ten steps of 1,000 tokens in half a second each, and a validation.

    Return the console output.
    """
    written = io.StringIO()
    console = Console(file=written, force_terminal=is_terminal, width=120, color_system=None)
    progress = ConsoleProgress(10, console)
    metrics = MetricsFile(
        tmp_path / "metrics.jsonl", 10, OptionalWrites(progress.on_note), log_every=5
    )
    callbacks = (metrics, progress)
    for callback in callbacks:
        callback.on_start(None)
    for step in range(1, 11):
        row = StepMetrics(step, epoch=0, loss=2.0 * step, rate=0.001, n_tokens=1000, seconds=0.5)
        for callback in callbacks:
            callback.on_step(row)
    validation = Validation(
        1.25,
        {"BLEU": 33.3, "exact match": 7.5},
        "nrefs:1",
        ("I love you", "Ti amo " + "molto " * 50),
    )
    for callback in callbacks:
        callback.on_validation(10, validation)
        callback.on_end()
    return written.getvalue()


def test_rows_hold_means_over_recent_steps_and_validations_hold_their_signature(
    tmp_path: Path,
) -> None:
    train_ten_steps(tmp_path, is_terminal=False)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [5, 10, 10]
    assert rows[0]["loss"] == 6.0
    assert rows[0]["tokens_per_second"] == 2000.0
    assert (rows[2]["valid_loss"], rows[2]["valid_bleu"], rows[2]["signature"]) == (
        1.25,
        33.3,
        "nrefs:1",
    )
    assert rows[2]["sample"][0] == "I love you"


def test_a_resumed_training_removes_the_rows_it_will_write_again(tmp_path: Path) -> None:
    train_ten_steps(tmp_path, is_terminal=False)
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_text(metrics.read_text() + '{"step": 3, "lo')
    remove_rows_after(metrics, 7)
    assert [json.loads(line)["step"] for line in metrics.read_text().splitlines()] == [5]
    remove_rows_after(tmp_path / "gone.jsonl", 7)


def test_a_row_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """The disk takes half of a row, then there is room again: the next row is not spoiled."""
    path = tmp_path / "metrics.jsonl"
    append_row(path, b'{"step": 5}\n')
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 5, limits[1]))
    try:
        with pytest.raises(OSError):  # noqa: PT011  the system chooses which
            append_row(path, b'{"step": 10}\n')
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    append_row(path, b'{"step": 15}\n')
    assert path.read_text() == '{"step": 5}\n{"step": 15}\n'


def test_a_log_gets_a_line_for_each_validation_with_a_sample_and_no_bar(tmp_path: Path) -> None:
    written = train_ten_steps(tmp_path, is_terminal=False)
    assert "validation loss  1.250   BLEU  33.30   exact match   7.50" in written
    assert "I love you  ->  Ti amo molto" in written
    assert "tokens/s" not in written
    assert max(map(len, written.splitlines())) < 140


def test_a_terminal_shows_step_loss_rate_speed_and_time_left(tmp_path: Path) -> None:
    written = train_ten_steps(tmp_path, is_terminal=True)
    for part in ("step     10/10", "loss", "rate 1.0e-03", "2,000 tokens/s", "left"):
        assert part in written


def test_a_full_disk_is_reported_once_and_does_not_stop_the_training() -> None:
    notes: list[str] = []
    writes = OptionalWrites(notes.append)

    def fail() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    writes.attempt("metrics.jsonl", fail)
    writes.attempt("the training report", fail)
    assert notes == [
        "cannot write metrics.jsonl: No space left on device; training continues without it"
    ]
