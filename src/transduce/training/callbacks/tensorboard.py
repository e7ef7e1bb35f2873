"""TensorBoard, if it is installed (the extra `tensorboard`): the numbers of a training under RUN/tensorboard."""

import contextlib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from transduce.training.checkpoints import step_of
from transduce.training.loop import Callback, StepRow, Validation

STEPS_EACH = 10  # steps between two points of a curve


class Board:
    """An observer that writes scalars and the watched text for TensorBoard, as long as that can be written, and tells another."""

    def __init__(self, observer: Callback, folder: Path) -> None:
        self._observer, self._folder = observer, folder
        self._writer: Any = None
        self.on_note = observer.on_note

    def on_start(self, saved: Path | None) -> None:
        """Open the log; what was written after the checkpoint will be written again."""
        from torch.utils.tensorboard import SummaryWriter

        self._observer.on_start(saved)
        with contextlib.suppress(OSError):
            self._writer = SummaryWriter(
                str(self._folder), purge_step=step_of(saved) + 1 if saved else 0
            )

    def on_step(self, row: StepRow) -> None:
        """The loss, the rate and the speed of some steps."""
        self._observer.on_step(row)
        if row.step % STEPS_EACH == 0:
            values = {
                "loss": row.loss,
                "rate": row.rate,
                "tokens_per_second": row.n_tokens / row.seconds,
            }
            self._write(row.step, {f"train/{name}": value for name, value in values.items()})

    def on_validation(self, step: int, validation: Validation) -> None:
        """The scores, and what the model makes of one text."""
        self._observer.on_validation(step, validation)
        values = {"loss": validation.loss, **validation.scores}
        self._write(
            step,
            {f"valid/{name}": value for name, value in values.items()},
            " -> ".join(validation.sample),
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
        except OSError:  # a full disk: metrics.jsonl says so, and the training goes on
            self._writer = None


def with_board(observer: Callback, folder: Path) -> Callback:
    """An observer, and TensorBoard beside it where that is installed."""
    return Board(observer, folder) if find_spec("tensorboard") else observer
