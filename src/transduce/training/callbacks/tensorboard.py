"""TensorBoard logs of a training, if TensorBoard is installed (extra `tensorboard`)."""

import contextlib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from transduce.training.callbacks.base import Callback, StepMetrics, Validation
from transduce.training.checkpoints import step_of

LOG_EVERY = 10  # steps


class TensorBoard(Callback):
    """Writes scalars and the sample text for TensorBoard.

    After the first I/O error it writes nothing more, without a message: metrics.jsonl is on the
    same disk and reports the failure.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: Any = None  # torch's SummaryWriter, which is not typed

    def on_start(self, saved: Path | None) -> None:
        """Open the log and drop the events after the checkpoint; training writes them again."""
        from torch.utils.tensorboard import SummaryWriter

        first_step = step_of(saved) + 1 if saved else 0
        with contextlib.suppress(OSError):
            self._writer = SummaryWriter(str(self._folder), purge_step=first_step)

    def on_step(self, metrics: StepMetrics) -> None:
        """Write loss, learning rate and throughput of every `LOG_EVERY`-th step."""
        if metrics.step % LOG_EVERY == 0:
            values = {
                "train/loss": metrics.loss,
                "train/rate": metrics.rate,
                "train/tokens_per_second": metrics.n_tokens / metrics.seconds,
            }
            self._write(metrics.step, values)

    def on_validation(self, step: int, validation: Validation) -> None:
        """Write the scores and the sample text."""
        values = {"loss": validation.loss, **validation.scores}
        self._write(
            step,
            {f"valid/{name}": value for name, value in values.items()},
            sample=" -> ".join(validation.sample),
        )

    def _write(self, step: int, values: Mapping[str, float], sample: str | None = None) -> None:
        if self._writer is None:
            return
        try:
            for name, value in values.items():
                self._writer.add_scalar(name, value, step)
            if sample is not None:
                self._writer.add_text("valid/sample", sample, step)
                self._writer.flush()
        except OSError:
            self._writer = None


def tensorboard_if_installed(folder: Path) -> list[Callback]:
    """Return a list with the TensorBoard callback, or an empty list if it is not installed."""
    return [TensorBoard(folder)] if find_spec("tensorboard") else []
