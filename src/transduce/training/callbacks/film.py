"""The film of a training: at each validation, the output and the attention weights for one text.

film.safetensors holds, in float16, for each frame and layer `STEP.dec.0.cross.weights` [h, T, S];
for a language model `self.weights` instead. Its metadata entry `transduce.film` is JSON:
[{step, valid_loss, text, source, target, steps: [{chosen, top, entropy, rank}]}].
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from transduce.decode.translator import Translator
from transduce.errors import TransduceError
from transduce.inspection.describe import describe_steps
from transduce.inspection.record import compute_logits, instrument
from transduce.inspection.tree import search_with_tree
from transduce.log import Log
from transduce.model import Transformer
from transduce.model.weights import shared_copy
from transduce.model_folder import ModelFolder
from transduce.storage import replace_file
from transduce.text.normalize import normalize
from transduce.text.vocabulary import EOS, SOS
from transduce.training.callbacks.base import Callback, Validation
from transduce.training.checkpoints import step_of
from transduce.training.run_folder import MAX_FILM_BYTES

N_CANDIDATES = 5  # most probable tokens stored per time step
MAX_FRAMES = 120  # a longer film loses every second frame
MAX_TOKENS = 40  # of the text; the rest is cut off


class Film(Callback):
    """Adds a frame to the film at each validation.

    It uses a copy of the model that shares the weights, so training is not affected. If a frame
    cannot be made or written, that is reported to `note`, and training continues.
    """

    def __init__(self, path: Path, folder: ModelFolder, text: str, note: Log) -> None:
        self._path, self._folder, self._text, self._note = path, folder, text, note
        self._frames: list[dict[str, Any]] = []
        self._tensors: dict[str, Tensor] = {}

    def on_start(self, saved: Path | None) -> None:
        """Load the frames up to the checkpoint; training makes the later ones again."""
        self._frames, self._tensors = load_film(self._path)
        last_step = step_of(saved) if saved else 0
        self._keep({frame["step"] for frame in self._frames if frame["step"] <= last_step})

    def on_validation(self, step: int, validation: Validation) -> None:
        """Add a frame and replace the file."""
        try:
            frame, tensors = make_frame(self._folder, self._text)
            earlier = [each["step"] for each in self._frames if each["step"] < step]
            if len(earlier) >= MAX_FRAMES:
                earlier = [step for number, step in enumerate(earlier) if number % 2 == 0]
            self._keep(set(earlier))
            self._frames.append({"step": step, "valid_loss": validation.loss, **frame})
            self._tensors |= {f"{step}.{name}": tensor for name, tensor in tensors.items()}
            metadata = {"transduce.film": json.dumps(self._frames, ensure_ascii=False)}
            replace_file(self._path, save(self._tensors, metadata))
        except (OSError, TransduceError) as error:
            self._note(f"no film frame for step {step}: {error}; training continues")

    def _keep(self, steps: set[int]) -> None:
        self._frames = [frame for frame in self._frames if frame["step"] in steps]
        self._tensors = {
            name: tensor
            for name, tensor in self._tensors.items()
            if int(name.partition(".")[0]) in steps
        }


def make_frame(folder: ModelFolder, text: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return one frame: its description and its attention weights by name.

    A translator translates the text greedily; then one forward pass records the weights. A language
    model reads the text itself.
    """
    model = shared_copy(folder.model).eval()
    folder = replace(folder, weights=model)
    is_translator = isinstance(model, Transformer)
    recorded = "cross.weights" if is_translator else "self.weights"
    tensors: dict[str, Tensor] = {}

    def record(name: str, value: Tensor) -> None:
        if name.endswith(recorded):
            tensors[name] = value.half().cpu().contiguous()

    normalized = normalize(text, folder.config.text.normalization)
    ids = folder.source_vocabulary.encode(normalized)[:MAX_TOKENS]
    source: list[int] = []
    target = ids
    if isinstance(model, Transformer):
        source = [*ids, EOS]
        target, _ = search_with_tree(Translator(folder), model, ids, beam=1, edits=())

    instrument(model, (), record)
    with torch.inference_mode():
        logits = compute_logits(model, source, [SOS, *target]).float().cpu()
    last = EOS if is_translator else int(logits[-1].argmax())
    frame = {
        "text": folder.target_vocabulary.decode(target),
        "source": [folder.source_vocabulary.token(i) for i in source],
        "target": [folder.target_vocabulary.token(i) for i in (SOS, *target)],
        "steps": describe_steps(logits, [*target, last], folder.target_vocabulary, N_CANDIDATES),
    }
    return frame, tensors


def load_film(path: Path) -> tuple[list[dict[str, Any]], dict[str, Tensor]]:
    """Return the frames of a film and their tensors; both empty if it cannot be read."""
    if not path.is_file() or path.stat().st_size > MAX_FILM_BYTES:
        return [], {}
    try:
        with safe_open(str(path), "pt") as file:
            names = file.keys()  # safe_open is not iterable
            tensors = {name: file.get_tensor(name) for name in names}
            frames = json.loads((file.metadata() or {})["transduce.film"])
        steps = {int(name.partition(".")[0]) for name in tensors}
        if not all(type(frame["step"]) is int for frame in frames) or len(frames) < len(steps):
            return [], {}
        json.dumps(frames, ensure_ascii=False).encode()
    except (OSError, SafetensorError, LookupError, TypeError, ValueError, RecursionError):
        return [], {}
    return frames, tensors
