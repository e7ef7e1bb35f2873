"""report.html: the page of a training, written again after each validation."""

from collections.abc import Mapping
from pathlib import Path

from transduce.reports.training import read_metrics, training_page
from transduce.storage import replace_file
from transduce.training.callbacks.base import Callback, Validation
from transduce.training.callbacks.optional_writes import OptionalWrites


class ReportPage(Callback):
    """Writes the page from metrics.jsonl, so it must come after `MetricsFile` in the list.

    `title`, `facts` (name -> value) and `settings` (TOML) are shown on the page.
    """

    def __init__(
        self,
        path: Path,
        metrics: Path,
        writes: OptionalWrites,
        *,
        title: str,
        facts: Mapping[str, object],
        settings: str,
    ) -> None:
        self._path, self._metrics, self._writes = path, metrics, writes
        self._title, self._facts, self._settings = title, facts, settings

    def on_validation(self, step: int, validation: Validation) -> None:
        """Write the page."""
        self._writes.attempt("the training report", self._write)

    def _write(self) -> None:
        rows = read_metrics(self._metrics)
        page = training_page(self._title, rows, self._facts, self._settings)
        replace_file(self._path, page.encode())
