"""The callback interface of the training loop, and the records that callbacks receive.

To add a callback, subclass `Callback`, override the methods you need, and pass an instance to
`transduce.train(..., callbacks=[...])`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class StepMetrics:
    """Measurements of one optimizer step."""

    step: int
    epoch: int
    loss: float  # nats per token, with label smoothing
    rate: float
    n_tokens: int  # target tokens, summed over all ranks
    seconds: float


class WorstSentence(NamedTuple):
    """A badly translated validation sentence with its chrF (100 is perfect)."""

    chrf: float
    source: str
    translation: str
    reference: str


@dataclass(frozen=True, slots=True)
class Validation:
    """The result of a validation.

    `loss` is in nats per token, without label smoothing. `scores` holds the other metrics by name
    and `signature` how they were computed. `lengths` holds histograms of sentence lengths; their
    classes are those of `reports.training.WORDS_PER_CLASS`.
    """

    loss: float
    scores: Mapping[str, float]
    signature: str
    sample: tuple[str, str]  # a text and the current output of the model for it
    hardest: Sequence[WorstSentence] = ()  # worst first
    lengths: Mapping[str, Sequence[int]] = field(default_factory=dict)


class Callback:
    """A training callback. The default methods do nothing.

    Callbacks are called in the order of their list, in the first rank only. An exception stops the
    training, so an optional callback should catch its own I/O errors.
    """

    def on_start(self, saved: Path | None) -> None:
        """Handle the start of training; `saved` is the checkpoint it resumes from, if any."""

    def on_step(self, metrics: StepMetrics) -> None:
        """Handle the end of an optimizer step."""

    def on_validation(self, step: int, validation: Validation) -> None:
        """Handle the result of a validation after `step`."""

    def on_note(self, text: str) -> None:
        """Handle a message for the user, for example about a skipped batch."""

    def on_end(self) -> None:
        """Handle the end of training, also after an error or a stop signal."""


class CallbackList(Callback):
    """Several callbacks as one: each event is passed to every callback, in order."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self._callbacks = tuple(callbacks)

    def on_start(self, saved: Path | None) -> None:
        """Pass on the start of training."""
        for callback in self._callbacks:
            callback.on_start(saved)

    def on_step(self, metrics: StepMetrics) -> None:
        """Pass on a step."""
        for callback in self._callbacks:
            callback.on_step(metrics)

    def on_validation(self, step: int, validation: Validation) -> None:
        """Pass on a validation."""
        for callback in self._callbacks:
            callback.on_validation(step, validation)

    def on_note(self, text: str) -> None:
        """Pass on a note."""
        for callback in self._callbacks:
            callback.on_note(text)

    def on_end(self) -> None:
        """Pass on the end of training."""
        for callback in self._callbacks:
            callback.on_end()
