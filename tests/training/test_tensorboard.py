from pathlib import Path

import pytest

from transduce.training.callbacks import tensorboard as board
from transduce.training.callbacks.tensorboard import with_board
from transduce.training.loop import SilentCallback, StepRow, Validation


def test_tensorboard_reads_the_numbers_of_a_training_that_was_continued(tmp_path: Path) -> None:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    for saved, steps in ((None, (10, 20, 30)), (Path("step-00000010"), (20, 30, 40))):
        observer = with_board(SilentCallback(), tmp_path)
        observer.on_start(saved)
        for step in steps:
            observer.on_step(StepRow(step, 0, loss=100 / step, rate=0.1, n_tokens=50, seconds=2.0))
        observer.on_validation(40, Validation(1.5, {"BLEU": 30.0}, "", ("a", "b")))
    found = reader.EventAccumulator(str(tmp_path)).Reload()
    assert [event.step for event in found.Scalars("train/loss")] == [10, 20, 30, 40]
    assert found.Scalars("train/tokens_per_second")[0].value == 25
    assert found.Scalars("valid/BLEU")[-1].value == 30


def test_without_it_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board, "find_spec", lambda name: None)
    observer = SilentCallback()
    assert with_board(observer, tmp_path) is observer
    assert not list(tmp_path.iterdir())
