"""TensorBoard, if it is installed (the extra `tensorboard`): the numbers of a training under RUN/tensorboard."""

import contextlib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from transduce.training.loop import Observer, StepRow, Unseen, Validation
from transduce.training.state import step_of

STEPS_EACH = 10  # steps between two points of a curve


class Board(Unseen):
    """An observer that writes scalars and the watched text for TensorBoard, for as long as that can be written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: Any = None

    def on_start(self, saved: Path | None) -> None:
        """Open the log; what was written after the checkpoint will be written again."""
        from torch.utils.tensorboard import SummaryWriter

        with contextlib.suppress(OSError):
            self._writer = SummaryWriter(str(self._folder), purge_step=step_of(saved) + 1 if saved else 0)

    def on_step(self, row: StepRow) -> None:
        """The loss, the rate and the speed of some steps."""
        if row.step % STEPS_EACH == 0:
            values = {"loss": row.loss, "rate": row.rate, "tokens_per_second": row.n_tokens / row.seconds}
            self._write(row.step, {f"train/{name}": value for name, value in values.items()})

    def on_validation(self, step: int, validation: Validation) -> None:
        """The scores, and what the model makes of one text."""
        values = {"loss": validation.loss, **validation.scores}
        self._write(step, {f"valid/{name}": value for name, value in values.items()}, " -> ".join(validation.sample))

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


class Together:
    """Several observers as one."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def on_start(self, saved: Path | None) -> None:
        """Tell all."""
        for observer in self._observers:
            observer.on_start(saved)

    def on_step(self, row: StepRow) -> None:
        """Tell all."""
        for observer in self._observers:
            observer.on_step(row)

    def on_validation(self, step: int, validation: Validation) -> None:
        """Tell all."""
        for observer in self._observers:
            observer.on_validation(step, validation)

    def on_note(self, text: str) -> None:
        """Tell all."""
        for observer in self._observers:
            observer.on_note(text)


def with_board(observer: Observer, folder: Path) -> Observer:
    """An observer, and TensorBoard beside it where that is installed."""
    return Together(observer, Board(folder)) if find_spec("tensorboard") else observer
