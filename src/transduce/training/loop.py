"""The training loop (section 5): batches in, optimizer steps, validations and checkpoints."""

import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from transduce.config import TrainConfig
from transduce.data.batch import Batch
from transduce.data.order import Position
from transduce.errors import ModelError, StoppedError
from transduce.hardware import keep_freed_memory
from transduce.log import Log
from transduce.training.callbacks.base import Callback, CallbackList, StepMetrics, Validation
from transduce.training.checkpoint_manager import ROLLBACK_RATE_FACTOR, CheckpointManager
from transduce.training.checkpoints import (
    TrainingState,
    average_checkpoints,
    best_on_disk,
    load_best,
)
from transduce.training.distributed import ALONE, Ranks
from transduce.training.schedule import learning_rate
from transduce.training.step import Model, make_optimizer, seed_step, update

MAX_NON_FINITE = 3  # consecutive non-finite steps before a rollback to the last checkpoint


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """The result of a training."""

    state: TrainingState
    validation: Validation  # of the final weights
    weights: str  # description of the final weights: an average, or those of a step


Validate = Callable[[], Validation]
Batches = Callable[[Position], Iterator[tuple[Batch, Position]]]
Stop = Callable[[], int | None]  # returns the number of the signal that requested a stop, if any


def never_stop() -> int | None:
    """Return None: no stop was requested."""
    return None


def train(
    model: Model,
    batches_from: Batches,
    config: TrainConfig,
    folder: Path,
    *,
    validate: Validate | None,
    callbacks: Sequence[Callback] = (),
    stop: Stop = never_stop,
    ranks: Ranks = ALONE,
) -> TrainingResult:
    """Train for `config.steps`, or until `config.patience` validations show no improvement.

    `batches_from` yields the batches from a position on. `validate` measures the current weights.
    `stop` is polled after each step. Checkpoints are written to `folder`; if there are some, the
    training resumes from the newest. The model ends as the average of the last checkpoints (section
    6.1), or as the best one if that is better.

    Every rank calls this function. Only the first one validates, writes files and gets the final
    weights; the others pass `validate=None`.
    """
    keep_freed_memory()
    optimizer = make_optimizer(model)
    ranks.broadcast_weights(model)
    report = CallbackList(callbacks)
    checkpoints = CheckpointManager(folder, model, optimizer, config, report.on_note, ranks)

    saved = checkpoints.find_newest()
    report.on_start(saved)
    try:
        state, latest = _run_steps(
            model,
            optimizer,
            batches_from,
            config,
            checkpoints.restore(saved),
            checkpoints=checkpoints,
            validate=validate,
            report=report,
            stop=stop,
            ranks=ranks,
        )
        return ranks.once(
            lambda: _finish(model, state, config, checkpoints, validate, latest),
            lambda values: TrainingResult(
                state, validation_from_json(values["validation"]), values["weights"]
            ),
        )
    finally:
        report.on_end()


def _run_steps(
    model: Model,
    optimizer: torch.optim.Optimizer,
    batches_from: Batches,
    config: TrainConfig,
    state: TrainingState,
    *,
    checkpoints: CheckpointManager,
    validate: Validate | None,
    report: Callback,
    stop: Stop,
    ranks: Ranks,
) -> tuple[TrainingState, Validation | None]:
    """Train from `state` to the end; return the last state and the last validation, if any.

    Raise StoppedError after a signal, DivergedError if the loss stays non-finite.
    """
    source = batches_from(state.position)
    latest: Validation | None = None
    n_non_finite = 0
    model.train()
    while state.step < config.steps and state.n_stale < config.patience:
        started = time.monotonic()
        step, position, batches = state.step + 1, state.position, []
        for _ in range(config.accumulate):
            batch, position = next(source)
            batches.append(batch)

        rate = learning_rate(step, config, model.config) * ROLLBACK_RATE_FACTOR**state.n_rollbacks
        seed_step(config.seed, step, ranks.rank)
        loss, n_tokens = update(model, optimizer, batches, rate, config, report.on_note, ranks)

        if not math.isfinite(loss):
            n_non_finite += 1
            epoch, pool, first = state.position
            report.on_note(
                f"step {step}: loss or gradient is NaN or infinite; "
                f"skipped the batch (epoch {epoch}, pool {pool}, batch {first})"
            )
            if n_non_finite < MAX_NON_FINITE:
                state = replace(state, position=position)
            else:
                state = checkpoints.roll_back(state, step, "loss or gradient")
                source, n_non_finite = batches_from(state.position), 0
            continue
        n_non_finite = 0
        seconds = time.monotonic() - started
        report.on_step(StepMetrics(step, state.position.epoch, loss, rate, n_tokens, seconds))
        state = replace(state, step=step, position=position)

        is_last = step == config.steps
        if step % config.validate_every == 0 or is_last:
            latest = ranks.once(lambda: measure(model, validate), validation_from_json)
            if not math.isfinite(latest.loss):
                state = checkpoints.roll_back(state, step, "validation loss")
                source = batches_from(state.position)
                continue
            report.on_validation(step, latest)
            before, state = state, state.validated(metric_to_minimise(latest, config))
            if state.best < before.best and not checkpoints.save_best(state):
                # Weights that are not on disk cannot be loaded at the end.
                state = replace(state, best=before.best, best_step=before.best_step)

        stop_signal = ranks.largest(stop() or 0) or None
        is_end = is_last or state.n_stale >= config.patience
        required = is_end or stop_signal is not None
        if step % config.save_every == 0 or required or checkpoints.should_retry(step):
            checkpoints.save(state, required=required)
        if stop_signal is not None and not is_end:
            raise StoppedError(
                f"{signal.Signals(stop_signal).name}: stopped after step {step}, "
                "checkpoint saved; run the same command to resume",
                stop_signal,
            )
    return state, latest


def _finish(
    model: Model,
    state: TrainingState,
    config: TrainConfig,
    checkpoints: CheckpointManager,
    validate: Validate | None,
    latest: Validation | None,
) -> TrainingResult:
    """Call `finish`, and note if better weights were lost."""
    note, lost = checkpoints.note, checkpoints.lost_best
    result = finish(model, state, config, checkpoints.folder, validate, latest, note)
    if lost is not None and metric_to_minimise(result.validation, config) > lost.best:
        note(
            f"the best weights (step {lost.best_step}) are gone; "
            f"the model is worse than they were: {result.weights}"
        )
    return result


def finish(
    model: Model,
    state: TrainingState,
    config: TrainConfig,
    folder: Path,
    validate: Validate | None,
    latest: Validation | None,
    note: Log = lambda text: None,
) -> TrainingResult:
    """Load the final weights into the model and validate them.

    `latest` is the validation of the last step, if there was one; it is reused if the final weights
    are those of that step. The average is compared with the best weights on disk. Damaged
    checkpoints are reported to `note` and not used.
    """
    steps = average_checkpoints(folder, model, config.save_every, config.average_last, note)
    steps = steps or [state.step]  # no checkpoint is intact; the model has the last weights
    averaged = latest if latest is not None and steps == [state.step] else measure(model, validate)
    stored, problem = best_on_disk(folder)
    if stored is not None and metric_to_minimise(averaged, config) > stored.best:
        try:
            load_best(folder, model)
        except ModelError as error:
            problem = str(error)
        else:
            weights = f"step {stored.step}, better than the average of the last"
            return TrainingResult(state, measure(model, validate), weights)
    if problem is not None:
        note(f"the best weights are damaged ({problem}); they are not used")
    weights = (
        f"the average of the last {len(steps)} checkpoints"
        if len(steps) > 1
        else f"step {steps[0]}"
    )
    return TrainingResult(state, averaged, weights)


def measure(model: Model, validate: Validate | None) -> Validation:
    """Validate without dropout and gradients, then set the model to training mode again."""
    assert validate is not None, "the first rank validates"
    model.eval()
    with torch.inference_mode():
        validation = validate()
    model.train()
    return validation


def validation_from_json(values: Mapping[str, Any]) -> Validation:
    """Rebuild a validation that the first rank broadcast, without its sample and histograms."""
    return Validation(values["loss"], values["scores"], values["signature"], sample=("", ""))


def metric_to_minimise(validation: Validation, config: TrainConfig) -> float:
    """Return the validation metric to minimise: the loss, or the negative BLEU."""
    if config.better_by == "loss" or not math.isfinite(validation.loss):
        return validation.loss
    return -validation.scores["BLEU"]
