import errno
import math
import re
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from tests.data.test_order import random_examples
from transduce import storage
from transduce.config import ModelConfig, TrainConfig
from transduce.data.batch import Batch, Example, collate
from transduce.data.order import ExampleList, Position, stream
from transduce.errors import DivergedError, ModelError, StoppedError, StorageError
from transduce.model import Transformer
from transduce.model.attention import scaled_dot_product_attention
from transduce.model.weights import load_weights_file, weights_of
from transduce.training import checkpoint_manager
from transduce.training import step as one_step
from transduce.training.callbacks.base import Callback, StepMetrics, Validation
from transduce.training.checkpoints import (
    TrainingState,
    average_checkpoints,
    checkpoints,
    load_checkpoint,
)
from transduce.training.distributed import Ranks
from transduce.training.loop import Validate, finish, train
from transduce.training.loss import batch_loss
from transduce.training.step import make_optimizer, update

SHAPE = {"vocab_size": 300, "n_layers": 1, "d_model": 22, "d_ff": 37, "n_heads": 2}


class Recorder(Callback):
    """A callback that records every event."""

    def __init__(self) -> None:
        self.steps: list[StepMetrics] = []
        self.validations: list[int] = []
        self.notes: list[str] = []

    def on_start(self, saved: Path | None) -> None:
        self.saved = saved

    def on_note(self, text: str) -> None:
        self.notes.append(text)

    def on_step(self, metrics: StepMetrics) -> None:
        self.steps.append(metrics)

    def on_validation(self, step: int, validation: Validation) -> None:
        self.validations.append(step)


def fresh(**changes: object) -> Transformer:
    torch.manual_seed(0)
    return Transformer(ModelConfig(**{**SHAPE, **changes}))


def same_weights(a: torch.nn.Module, b: torch.nn.Module) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))


def losses(*values: float) -> Validate:
    """Return a validation that reports these losses in turn, then 0."""
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
    model: Transformer,
    folder: Path,
    config: TrainConfig,
    recorder: Callback | None = None,
    validate=None,
) -> Transformer:  # type: ignore[no-untyped-def]
    examples: list[Example] = random_examples()
    batches = partial(stream, ExampleList(examples), 128, config.seed)
    train(
        model,
        batches,
        config,
        folder,
        validate=validate or losses(),
        callbacks=[recorder or Recorder()],
    )
    return model


def test_accumulated_batches_give_the_step_of_one_large_batch() -> None:
    """The loss is normalised by the tokens of the whole step, not of each part."""
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


def test_a_training_resumed_from_a_checkpoint_ends_in_the_same_weights(tmp_path: Path) -> None:
    uninterrupted = run(fresh(dropout=0.2), tmp_path / "uninterrupted", short())
    run(fresh(dropout=0.2), tmp_path / "interrupted", short(steps=4))
    torch.manual_seed(99)
    resumed = Recorder()
    model = run(fresh(dropout=0.2), tmp_path / "interrupted", short(), resumed)
    assert [row.step for row in resumed.steps] == [5, 6]
    assert same_weights(model, uninterrupted)


def test_validation_and_saving_change_no_weight(tmp_path: Path) -> None:
    often = run(
        fresh(dropout=0.2), tmp_path / "a", short(validate_every=1, save_every=6, average_last=1)
    )
    seldom = run(
        fresh(dropout=0.2), tmp_path / "b", short(validate_every=6, save_every=6, average_last=1)
    )
    assert same_weights(often, seldom)


def test_the_final_model_is_the_average_of_the_last_checkpoints(tmp_path: Path) -> None:
    model = run(fresh(), tmp_path, short())
    kept = checkpoints(tmp_path)
    assert [path.name for path in kept] == ["step-00000004", "step-00000006"]
    a, b = (load_weights_file(path / "model.safetensors") for path in kept)
    for name, weight in weights_of(model).items():
        torch.testing.assert_close(weight, (a[name] + b[name]) / 2)
    assert average_checkpoints(tmp_path, model, every=2, last=2) == [4, 6]


def test_training_stops_early_and_keeps_the_best_weights(
    tmp_path: Path,
) -> None:
    recorder = Recorder()
    config = short(steps=100, validate_every=1, patience=3)
    model = run(fresh(), tmp_path, config, recorder, losses(5.0, 4.0, 6.0, 6.0, 6.0, 5.5))
    assert recorder.validations == [1, 2, 3, 4, 5]
    # The best weights have loss 4.0, the average of the last checkpoints 5.5.
    best = load_weights_file(tmp_path / "best" / "model.safetensors")
    assert all(torch.equal(weight, best[name]) for name, weight in weights_of(model).items())
    assert (tmp_path / "best" / "model.safetensors").is_file()
    assert '"best_step": 2' in (tmp_path / "best" / "state.json").read_text()


class Poisoned:
    """Batches of which those at the given positions give a NaN loss, `times` times in total."""

    def __init__(self, positions: set[Position], times: int = 10**9) -> None:
        self._positions, self._times = positions, times

    def __call__(self, start: Position) -> Iterator[tuple[Batch, Position]]:
        position = start
        for batch, after in stream(ExampleList(random_examples()), 128, 1, start):
            if position in self._positions and self._times > 0:
                self._times -= 1
                assert batch.source_mask is not None
                # Without a key to attend to, the softmax is 0 / 0.
                batch = replace(batch, source_mask=torch.zeros_like(batch.source_mask))
            yield batch, after
            position = after


def run_poisoned(folder: Path, poison: Poisoned, **changes: object) -> tuple[Transformer, Recorder]:
    model, recorder = with_eq_1(fresh()), Recorder()
    train(model, poison, short(**changes), folder, validate=losses(), callbacks=[recorder])
    return model, recorder


def with_eq_1(model: Transformer) -> Transformer:
    """Attend by Eq. 1 as written, where a softmax over no keys gives NaN."""
    model.encoder[0].self_attention.attend = scaled_dot_product_attention
    return model


def test_a_batch_with_a_non_finite_loss_is_skipped_and_named(tmp_path: Path) -> None:
    _, recorder = run_poisoned(tmp_path, Poisoned({Position(0, 0, 3)}))
    assert [row.step for row in recorder.steps] == [1, 2, 3, 4, 5, 6]
    said = (
        "step 4: loss or gradient is NaN or infinite; skipped the batch (epoch 0, pool 0, batch 3)"
    )
    assert recorder.notes == [said]


def test_three_non_finite_steps_in_a_row_roll_back_and_halve_the_learning_rate(
    tmp_path: Path,
) -> None:
    poison = Poisoned({Position(0, 0, i) for i in (2, 3, 4)}, times=3)
    _, recorder = run_poisoned(tmp_path, poison, warmup_steps=1, schedule="cosine")
    assert recorder.notes[-1] == (
        "step 3: loss or gradient became NaN or infinite; "
        "back to step-00000002 with 0.5 times the learning rate"
    )
    assert [row.step for row in recorder.steps] == [1, 2, 3, 4, 5, 6]
    _, undisturbed = run_poisoned(
        tmp_path / "undisturbed", Poisoned(set()), warmup_steps=1, schedule="cosine"
    )
    both = zip(recorder.steps[:-1], undisturbed.steps[:-1], strict=True)  # the last rate is zero
    rates = [row.rate / other.rate for row, other in both]
    assert rates == pytest.approx([1, 1, 0.5, 0.5, 0.5])


def test_bad_batches_between_good_ones_are_skipped_however_many(tmp_path: Path) -> None:
    """Three in all, never two in a row: nothing is wrong with the weights."""
    poison = Poisoned({Position(0, 0, i) for i in (2, 4, 6)}, times=3)
    _, recorder = run_poisoned(tmp_path, poison)
    assert [row.step for row in recorder.steps] == [1, 2, 3, 4, 5, 6]
    assert len(recorder.notes) == 3
    assert all("skipped the batch" in note for note in recorder.notes)


def test_every_time_it_goes_back_the_rate_is_halved_again(tmp_path: Path) -> None:
    poison = Poisoned({Position(0, 0, i) for i in (2, 3, 4)}, times=6)
    settings = {"warmup_steps": 1, "schedule": "cosine", "steps": 4}
    _, recorder = run_poisoned(tmp_path, poison, **settings)
    _, undisturbed = run_poisoned(tmp_path / "undisturbed", Poisoned(set()), **settings)
    assert recorder.notes[-1].endswith("back to step-00000002 with 0.25 times the learning rate")
    assert recorder.steps[2].rate == pytest.approx(undisturbed.steps[2].rate / 4)


def test_repeated_divergence_stops_with_a_hint_and_keeps_the_checkpoint(
    tmp_path: Path,
) -> None:
    poison = Poisoned({Position(0, 0, i) for i in range(2, 9)})
    said = (
        r"step 3: loss or gradient became NaN or infinite "
        r"\(the last checkpoint, step-00000002, is kept\); try a lower"
    )
    with pytest.raises(DivergedError, match=said):
        run_poisoned(tmp_path, poison)
    assert [path.name for path in checkpoints(tmp_path)] == ["step-00000002"]


def test_a_stopped_training_saves_and_resumes_to_the_same_weights(
    tmp_path: Path,
) -> None:
    uninterrupted = run(fresh(dropout=0.2), tmp_path / "uninterrupted", short())
    for step in (1, 3, 4, 5):
        folder, recorder, model = tmp_path / str(step), Recorder(), fresh(dropout=0.2)
        batches = partial(stream, ExampleList(random_examples()), 128, 1)

        def stop(recorder: Recorder = recorder, step: int = step) -> int | None:
            return signal.SIGTERM if len(recorder.steps) == step else None

        said = (
            f"SIGTERM: stopped after step {step}, checkpoint saved; run the same command to resume"
        )
        with pytest.raises(StoppedError, match=said) as stopped:
            train(
                model, batches, short(), folder, validate=losses(), callbacks=[recorder], stop=stop
            )
        assert stopped.value.exit_code == 143
        torch.manual_seed(99)
        assert same_weights(run(fresh(dropout=0.2), folder, short()), uninterrupted)
        assert [path.name for path in checkpoints(folder)] == ["step-00000004", "step-00000006"]


@pytest.mark.parametrize(("harm", "average_last"), [("flip", 2), ("cut", 1), ("remove", 2)])
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(
    tmp_path: Path, harm: str, average_last: int
) -> None:
    """There is one before it, also where only the last is wanted for the final model."""
    config = short(average_last=average_last)
    uninterrupted = run(fresh(dropout=0.2), tmp_path / "uninterrupted", config)
    run(fresh(dropout=0.2), tmp_path / "interrupted", short(average_last=average_last, steps=4))
    path = tmp_path / "interrupted" / "step-00000004" / "optimizer.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    if harm == "remove":
        path.unlink()
    else:
        path.write_bytes(content if harm == "flip" else content[:-9])
    (tmp_path / "interrupted" / "step-00000006.partial").mkdir()
    recorder = Recorder()
    assert same_weights(
        run(fresh(dropout=0.2), tmp_path / "interrupted", config, recorder), uninterrupted
    )
    reason = {
        "flip": "the SHA-256 of optimizer.safetensors does not match the manifest",
        "cut": (
            f"optimizer.safetensors is truncated ({len(content) - 9:,} of {len(content):,} bytes)"
        ),
        "remove": "optimizer.safetensors is missing",
    }[harm]
    assert recorder.notes == [
        "removed step-00000006.partial: incomplete",
        f"removed step-00000004: damaged ({reason}); using the checkpoint before it",
    ]
    assert [row.step for row in recorder.steps] == [3, 4, 5, 6]


def test_a_full_disk_does_not_stop_training_and_the_save_is_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uninterrupted = run(fresh(), tmp_path / "uninterrupted", short(average_last=1))
    monkeypatch.setattr(checkpoint_manager, "RETRY_AFTER", 1)
    write, n_failed = storage.write_file, 0

    def full(path: Path, content: bytes) -> None:
        nonlocal n_failed
        if "step-00000004" in str(path) and n_failed < 1:
            n_failed += 1
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, content)

    monkeypatch.setattr(storage, "write_file", full)
    recorder = Recorder()
    assert same_weights(
        run(fresh(), tmp_path / "full", short(average_last=1), recorder), uninterrupted
    )
    [note] = recorder.notes
    assert re.search(
        r"cannot write .*step-00000004: No space left on device .*\. "
        r"The previous checkpoint is kept, training continues, next attempt in 1 steps",
        note,
    )
    assert not list((tmp_path / "full").glob("*.partial"))


def test_a_save_that_succeeds_makes_up_for_those_that_failed_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six saves fail, one more than a disk that stays full may, but never five in a row."""
    monkeypatch.setattr(checkpoint_manager, "RETRY_AFTER", 1)
    write = storage.write_file

    def write_or_fail(path: Path, content: bytes) -> None:
        if path.parent.name in {f"step-{step:08d}.partial" for step in (1, 2, 3, 5, 6, 7)}:
            fail()
        write(path, content)

    monkeypatch.setattr(storage, "write_file", write_or_fail)
    recorder = Recorder()
    run(fresh(), tmp_path, short(steps=8, validate_every=8, save_every=1), recorder)
    assert len(recorder.notes) == 6
    assert checkpoints(tmp_path)[-1].name == "step-00000008"


def test_a_best_that_could_not_be_saved_is_not_the_one_to_compare_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On disk is the best of step 2 with 5.0: the average with 4.5 is better than that."""
    write = storage.write_file

    def write_or_fail(path: Path, content: bytes) -> None:
        if path.parent.name == "best.partial" and b'"best_step": 4' in content:
            fail()
        write(path, content)

    monkeypatch.setattr(storage, "write_file", write_or_fail)
    model, recorder = fresh(), Recorder()
    batches = partial(stream, ExampleList(random_examples()), 128, 1)
    trained = train(
        model,
        batches,
        short(),
        tmp_path,
        validate=losses(5.0, 4.0, 6.0, 4.5),
        callbacks=[recorder],
    )
    assert trained.weights == "the average of the last 2 checkpoints"
    assert (trained.state.best, trained.state.best_step) == (5.0, 2)
    [note] = recorder.notes
    assert "No space left on device" in note
    assert "The previous best weights are kept, training continues" in note


def test_the_first_of_two_equal_validations_is_the_best(tmp_path: Path) -> None:
    """Otherwise a training that no longer improves would never run out of patience."""
    recorder = Recorder()
    config = short(steps=100, validate_every=1, patience=3)
    run(fresh(), tmp_path, config, recorder, losses(5.0, 5.0, 5.0, 5.0, 5.0, 6.0))
    assert recorder.validations == [1, 2, 3, 4]
    assert '"best_step": 1' in (tmp_path / "best" / "state.json").read_text()


def test_an_average_as_good_as_the_best_is_preferred(tmp_path: Path) -> None:
    batches = partial(stream, ExampleList(random_examples()), 128, 1)
    trained = train(fresh(), batches, short(), tmp_path, validate=losses(6.0, 4.0, 5.0, 4.0))
    assert trained.weights == "the average of the last 2 checkpoints"


def test_the_best_weights_survive_going_back_to_an_earlier_checkpoint(tmp_path: Path) -> None:
    """Step 3 is the best, then it goes back to step 2: the worse validations after it lose."""
    poison = Poisoned({Position(0, 0, i) for i in (3, 4, 5)}, times=3)
    config = short(steps=6, validate_every=1)
    validate = losses(9.0, 8.0, 1.0, 7.0, 6.0, 5.0, 4.0, 3.0)
    model = with_eq_1(fresh())
    trained = train(model, poison, config, tmp_path, validate=validate)
    assert trained.weights == "step 3, better than the average of the last"


def fail() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_disk_that_stays_full_ends_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_manager, "RETRY_AFTER", 1)
    monkeypatch.setattr(storage, "write_file", lambda path, content: fail())
    recorder = Recorder()
    with pytest.raises(StorageError, match="cannot write"):
        run(fresh(), tmp_path, short(steps=50, validate_every=50), recorder)
    assert [row.step for row in recorder.steps] == [1, 2, 3, 4, 5, 6, 7]
    assert len(recorder.notes) == 5


def test_a_step_that_does_not_fit_into_memory_is_split(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch = collate(random_examples(21))
    whole, halved = fresh(dropout=0.0), fresh(dropout=0.0)
    wanted = update(whole, torch.optim.SGD(whole.parameters()), [batch], 0.5, short())
    limit, notes = 6 * batch.target_in.shape[1], []

    def small_memory(model: Transformer, part: Batch, *weights: float) -> torch.Tensor:
        if part.target_in.numel() > limit:
            raise RuntimeError(
                "[enforce fail at alloc_cpu.cpp:117] "
                "DefaultCPUAllocator: can't allocate memory: you tried"
            )
        return batch_loss(model, part, *weights)

    monkeypatch.setattr(one_step, "batch_loss", small_memory)
    found = update(
        halved, torch.optim.SGD(halved.parameters()), [batch], 0.5, short(), notes.append
    )
    assert found == pytest.approx(wanted, rel=1e-5)
    for a, b in zip(whole.parameters(), halved.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)
    assert len(notes) == 2
    assert "out of memory: split the batches of this step" in notes[0]
    limit = 0
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        update(halved, torch.optim.SGD(halved.parameters()), [batch], 0.5, short())


def test_a_non_finite_validation_loss_stops_before_anything_is_saved(
    tmp_path: Path,
) -> None:
    said = (
        r"step 2: validation loss became NaN or infinite "
        r"\(there is no checkpoint yet\); try a lower train\.learning_rate"
    )
    with pytest.raises(DivergedError, match=said):
        run(fresh(), tmp_path, short(), validate=losses(math.nan))
    assert checkpoints(tmp_path) == []


def test_a_non_finite_gradient_leaves_the_weights_unchanged() -> None:
    model = fresh(dropout=0.0)
    model.source_embedding.weight.register_hook(lambda gradient: gradient * math.inf)
    before = [parameter.clone() for parameter in model.parameters()]
    assert math.isnan(
        update(model, make_optimizer(model), [collate(random_examples(5))], 0.01, short()).loss
    )
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), before, strict=True))


def test_a_kill_between_writing_and_pruning_does_not_change_the_average(tmp_path: Path) -> None:
    """An old checkpoint that was not removed before the kill is not part of the average."""
    uninterrupted = run(fresh(), tmp_path / "uninterrupted", short())
    run(fresh(), tmp_path / "interrupted", short(steps=4))
    (tmp_path / "keep").mkdir()
    shutil.copytree(tmp_path / "interrupted" / "step-00000002", tmp_path / "keep" / "step-00000002")
    model = run(fresh(), tmp_path / "interrupted", short())
    shutil.copytree(tmp_path / "keep" / "step-00000002", tmp_path / "interrupted" / "step-00000002")
    average_checkpoints(tmp_path / "interrupted", model, every=2, last=2)
    assert same_weights(model, uninterrupted)


def test_adam_has_the_constants_of_section_5_3() -> None:
    optimizer = make_optimizer(fresh())
    assert (optimizer.defaults["betas"], optimizer.defaults["eps"]) == ((0.9, 0.98), 1e-9)


def test_gradients_are_clipped_to_the_configured_norm() -> None:
    """With plain gradient descent and a learning rate of 1, a step is the clipped gradient."""
    model = fresh(dropout=0.0)
    before = [parameter.clone() for parameter in model.parameters()]
    batch = collate(random_examples(30))
    update(model, torch.optim.SGD(model.parameters()), [batch], 1.0, short(clip_norm=0.01))
    moved = [(a - b).detach() for a, b in zip(model.parameters(), before, strict=True)]
    assert math.sqrt(sum(float(m.square().sum()) for m in moved)) == pytest.approx(0.01, rel=1e-3)


def test_without_a_norm_to_clip_to_the_gradient_is_used_as_it_is() -> None:
    """`clip_norm` 0 switches clipping off. The gradient is made longer than one."""
    model, reference = fresh(dropout=0.0), fresh(dropout=0.0)
    for each in (model, reference):
        each.source_embedding.weight.register_hook(lambda gradient: 100 * gradient)
    batch = collate(random_examples(30))
    (batch_loss(reference, batch, short().label_smoothing) / batch.n_tokens).backward()
    gradients = [parameter.grad for parameter in reference.parameters()]
    assert math.sqrt(sum(float(each.square().sum()) for each in gradients)) > 2
    before = [parameter.clone() for parameter in model.parameters()]
    update(model, torch.optim.SGD(model.parameters()), [batch], 1.0, short(clip_norm=0.0))
    for parameter, old, gradient in zip(model.parameters(), before, gradients, strict=True):
        torch.testing.assert_close(old - parameter, gradient, atol=1e-5, rtol=1e-4)


class OnlyRank(Ranks):
    """A rank of any number that trains alone."""

    @property
    def is_first(self) -> bool:
        return True


class LateRank(OnlyRank):
    """A rank that gets its weights from another one."""

    def broadcast_weights(self, model: torch.nn.Module) -> None:
        """Give every rank weights that none of them drew."""
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.fill_(0.25)


def test_every_rank_draws_other_random_numbers(tmp_path: Path) -> None:
    """The same batch and weights, and other units that are dropped."""
    batches = partial(stream, ExampleList(random_examples()), 128, 1)
    found = []
    for rank in (0, 1, 1):
        folder = tmp_path / str(len(found))
        recorder = Recorder()
        train(
            fresh(dropout=0.3),
            batches,
            short(steps=1),
            folder,
            validate=losses(),
            callbacks=[recorder],
            ranks=OnlyRank(rank=rank),
        )
        found.append(recorder.steps[0].loss)
    assert found[0] != found[1]
    assert found[1] == found[2]


def test_every_rank_starts_with_the_weights_of_the_first(tmp_path: Path) -> None:
    """Only the first rank loads the model of --from."""
    model = fresh()
    batches = partial(stream, ExampleList(random_examples()), 128, 1)
    config = short(steps=1, learning_rate=1e-12)
    train(model, batches, config, tmp_path, validate=losses(), ranks=LateRank())
    for parameter in model.parameters():
        torch.testing.assert_close(parameter, torch.full_like(parameter, 0.25))


def test_bfloat16_products_give_nearly_the_loss_of_float32() -> None:
    batch = collate(random_examples(10))
    exact, rough = fresh(dropout=0.0), fresh(dropout=0.0)
    a = update(exact, make_optimizer(exact), [batch], 0.01, short())
    b = update(rough, make_optimizer(rough), [batch], 0.01, short(precision="bfloat16"))
    assert a == pytest.approx(b, rel=0.01)
    pairs = zip(exact.parameters(), rough.parameters(), strict=True)
    # Compare the weights, since the losses of fresh weights may be equal by chance.
    assert any(not torch.equal(one, other) for one, other in pairs)


def test_with_better_by_bleu_the_weights_with_the_best_bleu_are_kept(tmp_path: Path) -> None:
    """The loss falls at each validation, BLEU is best at step 4; patience counts from there."""
    scores = {2: (3.0, 10.0), 4: (2.0, 30.0), 6: (1.0, 20.0)}
    values = iter([*scores.values(), (0.5, 5.0)])

    def validate() -> Validation:
        loss, bleu = next(values, (9.0, 9.0))
        return Validation(loss, {"BLEU": bleu}, "", ("", ""))

    batches = partial(stream, ExampleList(random_examples()), 128, 1)
    trained = train(fresh(), batches, short(better_by="bleu"), tmp_path, validate=validate)
    assert (trained.state.best, trained.state.best_step, trained.state.n_stale) == (-30.0, 4, 1)
    assert trained.weights == "step 4, better than the average of the last"


def test_the_best_weights_are_named_by_their_own_step_after_a_rollback(
    tmp_path: Path,
) -> None:
    """After a rollback the state may name an older best step than that of the stored weights."""
    run(fresh(), tmp_path, short(), validate=losses(3.0, 2.0, 1.0, 9.0))
    state = replace(load_state(tmp_path), best=-1.0, best_step=2)
    trained = finish(fresh(), state, short(), tmp_path, losses(7.0, 1.0), None)
    assert trained.weights == "step 6, better than the average of the last"
    trained = finish(fresh(), state, short(), tmp_path, losses(0.5), None)
    assert trained.weights == "the average of the last 2 checkpoints"


def load_state(folder: Path) -> TrainingState:
    return load_checkpoint(checkpoints(folder)[-1], model := fresh(), make_optimizer(model))


def test_a_checkpoint_of_another_version_is_refused_by_name(tmp_path: Path) -> None:
    run(fresh(), tmp_path, short())
    path = checkpoints(tmp_path)[-1]
    (path / "state.json").write_text('{"step": 6, "position": [0, 0, 0], "best_loss": 1.0}')
    model = fresh()
    with pytest.raises(
        ModelError,
        match=(
            r"state\.json was written by another version of transduce; "
            r"finish the run with that version"
        ),
    ):
        load_checkpoint(path, model, make_optimizer(model))


def test_resuming_with_another_precision_is_noted(tmp_path: Path) -> None:
    run(fresh(), tmp_path, short(steps=2, precision="float32"))
    recorder = Recorder()
    run(fresh(), tmp_path, short(precision="bfloat16"), recorder)
    assert recorder.notes == ["until step 2 this run used float32 matrix products, now bfloat16"]


def test_a_split_step_does_not_depend_on_where_memory_ran_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch = collate(random_examples(21))
    found = []
    for n_drawn in (0, 1000):
        torch.manual_seed(5)
        model = fresh(dropout=0.3)
        failed = False

        def small_memory(*arguments: object, n_drawn: int = n_drawn) -> torch.Tensor:
            nonlocal failed
            if not failed:
                failed = True
                torch.rand(n_drawn)
                raise MemoryError
            return batch_loss(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(one_step, "batch_loss", small_memory)
        found.append(update(model, torch.optim.SGD(model.parameters()), [batch], 0.5, short()).loss)
    assert found[0] == found[1]
