"""How a training shows itself: a bar on a terminal, lines in a log, rows in metrics.jsonl."""

import json
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from transduce.reports.training import read_metrics
from transduce.training.checkpoints import step_of
from transduce.training.loop import StepRow, Validation

RECENT_STEPS = 50  # over which loss and speed are averaged for the eye
SAMPLE_WIDTH = 80


class Report:
    """Watches a training: an `Callback` that writes to stderr and to `metrics.jsonl`; `with report.bar` shows the bar."""

    def __init__(
        self,
        metrics: Path,
        n_steps: int,
        console: Console,
        log_every: int = 50,
        write_page: Callable[[Sequence[Mapping[str, Any]]], None] = lambda rows: None,
    ) -> None:
        self._metrics, self._n_steps, self._log_every = metrics, n_steps, log_every
        self._write_page, self._console = write_page, console
        self._recent: deque[StepRow] = deque(maxlen=RECENT_STEPS)
        self._started = time.monotonic()
        self._has_failed = False
        self.bar = Progress(
            TextColumn("step {task.completed:>6.0f}/{task.total:.0f}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self.bar.add_task("training", total=n_steps, numbers="")

    def on_start(self, saved: Path | None) -> None:
        """Remove the rows that will be written again."""
        if saved:
            self._console.print(f"continuing from {saved.name}", highlight=False, markup=False)
        trim_metrics(self._metrics, step_of(saved) if saved else 0)

    def on_step(self, row: StepRow) -> None:
        """Move the bar; every so often write a row."""
        self._recent.append(row)
        loss = sum(each.loss for each in self._recent) / len(self._recent)
        seconds = sum(each.seconds for each in self._recent)
        speed = sum(each.n_tokens for each in self._recent) / seconds if seconds else 0.0
        numbers = f"loss {loss:6.3f}   rate {row.rate:.1e}   {speed:7,.0f} tokens/s"
        self.bar.update(self._task, completed=row.step, numbers=numbers)
        if row.step % self._log_every == 0 or row.step == self._n_steps:
            self._write(
                step=row.step, epoch=row.epoch, loss=loss, rate=row.rate, tokens_per_second=speed
            )

    def on_validation(self, step: int, validation: Validation) -> None:
        """Say what the model is worth."""
        self._write(
            step=step,
            valid_loss=validation.loss,
            **{
                f"valid_{name.lower().replace(' ', '_')}": value
                for name, value in validation.scores.items()
            },
            signature=validation.signature,
            sample=validation.sample,
            hardest=validation.hardest,
            lengths=validation.lengths,
        )
        self._try(
            "the page of this training", lambda: self._write_page(read_metrics(self._metrics))
        )
        minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
        self._console.print(
            f"  {minutes:3d}:{seconds:02d}  step {step:6d}/{self._n_steps}   validation loss {validation.loss:6.3f}"
            + "".join(f"   {name} {value:6.2f}" for name, value in validation.scores.items()),
            highlight=False,
        )
        source, translation = (
            shorten(text, SAMPLE_WIDTH, placeholder=" ...") for text in validation.sample
        )
        self._console.print(
            f"          {source}  ->  {translation}", style="dim", highlight=False, markup=False
        )

    def on_note(self, text: str) -> None:
        """Say what happened."""
        self._console.print(f"note: {text}", style="yellow", highlight=False, markup=False)

    def _write(self, **row: Any) -> None:
        line = json.dumps({**row, "seconds": round(time.monotonic() - self._started, 3)}) + "\n"

        def append() -> None:
            with self._metrics.open("a", encoding="utf-8") as file:
                file.write(line)

        self._try(str(self._metrics), append)

    def _try(self, what: str, write: Callable[[], None]) -> None:
        """Write something; if the disk is full, training is worth more than its log. That is said once."""
        try:
            write()
        except OSError as error:
            if not self._has_failed:
                self.on_note(f"cannot write {what}: {error.strerror}; training goes on without it")
            self._has_failed = True


def trim_metrics(metrics: Path, step: int) -> None:
    """Remove rows after a step, and a last row that was not finished: what a training that was stopped will write again."""
    if not metrics.is_file():
        return
    rows = [
        line
        for line in metrics.read_text(encoding="utf-8").splitlines(keepends=True)
        if line.endswith("\n")
    ]
    metrics.write_text(
        "".join(row for row in rows if json.loads(row)["step"] <= step), encoding="utf-8"
    )
