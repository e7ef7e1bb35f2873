"""The state of a training, and the halves of a batch that does not fit into memory."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from transduce.config import TrainConfig
from transduce.data.batch import collate, encode_example
from transduce.errors import DivergedError
from transduce.model import Transformer
from transduce.training.callbacks.base import Validation
from transduce.training.checkpoint_manager import MAX_ROLLBACKS, CheckpointManager
from transduce.training.checkpoints import (
    BEST,
    TrainingState,
    average_checkpoints,
    save_best,
    save_checkpoint,
)
from transduce.training.distributed import ALONE
from transduce.training.loop import finish
from transduce.training.step import halves, make_optimizer


def test_a_validation_that_is_as_good_as_the_best_is_no_improvement() -> None:
    first = TrainingState(step=10).validated(2.0)
    assert (first.best, first.best_step, first.n_stale) == (2.0, 10, 0)
    assert first.validated(2.0).n_stale == 1
    assert first.validated(2.1).validated(2.0).n_stale == 2
    assert first.validated(1.9).n_stale == 0


def test_halves_hold_every_row_once_and_one_row_stays_whole() -> None:
    for n_rows in (2, 3, 5):
        batch = collate([encode_example([4] * n, [5] * n) for n in range(1, n_rows + 1)])
        first, second = halves(batch)
        assert torch.equal(torch.cat((first.target_out, second.target_out)), batch.target_out)
        assert first.n_tokens + second.n_tokens == batch.n_tokens
        assert abs(len(first.target_in) - len(second.target_in)) <= 1
    single = collate([encode_example([4], [5])])
    assert halves(single) == [single]


def test_last_weights_as_good_as_the_best_are_the_final_ones_and_worse_ones_are_not(
    model: Transformer, tmp_path: Path
) -> None:
    state = TrainingState(step=30, best=2.0, best_step=20)
    save_best(tmp_path, replace(state, step=20), model)

    def weights(loss: float) -> str:
        def validate() -> Validation:
            return Validation(loss, {}, "", ("", ""))

        return finish(model, state, TrainConfig(), tmp_path, validate, None).weights

    assert weights(2.0) == weights(1.9) == "step 30"
    assert weights(2.1) == "step 20, better than the average of the last"


@pytest.mark.parametrize(
    ("steps", "last", "averaged"),
    [
        ((10, 20, 25), 2, [20, 25]),  # the final one counts
        ((15, 20, 25), 3, [20, 25]),  # one between the multiples does not
        ((10, 20, 30), 2, [20, 30]),
        ((5,), 3, [5]),
    ],
)
def test_the_average_is_over_multiples_and_the_final_checkpoint(
    model: Transformer, tmp_path: Path, steps: tuple[int, ...], last: int, averaged: list[int]
) -> None:
    for step in steps:
        save_best(tmp_path, TrainingState(step=step), model)
        (tmp_path / BEST).rename(tmp_path / f"step-{step:08d}")
    assert average_checkpoints(tmp_path, model, every=10, last=last) == averaged


def test_a_training_is_rolled_back_as_often_as_the_limit_and_not_once_more(
    model: Transformer, tmp_path: Path
) -> None:
    optimizer = make_optimizer(model)
    save_checkpoint(tmp_path, TrainingState(step=10), model, optimizer, every=10, keep=1)
    checkpoints = CheckpointManager(
        tmp_path, model, optimizer, TrainConfig(steps=100), lambda text: None, ALONE
    )
    before = TrainingState(step=15, n_rollbacks=MAX_ROLLBACKS - 1)
    after = checkpoints.roll_back(before, 16, "loss")
    assert (after.step, after.n_rollbacks) == (10, MAX_ROLLBACKS)
    with pytest.raises(DivergedError, match="step 17: loss became NaN or infinite"):
        checkpoints.roll_back(after, 17, "loss")
