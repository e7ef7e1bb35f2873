import math
import shutil
from functools import partial
from pathlib import Path

import pytest
import torch

from tests.data.test_stream import random_examples
from transduce.checkpoint import load_weights_file, weights_of
from transduce.config import ModelConfig, TrainConfig
from transduce.data.batch import Example, collate
from transduce.data.stream import ExampleList, stream
from transduce.errors import DivergedError
from transduce.model import Transformer
from transduce.training.loop import StepRow, Validation, make_optimizer, train, update
from transduce.training.state import average_checkpoints, checkpoints

SHAPE = {"vocab_size": 300, "n_layers": 1, "d_model": 22, "d_ff": 37, "n_heads": 2}


class Silent:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.steps: list[StepRow] = []
        self.validations: list[int] = []

    def on_step(self, row: StepRow) -> None:
        self.steps.append(row)

    def on_validation(self, step: int, validation: Validation) -> None:
        self.validations.append(step)


def fresh(**changes: object) -> Transformer:
    torch.manual_seed(0)
    return Transformer(ModelConfig(**{**SHAPE, **changes}))


def same_weights(a: torch.nn.Module, b: torch.nn.Module) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))


def losses(*values: float):  # type: ignore[no-untyped-def]  # a validation that reports these losses in turn, then 0
    remaining = iter(values)

    def validate() -> Validation:
        return Validation(next(remaining, 0.0), {}, "", ("", ""))

    return validate


def short(**changes: object) -> TrainConfig:
    settings = {
        "steps": 6,
        "warmup_steps": 2,
        "learning_rate": 0.01,
        "validate_every": 2,
        "save_every": 2,
        "average_last": 2,
    }
    return TrainConfig(**{**settings, **changes})


def run(
    model: Transformer, folder: Path, config: TrainConfig, observer: Silent | None = None, validate=None
) -> Transformer:  # type: ignore[no-untyped-def]
    examples: list[Example] = random_examples()
    batches = partial(stream, ExampleList(examples), 128, config.seed)
    train(model, batches, config, folder, validate=validate or losses(), observer=observer or Silent())
    return model


def test_accumulated_batches_make_the_step_of_one_large_batch() -> None:
    """Normalised by the tokens of the whole step, although the parts have different numbers of tokens."""
    examples = random_examples(30)
    parts = [collate(examples[:7]), collate(examples[7:10]), collate(examples[10:])]
    config = short()
    together, apart = fresh(dropout=0.0), fresh(dropout=0.0)
    one = update(together, make_optimizer(together), [collate(examples)], 0.01, config)
    three = update(apart, make_optimizer(apart), parts, 0.01, config)
    assert one == pytest.approx(three, abs=1e-5)
    for a, b in zip(together.parameters(), apart.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=0)


def test_the_same_seed_gives_the_same_weights_dropout_included(tmp_path: Path) -> None:
    first = run(fresh(dropout=0.2), tmp_path / "a", short())
    second = run(fresh(dropout=0.2), tmp_path / "b", short())
    assert same_weights(first, second)


def test_a_training_taken_up_from_a_checkpoint_ends_in_the_same_weights(tmp_path: Path) -> None:
    straight = run(fresh(dropout=0.2), tmp_path / "straight", short())
    run(fresh(dropout=0.2), tmp_path / "broken", short(steps=4))
    torch.manual_seed(99)
    resumed = Silent()
    model = run(fresh(dropout=0.2), tmp_path / "broken", short(), resumed)
    assert [row.step for row in resumed.steps] == [5, 6]
    assert same_weights(model, straight)


def test_validation_and_saving_change_no_weight(tmp_path: Path) -> None:
    often = run(fresh(dropout=0.2), tmp_path / "a", short(validate_every=1, save_every=6, average_last=1))
    seldom = run(fresh(dropout=0.2), tmp_path / "b", short(validate_every=6, save_every=6, average_last=1))
    assert same_weights(often, seldom)


def test_the_final_model_is_the_average_of_the_last_checkpoints(tmp_path: Path) -> None:
    model = run(fresh(), tmp_path, short())
    kept = checkpoints(tmp_path)
    assert [path.name for path in kept] == ["step-00000004", "step-00000006"]
    a, b = (load_weights_file(path / "model.safetensors") for path in kept)
    for name, weight in weights_of(model).items():
        torch.testing.assert_close(weight, (a[name] + b[name]) / 2)
    assert average_checkpoints(tmp_path, model, last=2) == [4, 6]


def test_training_stops_when_validation_has_not_improved_for_long_and_keeps_the_best(tmp_path: Path) -> None:
    observer = Silent()
    config = short(steps=100, validate_every=1, patience=3)
    model = run(fresh(), tmp_path, config, observer, losses(5.0, 4.0, 6.0, 6.0, 6.0, 5.5))
    assert observer.validations == [1, 2, 3, 4, 5]
    best = load_weights_file(tmp_path / "best" / "model.safetensors")  # 4.0, and the average of the last has 5.5
    assert all(torch.equal(weight, best[name]) for name, weight in weights_of(model).items())
    assert (tmp_path / "best" / "model.safetensors").is_file()
    assert '"best_step": 2' in (tmp_path / "best" / "state.json").read_text()


def test_a_loss_that_is_not_a_number_stops_with_a_hint_and_leaves_the_checkpoint(tmp_path: Path) -> None:
    model = fresh()
    run(model, tmp_path, short(steps=2))
    with torch.no_grad():
        for path in checkpoints(tmp_path):
            weights = load_weights_file(path / "model.safetensors")
            weights["source_embedding.weight"][5] = math.nan
            from safetensors.torch import save_file

            save_file(weights, path / "model.safetensors")
    said = r"step 3: the loss or its gradient is not a finite number\. The last checkpoint, step-00000002, is kept\. Try a lower"
    with pytest.raises(DivergedError, match=said):
        run(fresh(), tmp_path, short(steps=4))
    assert [path.name for path in checkpoints(tmp_path)] == ["step-00000002"]


def test_a_validation_loss_that_is_not_a_number_stops_before_anything_is_saved(tmp_path: Path) -> None:
    said = r"step 2: the validation loss is not a finite number\. There was no checkpoint yet\. Try a lower train\.learning_rate"
    with pytest.raises(DivergedError, match=said):
        run(fresh(), tmp_path, short(), validate=losses(math.nan))
    assert checkpoints(tmp_path) == []


def test_a_gradient_that_is_not_a_number_changes_nothing() -> None:
    model = fresh(dropout=0.0)
    model.source_embedding.weight.register_hook(lambda gradient: gradient * math.inf)
    before = [parameter.clone() for parameter in model.parameters()]
    assert math.isnan(update(model, make_optimizer(model), [collate(random_examples(5))], 0.01, short()))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), before, strict=True))


def test_a_kill_between_writing_and_pruning_changes_nothing(tmp_path: Path) -> None:
    """A checkpoint too many is there when the training is taken up: the average takes the last ones all the same."""
    straight = run(fresh(), tmp_path / "straight", short())
    run(fresh(), tmp_path / "broken", short(steps=4))
    (tmp_path / "keep").mkdir()
    shutil.copytree(tmp_path / "broken" / "step-00000002", tmp_path / "keep" / "step-00000002")
    model = run(fresh(), tmp_path / "broken", short())
    shutil.copytree(tmp_path / "keep" / "step-00000002", tmp_path / "broken" / "step-00000002")
    average_checkpoints(tmp_path / "broken", model, last=2)
    assert same_weights(model, straight)


def test_adam_has_the_constants_of_section_5_3() -> None:
    optimizer = make_optimizer(fresh())
    assert (optimizer.defaults["betas"], optimizer.defaults["eps"]) == ((0.9, 0.98), 1e-9)


def test_gradients_are_clipped_to_the_norm_asked_for() -> None:
    """With plain gradient descent and rate 1 a step is the clipped gradient itself."""
    model = fresh(dropout=0.0)
    before = [parameter.clone() for parameter in model.parameters()]
    batch = collate(random_examples(30))
    update(model, torch.optim.SGD(model.parameters()), [batch], 1.0, short(clip_norm=0.01))
    moved = [(a - b).detach() for a, b in zip(model.parameters(), before, strict=True)]
    assert math.sqrt(sum(float(m.square().sum()) for m in moved)) == pytest.approx(0.01, rel=1e-3)


def test_bfloat16_products_give_nearly_the_loss_of_float32() -> None:
    batch = collate(random_examples(10))
    exact, rough = fresh(dropout=0.0), fresh(dropout=0.0)
    a = update(exact, make_optimizer(exact), [batch], 0.01, short())
    b = update(rough, make_optimizer(rough), [batch], 0.01, short(precision="bfloat16"))
    assert a == pytest.approx(b, rel=0.01)
    assert a != b
