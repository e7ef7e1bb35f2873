"""Training progress on the console: a bar on a terminal, and a line per validation."""

import time
from pathlib import Path
from textwrap import shorten

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from transduce.text.printable import printable
from transduce.training.callbacks.base import Callback, StepMetrics, Validation
from transduce.training.callbacks.recent import RecentSteps

SAMPLE_WIDTH = 80  # characters of the sample text that are shown


class ConsoleProgress(Callback):
    """Shows a progress bar on a terminal; prints validations and notes everywhere."""

    def __init__(self, n_steps: int, console: Console) -> None:
        self._n_steps, self._console = n_steps, console
        self._recent = RecentSteps()
        self._started = time.monotonic()
        self._bar = Progress(
            TextColumn("step {task.completed:>6.0f}/{task.total:.0f}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("training", total=n_steps, numbers="")

    def on_start(self, saved: Path | None) -> None:
        """Print the checkpoint that training resumes from, and show the bar."""
        if saved:
            self._print(f"resuming from {saved.name}")
        self._bar.start()

    def on_step(self, metrics: StepMetrics) -> None:
        """Advance the bar."""
        self._recent.append(metrics)
        loss, speed = self._recent.loss, self._recent.tokens_per_second
        numbers = f"loss {loss:6.3f}   rate {metrics.rate:.1e}   {speed:7,.0f} tokens/s"
        self._bar.update(self._task, completed=metrics.step, numbers=numbers)

    def on_validation(self, step: int, validation: Validation) -> None:
        """Print the scores and the sample text."""
        minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
        scores = "".join(f"   {name} {value:6.2f}" for name, value in validation.scores.items())
        self._print(
            f"  {minutes:3d}:{seconds:02d}  step {step:6d}/{self._n_steps}"
            f"   validation loss {validation.loss:6.3f}{scores}"
        )
        source, output = (
            shorten(text, SAMPLE_WIDTH, placeholder=" ...") for text in validation.sample
        )
        self._print(f"          {source}  ->  {output}", style="dim")

    def on_note(self, text: str) -> None:
        """Print a note."""
        self._print(f"note: {text}", style="yellow")

    def on_end(self) -> None:
        """Remove the bar."""
        self._bar.stop()

    def _print(self, text: str, style: str | None = None) -> None:
        self._console.print(printable(text), style=style, highlight=False, markup=False)
