from pathlib import Path

import pytest

from transduce.training.callbacks import tensorboard
from transduce.training.callbacks.base import StepMetrics, Validation
from transduce.training.callbacks.tensorboard import TensorBoard, tensorboard_if_installed


def test_tensorboard_reads_the_numbers_of_a_resumed_training(tmp_path: Path) -> None:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    for saved, steps in ((None, (10, 20, 30)), (Path("step-00000010"), (20, 30, 40))):
        callback = TensorBoard(tmp_path)
        callback.on_start(saved)
        for step in steps:
            callback.on_step(
                StepMetrics(step, 0, loss=100 / step, rate=0.1, n_tokens=50, seconds=2.0)
            )
        callback.on_validation(40, Validation(1.5, {"BLEU": 30.0}, "", ("a", "b")))
    found = reader.EventAccumulator(str(tmp_path)).Reload()
    assert [event.step for event in found.Scalars("train/loss")] == [10, 20, 30, 40]
    assert found.Scalars("train/tokens_per_second")[0].value == 25
    assert found.Scalars("valid/BLEU")[-1].value == 30


def test_without_tensorboard_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensorboard, "find_spec", lambda name: None)
    assert tensorboard_if_installed(tmp_path) == []
    assert not list(tmp_path.iterdir())
