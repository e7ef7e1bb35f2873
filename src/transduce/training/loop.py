"""The training loop (section 5): batches in, weights changed, validated and saved on the way."""

import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch

from transduce.config import TrainConfig
from transduce.data.batch import Batch
from transduce.data.order import Position
from transduce.errors import DivergedError, StoppedError, StorageError
from transduce.hardware import keep_freed_memory
from transduce.model import ModelConfig
from transduce.training.checkpoints import (
    TrainingState,
    average_checkpoints,
    load_best,
    load_checkpoint,
    newest_whole,
    save_best,
    save_checkpoint,
)
from transduce.training.distributed import ALONE, Ranks
from transduce.training.schedule import learning_rate
from transduce.training.step import Model, make_optimizer, seed_step, update

MOST_BAD = 3  # steps in a row that are not finite, before an older checkpoint is taken
MOST_ROLLBACKS, LOWER = 2, 0.5  # times that happens; what the rate is multiplied by each time
MOST_FAILED, RETRY_AFTER = (
    5,
    50,
)  # times a checkpoint may fail to be written; steps until the next try


@dataclass(frozen=True, slots=True)
class StepRow:
    """What one step did."""

    step: int
    epoch: int
    loss: float  # with label smoothing, nats a token
    rate: float
    n_tokens: int
    seconds: float


class WorstSentence(NamedTuple):
    """A text of the validation set that the model renders badly, and how badly: chrF, 100 is perfect."""

    chrf: float
    source: str
    translation: str
    reference: str


@dataclass(frozen=True, slots=True)
class Validation:
    """What a model is worth: loss in nats a token without smoothing, other scores by name, how they were computed."""

    loss: float
    scores: Mapping[str, float]
    signature: str
    sample: tuple[str, str]  # a text and what the model makes of it now
    hardest: Sequence[WorstSentence] = ()  # the texts it renders worst
    lengths: Mapping[str, Sequence[int]] = field(
        default_factory=dict
    )  # histograms of lengths: reports.training.WORDS_PER_CLASS


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """How a training ended: where it stood, what its final weights are worth, and which ones they are."""

    state: TrainingState
    validation: Validation
    weights: str


@runtime_checkable
class Callback(Protocol):
    """Who wants to know how it goes; what a child leaves out is passed over."""

    def on_start(self, saved: Path | None) -> None:
        """The training begins, or goes on from a checkpoint."""
        return

    def on_step(self, row: StepRow) -> None:
        """A step was made."""
        return

    def on_validation(self, step: int, validation: Validation) -> None:
        """The model was measured."""
        return

    def on_note(self, text: str) -> None:
        """Something happened that somebody should know."""
        return


class SilentCallback(Callback):
    """An observer that nobody reads: of a rank that is not the first."""


Validate = Callable[[], Validation]
Batches = Callable[[Position], Iterator[tuple[Batch, Position]]]
Stop = Callable[[], int | None]  # the number of the signal that asked for the end


def never() -> int | None:
    """Nobody asks for the end."""
    return None


def train(
    model: Model,
    batches_from: Batches,
    config: TrainConfig,
    folder: Path,
    *,
    validate: Validate,
    observer: Callback,
    stop: Stop = never,
    ranks: Ranks = ALONE,
) -> TrainingResult:
    """Train until `config.steps`, or until validation has not improved for `config.patience` times.

    `batches_from` gives the batches from a position on; `validate` measures the model as it is at that moment; `stop` is asked
    after each step for a signal to end. Checkpoints go to `folder`; a training that left some there is taken up where it was. The
    model ends as the average of the last checkpoints (section 6.1), or as the best one if that is better.
    With several ranks all of them call this; only the first one validates, saves, and ends with the final weights.
    """
    keep_freed_memory()
    optimizer = make_optimizer(model)
    ranks.spread(model)
    manager = CheckpointManager(folder, model, optimizer, config, observer, ranks)
    state = manager.start()
    source = batches_from(state.position)
    latest: Validation | None = None
    n_bad = 0
    model.train()
    while state.step < config.steps and state.n_stale < config.patience:
        started = time.monotonic()
        step, position, batches = state.step + 1, state.position, []
        for _ in range(config.accumulate):
            batch, position = next(source)
            batches.append(batch)
        rate = learning_rate(step, config, model.config) * LOWER**state.n_rollbacks
        seed_step(config.seed, step, ranks.rank)
        loss, n_tokens = update(model, optimizer, batches, rate, config, observer.on_note, ranks)
        if not math.isfinite(loss):
            n_bad += 1
            where = f"epoch {state.position.epoch}, batch {state.position.batch} of pool {state.position.pool}"
            observer.on_note(
                f"step {step}: the loss or its gradient is not a finite number; skipped the batch at {where}"
            )
            if n_bad < MOST_BAD:
                state = replace(state, position=position)
                continue
            state = manager.roll_back(state, step, "the loss or its gradient")
            source, n_bad = batches_from(state.position), 0
            continue
        n_bad = 0
        observer.on_step(
            StepRow(step, state.position.epoch, loss, rate, n_tokens, time.monotonic() - started)
        )
        state = replace(state, step=step, position=position)
        is_last = step == config.steps
        if step % config.validate_every == 0 or is_last:
            latest = ranks.once(lambda: measure(model, validate), validation_from_json)
            if not math.isfinite(latest.loss):
                state = manager.roll_back(state, step, "the validation loss")
                source = batches_from(state.position)
                continue
            observer.on_validation(step, latest)
            state = state.validated(metric_to_minimise(latest, config))
            if state.best_step == step:
                manager.save_best(state)
        signal_number = ranks.largest(stop() or 0) or None
        is_end = is_last or state.n_stale >= config.patience
        if (
            step % config.save_every == 0
            or is_end
            or manager.is_behind(step)
            or signal_number is not None
        ):
            manager.save(state, must=is_end or signal_number is not None)
        if signal_number is not None and not is_end:
            name = signal.Signals(signal_number).name
            raise StoppedError(
                f"{name}: stopped after step {step}, which is saved; the same command continues",
                signal_number,
            )
    last = state
    return ranks.once(
        lambda: finish(model, last, config, folder, validate, latest),
        lambda values: TrainingResult(
            last, validation_from_json(values["validation"]), values["weights"]
        ),
    )


def finish(
    model: Model,
    state: TrainingState,
    config: TrainConfig,
    folder: Path,
    validate: Validate,
    latest: Validation | None,
) -> TrainingResult:
    """Give the model its final weights and measure them. `latest` is the measure of the last step, if it was taken."""
    steps = average_checkpoints(folder, model, config.save_every, config.average_last)
    averaged = latest if latest is not None and steps == [state.step] else measure(model, validate)
    if metric_to_minimise(averaged, config) <= state.best:
        which = (
            f"the average of the last {len(steps)} checkpoints"
            if len(steps) > 1
            else f"step {steps[0]}"
        )
        return TrainingResult(state, averaged, which)
    step = load_best(folder, model)
    return TrainingResult(
        state, measure(model, validate), f"step {step}, better than the average of the last"
    )


@dataclass(slots=True)
class CheckpointManager:
    """Saves a training on its way, and takes it back to what was saved."""

    folder: Path
    model: Model
    optimizer: torch.optim.Optimizer
    config: TrainConfig
    observer: Callback
    ranks: Ranks
    n_failed: int = 0
    retry_at: int | None = None

    def start(self) -> TrainingState:
        """Where to begin: at the newest checkpoint that is whole, if there is one."""
        saved, notes = self._newest()
        for note in notes:
            self.observer.on_note(note)
        self.observer.on_start(saved)
        state = load_checkpoint(saved, self.model, self.optimizer) if saved else TrainingState()
        if saved and state.n_ranks != self.ranks.size:
            self.observer.on_note(
                f"this training had {state.n_ranks} processes until step {state.step}, now it has {self.ranks.size}: the "
                "order of its batches stays, but it will not be the same to the last bit"
            )
        if saved and state.precision != self.config.precision:
            self.observer.on_note(
                f"this training had products in {state.precision} until step {state.step}, now in {self.config.precision}"
            )
        return replace(state, n_ranks=self.ranks.size, precision=self.config.precision)

    def _newest(self) -> tuple[Path | None, list[str]]:
        """The checkpoint that all ranks take."""
        return self.ranks.once(
            lambda: newest_whole(self.folder),
            lambda values: (values[0] and Path(values[0]), values[1]),
        )

    def is_behind(self, step: int) -> bool:
        """Whether a checkpoint that could not be written should be tried again."""
        return self.retry_at is not None and step >= self.retry_at

    def save(self, state: TrainingState, must: bool) -> None:
        """Write a checkpoint, as the first rank. If it must be there, no rank goes on before it is."""
        if must:
            self.ranks.once(lambda: self._write(state, must), lambda values: None)
        elif self.ranks.is_first:
            self._write(state, must)

    def _write(self, state: TrainingState, must: bool) -> None:
        """If that fails, training goes on and it is tried again later, a few times, unless it must be now."""
        try:
            every, keep = self.config.save_every, self.config.average_last
            save_checkpoint(self.folder, state, self.model, self.optimizer, every, keep)
        except StorageError as error:
            self.n_failed += 1
            if must or self.n_failed > MOST_FAILED:
                raise
            self.retry_at = state.step + RETRY_AFTER
            self.observer.on_note(
                f"{error}. The old checkpoint stays, training goes on, next try in {RETRY_AFTER} steps"
            )
        else:
            self.n_failed, self.retry_at = 0, None

    def save_best(self, state: TrainingState) -> None:
        """Write the best weights so far, if there is room."""
        if not self.ranks.is_first:
            return
        try:
            save_best(self.folder, state, self.model)
        except StorageError as error:
            self.observer.on_note(f"{error}. The best weights before stay, training goes on")

    def roll_back(self, state: TrainingState, step: int, what: str) -> TrainingState:
        """Go back to the last checkpoint, with a lower rate; give up if there is none or it was tried before."""
        saved, _ = self._newest()
        if saved is None or state.n_rollbacks >= MOST_ROLLBACKS:
            raise diverged(step, what, saved, self.config, self.model.config)
        found = load_checkpoint(saved, self.model, self.optimizer)
        n_rollbacks = state.n_rollbacks + 1
        self.observer.on_note(
            f"step {step}: {what} is not a finite number; back to {saved.name} with {LOWER**n_rollbacks:g} of the rate"
        )
        return replace(
            found, n_rollbacks=n_rollbacks, n_ranks=state.n_ranks, precision=state.precision
        )


def measure(model: Model, validate: Validate) -> Validation:
    """Validate without dropout and without gradients, then go on training."""
    model.eval()
    with torch.inference_mode():
        validation = validate()
    model.train()
    return validation


def validation_from_json(values: Mapping[str, Any]) -> Validation:
    """A validation as a rank hears of it that did not make it: the numbers."""
    return Validation(values["loss"], values["scores"], values["signature"], sample=("", ""))


def metric_to_minimise(validation: Validation, config: TrainConfig) -> float:
    """What of a validation should be low."""
    if config.better_by == "loss" or not math.isfinite(validation.loss):
        return validation.loss
    return -validation.scores["BLEU"]


def diverged(
    step: int, what: str, saved: Path | None, config: TrainConfig, model: ModelConfig
) -> DivergedError:
    """The error of a training that left the numbers, with what to try."""
    kept = f"The last checkpoint, {saved.name}, is kept" if saved else "There was no checkpoint yet"
    return DivergedError(
        f"step {step}: {what} is not a finite number. {kept}. Try a lower train.learning_rate (its peak is now "
        f"{peak(config, model):.2g}), a longer train.warmup_steps (now {config.warmup_steps}) or model.norm=pre"
    )


def peak(config: TrainConfig, model: ModelConfig) -> float:
    """The largest rate of a training."""
    return learning_rate(config.warmup_steps, config, model)
