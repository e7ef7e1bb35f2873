"""The callback interface: users pass callbacks to `transduce.train` in a list."""

from pathlib import Path

import pytest

import transduce
from tests.conftest import write_grammar
from tests.training.test_loop import fresh, run, short
from transduce.config import Layer
from transduce.errors import TransduceError
from transduce.training.callbacks.base import Callback, CallbackList, StepMetrics, Validation

SETTINGS: list[Layer] = [
    {"model": {"d_model": 16, "n_layers": 1}, "text": {"vocab_size": 400}},
    {"train": {"steps": 4, "validate_every": 2, "save_every": 2}},
]


class LossLog(Callback):
    """A callback that overrides some of the methods and records the events."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def on_start(self, saved: Path | None) -> None:
        self.events.append(f"start {saved.name if saved else None}")

    def on_step(self, metrics: StepMetrics) -> None:
        self.events.append(f"step {metrics.step}")

    def on_validation(self, step: int, validation: Validation) -> None:
        assert validation.loss > 0
        self.events.append(f"validation {step}")

    def on_end(self) -> None:
        self.events.append("end")


def test_train_calls_the_callbacks_of_a_list(tmp_path: Path) -> None:
    source, target = write_grammar(tmp_path)
    first, second = LossLog(), LossLog()
    transduce.train(
        tmp_path / "run",
        source,
        target,
        preset="nano",
        settings=SETTINGS,
        callbacks=[first, second],
    )
    assert first.events == second.events
    assert first.events == [
        "start None",
        *("step 1", "step 2", "validation 2"),
        *("step 3", "step 4", "validation 4"),
        "end",
    ]


def test_methods_that_are_not_overridden_do_nothing(tmp_path: Path) -> None:
    run(fresh(), tmp_path, short(), Callback())


def test_callbacks_are_called_in_the_order_of_the_list() -> None:
    order: list[str] = []

    class Named(Callback):
        def __init__(self, name: str) -> None:
            self.name = name

        def on_note(self, text: str) -> None:
            order.append(f"{self.name}: {text}")

    CallbackList([Named("a"), Named("b")]).on_note("full disk")
    assert order == ["a: full disk", "b: full disk"]


def test_the_end_is_reported_after_an_error_too(tmp_path: Path) -> None:
    class Failing(LossLog):
        def on_step(self, metrics: StepMetrics) -> None:
            raise TransduceError("no more")

    callback = Failing()
    with pytest.raises(TransduceError, match="no more"):
        run(fresh(), tmp_path, short(), callback)
    assert callback.events == ["start None", "end"]
