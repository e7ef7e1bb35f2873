"""The state of a training, and the halves of a batch that does not fit into memory."""

import numpy as np
import torch

from transduce.data.batch import collate, encode_example
from transduce.training.checkpoints import TrainingState
from transduce.training.step import halves


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
        assert np.abs(len(first.target_in) - len(second.target_in)) <= 1
    single = collate([encode_example([4], [5])])
    assert halves(single) == [single]
