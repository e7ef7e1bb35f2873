"""The state of a training, to and from disk: all that the next step depends on.

checkpoints/step-00000500/   model.safetensors  optimizer.safetensors  state.json  manifest.json (SHA-256 of each)
checkpoints/best/            model.safetensors  state.json  manifest.json           those of the best validation so far
"""

import math
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn

from transduce.data.order import Position
from transduce.errors import ModelError
from transduce.model.weights import average, load_weights, load_weights_file, weights_of
from transduce.model_folder import MANIFEST, WEIGHTS
from transduce.storage import PARTIAL, read_json, sha256, to_json, write_folder

OPTIMIZER, STATE, BEST = "optimizer.safetensors", "state.json", "best"
START = Position()


@dataclass(frozen=True, slots=True)
class TrainingState:
    """Where a training stands, beside its tensors."""

    step: int = 0
    position: Position = START
    best: float = math.inf  # lowest metric_to_minimise so far
    best_step: int = 0
    n_stale: int = 0  # validations since the best one
    n_rollbacks: int = 0  # how often the numbers were left and an older checkpoint taken
    n_ranks: int = 1  # processes that made the last step
    precision: str = "auto"  # of its matrix products

    def validated(self, metric: float) -> "TrainingState":
        """The state after a validation."""
        if metric < self.best:
            return replace(self, best=metric, best_step=self.step, n_stale=0)
        return replace(self, n_stale=self.n_stale + 1)


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in a folder, oldest first, by step."""
    return sorted(
        path
        for path in folder.glob("step-*")
        if path.suffix != PARTIAL and (path / STATE).is_file()
    )


def save_checkpoint(
    folder: Path,
    state: TrainingState,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    every: int,
    keep: int,
) -> None:
    """Write a checkpoint, then remove older ones: of those at multiples of `every` the last `keep` stay, to be averaged.

    At least two of them stay, in case the newest is damaged. A checkpoint between the multiples, made because the training was
    asked to stop, goes when the next one is there: it must not change the average.
    """
    files = {
        WEIGHTS: save(weights_of(model)),
        OPTIMIZER: save(_optimizer_tensors(model, optimizer)),
        STATE: to_json(asdict(state)),
    }
    write_checked(folder / f"step-{state.step:08d}", files)
    found = checkpoints(folder)
    kept = {*[path for path in found if is_regular(path, every)][-max(2, keep) :], found[-1]}
    for old in found:
        if old not in kept:
            shutil.rmtree(
                old.rename(old.with_name(old.name + PARTIAL))
            )  # renamed first: never half a checkpoint


def save_best(folder: Path, state: TrainingState, model: nn.Module) -> None:
    """Write the weights of the best validation so far."""
    write_checked(folder / BEST, {WEIGHTS: save(weights_of(model)), STATE: to_json(asdict(state))})


def write_checked(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder with the SHA-256 of each of its files."""
    digests = {
        name: {"sha256": sha256(content), "bytes": len(content)} for name, content in files.items()
    }
    write_folder(folder, {**files, MANIFEST: to_json({"files": digests})})


def damage(path: Path) -> str | None:
    """What is wrong with a checkpoint, if anything."""
    try:
        entries = read_json(path / MANIFEST)["files"]
    except (ModelError, KeyError) as error:
        return str(error)
    for name, entry in entries.items():
        file = path / name
        if not file.is_file():
            return f"{name} is missing"
        if file.stat().st_size != entry["bytes"]:
            return f"{name} is truncated ({file.stat().st_size:,} of {entry['bytes']:,} bytes)"
        if sha256(file.read_bytes()) != entry["sha256"]:
            return f"the SHA-256 of {name} is not that of the manifest"
    return None


def is_regular(path: Path, every: int) -> bool:
    """Whether a checkpoint was made because it was its turn."""
    return step_of(path) % every == 0


def step_of(path: Path) -> int:
    """The step of a checkpoint."""
    return int(path.name.removeprefix("step-"))


def newest_whole(folder: Path) -> tuple[Path | None, list[str]]:
    """The newest checkpoint that is not damaged, and what was found on the way to it: damage, and leftovers, which are removed."""
    notes = []
    for leftover in sorted(folder.glob(f"*{PARTIAL}")):
        shutil.rmtree(leftover)
        notes.append(f"removed {leftover.name}, which was not finished when the training ended")
    for path in reversed(checkpoints(folder)):
        found = damage(path)
        if found is None:
            return path, notes
        shutil.rmtree(path)
        notes.append(
            f"{path.name} is damaged ({found}) and was removed: the checkpoint before it is used"
        )
    return None, notes


def load_checkpoint(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer
) -> TrainingState:
    """Put a training back where it was: weights and optimiser; the rest is returned. Random numbers follow from the step."""
    values = read_json(path / STATE)
    load_weights(model, load_weights_file(path / WEIGHTS), path / WEIGHTS)
    _restore_optimizer(model, optimizer, load_weights_file(path / OPTIMIZER))
    return to_state(values, path)


def to_state(values: Mapping[str, Any], path: Path) -> TrainingState:
    """The state that a checkpoint wrote down."""
    try:
        return TrainingState(**{**values, "position": Position(*values["position"])})
    except (KeyError, TypeError):
        raise ModelError(
            f"{path / STATE} was written by another version of transduce: finish the run with that one, or choose a new folder"
        ) from None


def average_checkpoints(folder: Path, model: nn.Module, every: int, last: int) -> list[int]:
    """Give the model the mean of the weights of the last checkpoints that came by turn, the final one among them; returns their
    steps (section 6.1)."""
    paths = checkpoints(folder)
    chosen = [path for path in paths if is_regular(path, every) or path == paths[-1]][-last:]
    load_weights(model, average([load_weights_file(path / WEIGHTS) for path in chosen]), folder)
    return [step_of(path) for path in chosen]


def load_best(folder: Path, model: nn.Module) -> int:
    """Give the model the weights of the best validation; returns their step."""
    load_weights(model, load_weights_file(folder / BEST / WEIGHTS), folder / BEST)
    return to_state(read_json(folder / BEST / STATE), folder / BEST).step


def _optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Adam's moments and step counts, named after the weights they belong to."""
    return {
        f"{key}:{name}": value.contiguous()
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state[parameter].items()
    }


def _restore_optimizer(
    model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]
) -> None:
    parameters = dict(model.named_parameters())
    for key_and_name, value in tensors.items():
        key, _, name = key_and_name.partition(":")
        optimizer.state[parameters[name]][key] = value.to(parameters[name].device)
