"""Save a training while it runs, and restore it from its checkpoints."""

import math
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from transduce.config import ModelConfig, TrainConfig
from transduce.errors import DivergedError, ModelError, StorageError
from transduce.log import Log
from transduce.training.checkpoints import (
    TrainingState,
    load_checkpoint,
    newest_intact,
    restore_best,
    save_best,
    save_checkpoint,
    step_of,
)
from transduce.training.distributed import Ranks
from transduce.training.schedule import peak_learning_rate
from transduce.training.step import Model

MAX_ROLLBACKS = 2
ROLLBACK_RATE_FACTOR = 0.5  # the learning rate is multiplied by it at each rollback
MAX_FAILED_SAVES = 5
RETRY_AFTER = 50  # steps between a failed save and the next attempt


@dataclass(slots=True)
class CheckpointManager:
    """Writes the checkpoints of a training and restores it from them.

    Each rank has a manager; only that of the first rank writes. `note` is called with messages for
    the user.
    """

    folder: Path
    model: Model
    optimizer: torch.optim.Optimizer
    config: TrainConfig
    note: Log
    ranks: Ranks
    n_failed: int = 0  # failed saves in a row
    retry_at: int | None = None  # step of the next attempt after a failed save
    lost_best: TrainingState | None = None  # names best weights that are not on disk any more

    def find_newest(self) -> Path | None:
        """Return the newest intact checkpoint, the same one on every rank, or None.

        Raise ModelError if it is after the last step: it cannot be of this run.
        """

        def find() -> Path | None:
            saved, notes = newest_intact(self.folder)
            for note in notes:
                self.note(note)
            if saved is not None and step_of(saved) > self.config.steps:
                raise ModelError(
                    f"{saved} is after the last step of this run "
                    f"(train.steps is {self.config.steps}); move it to the run it belongs to"
                )
            return saved

        return self.ranks.once(find, lambda value: None if value is None else Path(value))

    def restore(self, saved: Path | None) -> TrainingState:
        """Load a checkpoint into model and optimizer and return its state.

        Without a checkpoint, return the state of a new training.
        """
        n_ranks, precision = self.ranks.size, self.config.precision
        if saved is None:
            self._best_of(TrainingState())
            return TrainingState(n_ranks=n_ranks, precision=precision)
        state = load_checkpoint(saved, self.model, self.optimizer)
        if state.n_ranks != n_ranks:
            self.note(
                f"until step {state.step} this run used {state.n_ranks} processes, now {n_ranks}; "
                "the order of the batches stays the same, "
                "but the weights will not be bit-identical"
            )
        if state.precision != precision:
            self.note(
                f"until step {state.step} this run used {state.precision} matrix products, "
                f"now {precision}"
            )
        best, best_step = self._best_of(state)
        return replace(state, best=best, best_step=best_step, n_ranks=n_ranks, precision=precision)

    def _best_of(self, state: TrainingState) -> tuple[float, int]:
        """Return metric and step of the best weights that are on disk, the same on every rank.

        If they are better than those of `state`, training was killed after it had saved them. It
        will repeat that validation, so the values of `state` are kept.
        """

        def read() -> tuple[float, int]:
            stored, notes = restore_best(self.folder, state)
            for note in notes:
                self.note(note)
            if stored is None:
                self.lost_best = state if state.best_step else None
                return math.inf, 0
            if stored.best > state.best:
                return stored.best, stored.step
            return state.best, state.best_step

        return self.ranks.once(read, lambda values: (values[0], values[1]))

    def should_retry(self, step: int) -> bool:
        """Return whether a checkpoint that could not be written is to be retried at this step."""
        return self.retry_at is not None and step >= self.retry_at

    def save(self, state: TrainingState, *, required: bool) -> None:
        """Write a checkpoint.

        A required checkpoint raises StorageError if it cannot be written, and every rank waits for
        it. Otherwise a failure is noted and retried later, at most `MAX_FAILED_SAVES` times.
        """
        if required:
            self.ranks.once(lambda: self._write(state, required=True), lambda values: None)
        elif self.ranks.is_first:
            self._write(state, required=False)

    def _write(self, state: TrainingState, *, required: bool) -> None:
        try:
            save_checkpoint(
                self.folder,
                state,
                self.model,
                self.optimizer,
                every=self.config.save_every,
                keep=self.config.average_last,
            )
        except StorageError as error:
            self.n_failed += 1
            if required or self.n_failed > MAX_FAILED_SAVES:
                raise
            self.retry_at = state.step + RETRY_AFTER
            self.note(
                f"{error}. The previous checkpoint is kept, training continues, "
                f"next attempt in {RETRY_AFTER} steps"
            )
        else:
            self.n_failed, self.retry_at = 0, None

    def save_best(self, state: TrainingState) -> bool:
        """Write the best weights so far; return whether this succeeded, the same on every rank.

        If the disk is full, note it and continue: the previous best weights stay the best.
        """

        def write() -> bool:
            try:
                save_best(self.folder, state, self.model)
            except StorageError as error:
                self.note(f"{error}. The previous best weights are kept, training continues")
                return False
            return True

        return self.ranks.once(write, bool)

    def roll_back(self, state: TrainingState, step: int, what: str) -> TrainingState:
        """Restore the last checkpoint and lower the learning rate, because `what` is not finite.

        Raise DivergedError if there is no checkpoint or the limit of rollbacks is reached.
        """
        saved = self.find_newest()
        if saved is None or state.n_rollbacks >= MAX_ROLLBACKS:
            raise divergence_error(step, what, saved, self.config, self.model.config)
        restored = load_checkpoint(saved, self.model, self.optimizer)
        # The best weights stay on disk, also if they are later than the checkpoint.
        restored = replace(restored, best=state.best, best_step=state.best_step)
        n_rollbacks = state.n_rollbacks + 1
        factor = ROLLBACK_RATE_FACTOR**n_rollbacks
        self.note(
            f"step {step}: {what} became NaN or infinite; "
            f"back to {saved.name} with {factor:g} times the learning rate"
        )
        return replace(
            restored, n_rollbacks=n_rollbacks, n_ranks=state.n_ranks, precision=state.precision
        )


def divergence_error(
    step: int, what: str, saved: Path | None, config: TrainConfig, model: ModelConfig
) -> DivergedError:
    """Return the error of a training that diverged, with settings to try."""
    kept = f"the last checkpoint, {saved.name}, is kept" if saved else "there is no checkpoint yet"
    rate = peak_learning_rate(config, model)
    return DivergedError(
        f"step {step}: {what} became NaN or infinite ({kept}); "
        f"try a lower train.learning_rate (now {rate:.2g} at its peak), "
        f"a larger train.warmup_steps (now {config.warmup_steps}) or model.norm=pre"
    )
