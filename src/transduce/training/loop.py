"""The training loop (section 5): batches in, weights changed, validated and saved on the way."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch
from torch import nn

from transduce.config import TrainConfig
from transduce.data.batch import Batch
from transduce.data.stream import Position
from transduce.errors import DivergedError
from transduce.model import LanguageModel, ModelConfig, Transformer
from transduce.training.allocator import keep_freed_memory
from transduce.training.loss import batch_loss
from transduce.training.schedule import learning_rate
from transduce.training.state import (
    State,
    average_checkpoints,
    checkpoints,
    load_best,
    load_checkpoint,
    save_best,
    save_checkpoint,
)

BETAS, EPSILON = (0.9, 0.98), 1e-9  # of Adam, section 5.3


@dataclass(frozen=True, slots=True)
class StepRow:
    """What one step did."""

    step: int
    epoch: int
    loss: float  # with label smoothing, nats a token
    rate: float
    n_tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Validation:
    """What a model is worth: loss in nats a token without smoothing, other scores by name, how they were computed."""

    loss: float
    scores: Mapping[str, float]
    signature: str
    sample: tuple[str, str]  # a text and what the model makes of it now


@dataclass(frozen=True, slots=True)
class Trained:
    """How a training ended: where it stood, what its final weights are worth, and which ones they are."""

    state: State
    validation: Validation
    weights: str


@runtime_checkable
class Observer(Protocol):
    """Who wants to know how it goes."""

    def on_step(self, row: StepRow) -> None:
        """A step was made."""

    def on_validation(self, step: int, validation: Validation) -> None:
        """The model was measured."""


Model = Transformer | LanguageModel
Validate = Callable[[], Validation]
Batches = Callable[[Position], Iterator[tuple[Batch, Position]]]


def make_optimizer(model: nn.Module) -> torch.optim.Adam:
    """Adam with the paper's constants (section 5.3). All parameters in one pass; the rate is set before each step."""
    return torch.optim.Adam(model.parameters(), betas=BETAS, eps=EPSILON, fused=True)


def update(
    model: Model, optimizer: torch.optim.Optimizer, batches: Sequence[Batch], rate: float, config: TrainConfig
) -> float:
    """One step: gradients of all batches, each summed loss divided by the tokens of the whole step; returns the loss a token.

    If the loss or a gradient is not finite, nothing is changed and the answer is not a number.
    """
    n_tokens = sum(batch.n_tokens for batch in batches)
    total = 0.0
    for batch in batches:
        with autocast(config):
            loss = batch_loss(model, batch, config.label_smoothing) / n_tokens
        loss.backward()  # type: ignore[no-untyped-call]  # torch's own
        total += loss.item()
    norm = nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm or math.inf)
    if not (math.isfinite(total) and norm.isfinite()):
        optimizer.zero_grad()
        return math.nan
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    optimizer.zero_grad()
    return total


def train(
    model: Model,
    batches_from: Batches,
    config: TrainConfig,
    folder: Path,
    *,
    validate: Validate,
    observer: Observer,
) -> Trained:
    """Train until `config.steps`, or until validation has not improved for `config.patience` times.

    `batches_from` gives the batches from a position on; `validate` measures the model as it is at that moment. Checkpoints go
    to `folder`; a training that left some there is taken up where it was. The model ends as the average of the last
    checkpoints (section 6.1), or as the best one if that has the lower validation loss.
    """
    keep_freed_memory()
    optimizer = make_optimizer(model)
    state = State()
    saved = checkpoints(folder)
    if saved:
        state = load_checkpoint(saved[-1], model, optimizer)
    source = batches_from(state.position)
    model.train()
    while state.step < config.steps and state.n_stale < config.patience:
        started = time.monotonic()
        step, position, batches = state.step + 1, state.position, []
        for _ in range(config.accumulate):
            batch, position = next(source)
            batches.append(batch)
        rate = learning_rate(step, config, model.config)
        loss = update(model, optimizer, batches, rate, config)
        if not math.isfinite(loss):
            raise diverged(step, "the loss or its gradient", folder, config, model.config)
        n_tokens = sum(batch.n_tokens for batch in batches)
        observer.on_step(StepRow(step, state.position.epoch, loss, rate, n_tokens, time.monotonic() - started))
        state = replace(state, step=step, position=position)
        is_last = step == config.steps
        if step % config.validate_every == 0 or is_last:
            validation = measure(model, validate)
            if not math.isfinite(validation.loss):
                raise diverged(step, "the validation loss", folder, config, model.config)
            observer.on_validation(step, validation)
            state = state.validated(validation.loss)
            if state.best_step == step:
                save_best(folder, state, model)
        if step % config.save_every == 0 or is_last or state.n_stale >= config.patience:
            save_checkpoint(folder, state, model, optimizer, keep=config.average_last)
    average_checkpoints(folder, model, config.average_last)
    averaged = measure(model, validate)
    if averaged.loss <= state.best_loss:
        which = (
            f"the average of the last {config.average_last} checkpoints"
            if config.average_last > 1
            else f"step {state.step}"
        )
        return Trained(state, averaged, which)
    load_best(folder, model)
    return Trained(state, measure(model, validate), f"step {state.best_step}, better than the average of the last")


def measure(model: Model, validate: Validate) -> Validation:
    """Validate without dropout and without gradients, then go on training."""
    model.eval()
    with torch.inference_mode():
        validation = validate()
    model.train()
    return validation


def diverged(step: int, what: str, folder: Path, config: TrainConfig, model: ModelConfig) -> DivergedError:
    """The error of a training that left the numbers, with what to try."""
    saved = checkpoints(folder)
    kept = f"The last checkpoint, {saved[-1].name}, is kept" if saved else "There was no checkpoint yet"
    return DivergedError(
        f"step {step}: {what} is not a finite number. {kept}. Try a lower train.learning_rate (its peak is now "
        f"{peak(config, model):.2g}), a longer train.warmup_steps (now {config.warmup_steps}) or model.norm=pre"
    )


def peak(config: TrainConfig, model: ModelConfig) -> float:
    """The largest rate of a training."""
    return learning_rate(config.warmup_steps, config, model)


def autocast(config: TrainConfig) -> contextlib.AbstractContextManager[object]:
    """Matrix products in bfloat16, if asked; weights and their updates stay float32."""
    if config.precision == "bfloat16":
        return torch.autocast("cpu", torch.bfloat16)
    return contextlib.nullcontext()
