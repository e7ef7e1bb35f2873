"""Checkpoints on disk: everything the next training step depends on.

checkpoints/step-00000500/   model.safetensors, optimizer.safetensors, state.json and manifest.json
checkpoints/best/            model.safetensors, state.json, manifest.json of the best validation

A manifest holds the size and SHA-256 of each file. Random numbers are not stored: they are a
function of the seed and the step.
"""

import math
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn

from transduce.data.order import Position
from transduce.errors import ModelError, StorageError
from transduce.log import Log
from transduce.model.weights import average, load_weights, load_weights_file, weights_of
from transduce.model_folder import MANIFEST, WEIGHTS
from transduce.storage import (
    PARTIAL,
    read_json,
    remove,
    sha256,
    to_json,
    write_folder,
)

OPTIMIZER, STATE, BEST = "optimizer.safetensors", "state.json", "best"
MIN_KEPT = 2  # scheduled checkpoints that always stay, in case the newest is damaged
NAME = re.compile(r"step-([0-9]{8,})")  # of the folder of a checkpoint
START = Position()


@dataclass(frozen=True, slots=True)
class TrainingState:
    """The state of a training apart from its tensors."""

    step: int = 0
    position: Position = START
    best: float = math.inf  # lowest `metric_to_minimise` so far
    best_step: int = 0
    n_stale: int = 0  # validations since the best one
    n_rollbacks: int = 0
    n_ranks: int = 1  # processes that computed the last step
    precision: str = "auto"  # of matrix products

    def validated(self, metric: float) -> "TrainingState":
        """Return the state after a validation with this metric (lower is better)."""
        if metric < self.best:
            return replace(self, best=metric, best_step=self.step, n_stale=0)
        return replace(self, n_stale=self.n_stale + 1)


def checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints in a folder, ordered by step."""
    found = (
        path
        for path in folder.glob("step-*")
        if NAME.fullmatch(path.name) and not path.is_symlink() and (path / STATE).is_file()
    )
    return sorted(found, key=step_of)


def save_checkpoint(
    folder: Path,
    state: TrainingState,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    every: int,
    keep: int,
) -> None:
    """Write a checkpoint, then remove old ones.

    Scheduled checkpoints are those at multiples of `every`. The last `keep` of them, and at least
    `MIN_KEPT`, are kept for averaging. Any other checkpoint was saved when training was stopped. It
    is removed after the next one, so that it does not change the average.
    """
    files = {
        WEIGHTS: save(weights_of(model)),
        OPTIMIZER: save(_optimizer_tensors(model, optimizer)),
        STATE: to_json(asdict(state)),
    }
    write_with_manifest(folder / f"step-{state.step:08d}", files)

    found = checkpoints(folder)
    scheduled = [path for path in found if is_scheduled(path, every)]
    kept = {*scheduled[-max(MIN_KEPT, keep) :], found[-1]}
    for old in found:
        if old not in kept:
            # Rename it first: an interrupted removal must not leave an incomplete checkpoint.
            shutil.rmtree(old.rename(old.with_name(old.name + PARTIAL)))


def save_best(folder: Path, state: TrainingState, model: nn.Module) -> None:
    """Write the weights of the best validation so far."""
    files = {WEIGHTS: save(weights_of(model)), STATE: to_json(asdict(state))}
    write_with_manifest(folder / BEST, files)


def write_with_manifest(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder of files, with a manifest of their sizes and SHA-256."""
    digests = {
        name: {"sha256": sha256(content), "bytes": len(content)} for name, content in files.items()
    }
    write_folder(folder, {**files, MANIFEST: to_json({"files": digests})})


def find_damage(path: Path, required: Sequence[str] = (WEIGHTS, OPTIMIZER, STATE)) -> str | None:
    """Check a checkpoint against its manifest; return what is wrong, or None.

    The manifest must list the `required` files, and each must be a regular file in the folder.
    """
    problem = _find_irregular(path / MANIFEST)
    if problem is not None:
        return problem
    try:
        entries = read_json(path / MANIFEST, "checkpoint").get("files")
    except ModelError as error:
        return str(error)
    if not isinstance(entries, dict) or not all(
        isinstance(entry, dict) and isinstance(entry.get("bytes"), int) and "sha256" in entry
        for entry in entries.values()
    ):
        return f"{MANIFEST} has no table of files"
    for name in sorted(required):
        if name not in entries:
            return f"{MANIFEST} does not list {name}"
        problem = _find_file_damage(path / name, entries[name])
        if problem is not None:
            return problem
    if NAME.fullmatch(path.name):
        try:
            step = read_json(path / STATE, "checkpoint").get("step")
        except ModelError as error:
            return str(error)
        if step != step_of(path):
            return f"{STATE} is of step {step}"
    return None


def _find_file_damage(file: Path, entry: Mapping[str, Any]) -> str | None:
    problem = _find_irregular(file)
    if problem is not None:
        return problem
    n_bytes = file.stat().st_size
    if n_bytes != entry["bytes"]:
        how = "truncated" if n_bytes < entry["bytes"] else "too long"
        return f"{file.name} is {how} ({n_bytes:,} of {entry['bytes']:,} bytes)"
    try:
        content = file.read_bytes()
    except OSError as error:
        return f"{file.name} cannot be read: {error.strerror}"
    if sha256(content) != entry["sha256"]:
        return f"the SHA-256 of {file.name} does not match the manifest"
    return None


def _find_irregular(file: Path) -> str | None:
    """Return what is wrong unless there is a regular file: reading a pipe or device may not end."""
    if not os.path.lexists(file):
        return f"{file.name} is missing"
    if file.is_symlink() or not file.is_file():
        return f"{file.name} is not a regular file"
    return None


def is_scheduled(path: Path, every: int) -> bool:
    """Return whether a checkpoint is at a multiple of `every` steps."""
    return step_of(path) % every == 0


def step_of(path: Path) -> int:
    """Return the step of a checkpoint from its name."""
    return int(path.name.removeprefix("step-"))


def newest_intact(folder: Path) -> tuple[Path | None, list[str]]:
    """Return the newest intact checkpoint, or None, and notes for the user.

    Incomplete and damaged checkpoints are removed; each removal is a note.
    """
    notes = remove_leftovers(folder)
    found = checkpoints(folder)
    for path in reversed(found):
        problem = find_damage(path)
        if problem is None:
            return path, notes
        remove(path)
        then = "using the checkpoint before it"
        if path == found[0]:
            then = "no checkpoint is left, training starts from the beginning"
        notes.append(f"removed {path.name}: damaged ({problem}); {then}")
    return None, notes


def remove_leftovers(folder: Path) -> list[str]:
    """Remove what has the name of a checkpoint but is none; return a note for each removal."""
    found = checkpoints(folder)
    notes = []
    for path in sorted(folder.glob("*")):
        is_ours = path.name.endswith(PARTIAL) or NAME.fullmatch(path.name)
        if is_ours and path not in found:
            remove(path)
            notes.append(f"removed {path.name}: incomplete")
    return notes


def load_checkpoint(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer
) -> TrainingState:
    """Load weights and optimizer state in place; return the rest of the state."""
    values = read_json(path / STATE, "checkpoint")
    load_weights(model, load_weights_file(path / WEIGHTS), path / WEIGHTS)
    _restore_optimizer(model, optimizer, load_weights_file(path / OPTIMIZER), path)
    return state_from_json(values, path)


def state_from_json(values: Mapping[str, Any], path: Path) -> TrainingState:
    """Return the state stored in the checkpoint `path`.

    Raise ModelError if another version of this package wrote it.
    """
    try:
        state = TrainingState(**{**values, "position": Position(*values["position"])})
        if not _is_valid(state):
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise ModelError(
            f"{path / STATE} was written by another version of transduce; "
            "finish the run with that version, or choose a new run folder"
        ) from None
    return state


def _is_valid(state: TrainingState) -> bool:
    """Return whether every value has its type and no count is negative."""
    counts = (
        state.step,
        *state.position,
        state.best_step,
        state.n_stale,
        state.n_rollbacks,
        state.n_ranks,
    )
    return (
        all(type(count) is int and count >= 0 for count in counts)
        and type(state.best) in (int, float)
        and not math.isnan(state.best)
        and isinstance(state.precision, str)
    )


def average_checkpoints(
    folder: Path, model: nn.Module, every: int, last: int, note: Log = lambda text: None
) -> list[int]:
    """Load the mean of the last checkpoints into the model and return their steps (section 6.1).

    These are the last `last` intact ones of the scheduled checkpoints; the final checkpoint counts
    as scheduled. A damaged one is reported to `note` and replaced by an older one. If none is
    intact, the model stays unchanged and the list is empty.
    """
    paths = checkpoints(folder)
    chosen: dict[int, Mapping[str, Tensor]] = {}
    for path in reversed(paths):
        if len(chosen) == last:
            break
        if not is_scheduled(path, every) and path != paths[-1]:
            continue
        try:
            chosen[step_of(path)] = _load_intact_weights(path, model)
        except ModelError as error:
            note(f"{path.name} is damaged ({error}); it is not part of the average")
    steps = sorted(chosen)
    if steps:
        load_weights(model, average([chosen[step] for step in steps]), folder)
    return steps


def best_on_disk(folder: Path) -> tuple[TrainingState | None, str | None]:
    """Return the state stored with the best weights, and what is damaged; None for either if none.

    `best` and `step` of that state are the metric and the step of these weights.
    """
    path = folder / BEST
    if not os.path.lexists(path):
        return None, None
    if path.is_symlink():
        return None, "it is a symbolic link, expected a folder"
    problem = find_damage(path, (WEIGHTS, STATE))
    if problem is not None:
        return None, problem
    try:
        return state_from_json(read_json(path / STATE, "checkpoint"), path), None
    except ModelError as error:
        return None, str(error)


def load_best(folder: Path, model: nn.Module) -> None:
    """Load the weights of the best validation into the model.

    If they are damaged or do not fit, raise ModelError and leave the model as it is.
    """
    _load_intact_weights(folder / BEST, model)


def restore_best(folder: Path, state: TrainingState) -> tuple[TrainingState | None, list[str]]:
    """Return the state stored with the best weights, or None, and notes for the user.

    If they are damaged or missing, they are rebuilt from the checkpoint of their step, which
    `state` names. Without it, damaged weights are removed, so that the next ones can be saved.
    """
    stored, problem = best_on_disk(folder)
    if stored is not None or (problem is None and state.best_step == 0):
        return stored, []
    what = f"{BEST} is missing" if problem is None else f"removed {BEST}: damaged ({problem})"
    remove(folder / BEST)
    if state.best_step == 0:
        return None, [what]
    source = folder / f"step-{state.best_step:08d}"
    if not _holds_best(source, state):
        return None, [f"{what}; no checkpoint of step {state.best_step} to rebuild it from"]
    try:
        files = {name: (source / name).read_bytes() for name in (WEIGHTS, STATE)}
        write_with_manifest(folder / BEST, files)
    except StorageError as error:
        return None, [f"{what}; {error}"]
    return best_on_disk(folder)[0], [f"{what}; rebuilt from {source.name}"]


def _holds_best(path: Path, state: TrainingState) -> bool:
    """Return whether a checkpoint is intact and has the weights that `state` calls the best."""
    if path.is_symlink() or find_damage(path, (WEIGHTS, STATE)) is not None:
        return False
    try:
        found = state_from_json(read_json(path / STATE, "checkpoint"), path)
    except ModelError:
        return False
    return (found.best_step, found.best) == (state.best_step, state.best)


def _load_intact_weights(path: Path, model: nn.Module) -> dict[str, Tensor]:
    """Load the weights of a checkpoint into the model and return them.

    If they are damaged or do not fit, raise ModelError and leave the model as it is.
    """
    problem = find_damage(path, (WEIGHTS, STATE))
    if problem is not None:
        raise ModelError(problem)
    weights = load_weights_file(path / WEIGHTS)
    load_weights(model, weights, path / WEIGHTS)
    return weights


def _optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return Adam's moments and step counts by the names of the weights they belong to."""
    return {
        f"{key}:{name}": value.contiguous()
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state[parameter].items()
    }


def _restore_optimizer(
    model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], path: Path
) -> None:
    parameters = dict(model.named_parameters())
    for key_and_name, value in tensors.items():
        key, _, name = key_and_name.partition(":")
        if name not in parameters or value.shape not in (parameters[name].shape, ()):
            raise ModelError(
                f"{path / OPTIMIZER}: {key_and_name} does not fit this model; "
                f"remove {path} to resume from the checkpoint before it"
            )
        optimizer.state[parameters[name]][key] = value.to(parameters[name].device)
