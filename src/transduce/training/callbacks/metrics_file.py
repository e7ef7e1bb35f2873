"""metrics.jsonl: one JSON object per line, for every 50th step and for every validation."""

import errno
import json
import os
import time
from pathlib import Path
from typing import Any

from transduce.reports.training import parse_row, read_metrics_lines
from transduce.storage import replace_file
from transduce.training.callbacks.base import Callback, StepMetrics, Validation
from transduce.training.callbacks.optional_writes import OptionalWrites
from transduce.training.callbacks.recent import RecentSteps
from transduce.training.checkpoints import step_of

LOG_EVERY = 50  # steps


class MetricsFile(Callback):
    """Appends rows to metrics.jsonl. Losses and speeds are means over the last steps."""

    def __init__(
        self, path: Path, n_steps: int, writes: OptionalWrites, log_every: int = LOG_EVERY
    ) -> None:
        self._path, self._n_steps, self._log_every = path, n_steps, log_every
        self._writes = writes
        self._recent = RecentSteps()
        self._started = time.monotonic()

    def on_start(self, saved: Path | None) -> None:
        """Remove the rows after the checkpoint; training writes them again."""
        step = step_of(saved) if saved else 0
        self._writes.attempt(str(self._path), lambda: self._remove_rows_after(step))

    def _remove_rows_after(self, step: int) -> None:
        n_bad = remove_rows_after(self._path, step)
        if n_bad:
            rows = "1 damaged row" if n_bad == 1 else f"{n_bad:,} damaged rows"
            self._writes.note(f"{self._path}: removed {rows}; training continues")

    def on_step(self, metrics: StepMetrics) -> None:
        """Write a row for every `log_every`-th step and for the last one."""
        self._recent.append(metrics)
        if metrics.step % self._log_every == 0 or metrics.step == self._n_steps:
            self._append(
                step=metrics.step,
                epoch=metrics.epoch,
                loss=self._recent.loss,
                rate=metrics.rate,
                tokens_per_second=self._recent.tokens_per_second,
            )

    def on_validation(self, step: int, validation: Validation) -> None:
        """Write a row with the scores of a validation."""
        scores = {
            f"valid_{name.lower().replace(' ', '_')}": value
            for name, value in validation.scores.items()
        }
        self._append(
            step=step,
            valid_loss=validation.loss,
            **scores,
            signature=validation.signature,
            sample=validation.sample,
            hardest=validation.hardest,
            lengths=validation.lengths,
        )

    def _append(self, **row: Any) -> None:
        line = json.dumps({**row, "seconds": round(time.monotonic() - self._started, 3)}) + "\n"

        self._writes.attempt(str(self._path), lambda: append_row(self._path, line.encode()))


def append_row(path: Path, row: bytes) -> None:
    """Append a row to a file, or raise OSError and leave the file as it was."""
    if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
        raise OSError(errno.EINVAL, "not a regular file")
    with path.open("ab", buffering=0) as file:
        n_before = file.tell()
        try:
            n_written = file.write(row)
            if n_written < len(row):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            file.truncate(n_before)  # half a row would spoil the next one
            raise


def remove_rows_after(path: Path, step: int) -> int:
    """Remove the rows of later steps and damaged rows; return the number of damaged rows.

    A killed training leaves an incomplete last row; it is removed but not counted.
    """
    if not path.is_file():
        return 0
    *lines, _ = read_metrics_lines(path)
    rows = [(line, parse_row(line)) for line in lines]
    kept = [line + "\n" for line, row in rows if row is not None and row["step"] <= step]
    replace_file(path, "".join(kept).encode())
    return sum(row is None for _, row in rows)
