"""The state of a training, to and from disk: all that the next step depends on.

checkpoints/step-00000500/   model.safetensors  optimizer.safetensors  state.json
checkpoints/best/            model.safetensors  state.json                the lowest validation loss so far
"""

import math
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor, nn

from transduce.checkpoint import WEIGHTS, average, load_weights, load_weights_file, weights_of
from transduce.data.stream import Position
from transduce.storage import PARTIAL, read_json, to_json, write_folder

OPTIMIZER, STATE, BEST = "optimizer.safetensors", "state.json", "best"
START = Position()
RANDOM = "random"  # the name of torch's random state among the optimizer's tensors


@dataclass(frozen=True, slots=True)
class State:
    """Where a training stands, beside its tensors."""

    step: int = 0
    position: Position = START
    best_loss: float = math.inf
    best_step: int = 0
    n_stale: int = 0  # validations since the best one

    def validated(self, loss: float) -> "State":
        """The state after a validation."""
        if loss < self.best_loss:
            return replace(self, best_loss=loss, best_step=self.step, n_stale=0)
        return replace(self, n_stale=self.n_stale + 1)


def checkpoints(folder: Path) -> list[Path]:
    """The whole checkpoints in a folder, oldest first, by step."""
    return sorted(path for path in folder.glob("step-*") if path.suffix != PARTIAL and (path / STATE).is_file())


def save_checkpoint(folder: Path, state: State, model: nn.Module, optimizer: torch.optim.Optimizer, keep: int) -> None:
    """Write a checkpoint, then remove all but the last `keep`."""
    files = {
        WEIGHTS: save(weights_of(model)),
        OPTIMIZER: save({**_optimizer_tensors(model, optimizer), RANDOM: torch.get_rng_state()}),
        STATE: to_json(asdict(state)),
    }
    write_folder(folder / f"step-{state.step:08d}", files)
    for old in checkpoints(folder)[:-keep]:
        shutil.rmtree(old.rename(old.with_name(old.name + PARTIAL)))  # renamed first: never half a checkpoint


def save_best(folder: Path, state: State, model: nn.Module) -> None:
    """Write the weights with the lowest validation loss so far."""
    write_folder(folder / BEST, {WEIGHTS: save(weights_of(model)), STATE: to_json(asdict(state))})


def load_checkpoint(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> State:
    """Put a training back where it was: weights, optimiser, random numbers; the rest is returned."""
    values = read_json(path / STATE)
    load_weights(model, load_weights_file(path / WEIGHTS), path / WEIGHTS)
    tensors = load_weights_file(path / OPTIMIZER)
    torch.set_rng_state(tensors.pop(RANDOM))
    _restore_optimizer(model, optimizer, tensors)
    return State(**{**values, "position": Position(*values["position"])})


def average_checkpoints(folder: Path, model: nn.Module, last: int) -> list[int]:
    """Give the model the mean of the weights of the last checkpoints; returns their steps (section 6.1)."""
    paths = checkpoints(folder)[-last:]
    load_weights(model, average([load_weights_file(path / WEIGHTS) for path in paths]), folder)
    return [int(path.name.removeprefix("step-")) for path in paths]


def load_step(path: Path) -> int:
    """The step of a checkpoint."""
    return int(read_json(path / STATE)["step"])


def load_best(folder: Path, model: nn.Module) -> None:
    """Give the model the weights with the lowest validation loss."""
    load_weights(model, load_weights_file(folder / BEST / WEIGHTS), folder / BEST)


def _optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Adam's moments and step counts, named after the weights they belong to."""
    return {
        f"{key}:{name}": value.contiguous()
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state[parameter].items()
    }


def _restore_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    parameters = dict(model.named_parameters())
    for key_and_name, value in tensors.items():
        key, _, name = key_and_name.partition(":")
        optimizer.state[parameters[name]][key] = value
