"""The film of a training: at each validation what the model makes of one text, and where it looks; small enough to keep.

film.safetensors has in float16, for each frame and layer, `STEP.dec.0.cross.weights` [h, T, S] (of a language model self.weights),
and in its metadata `transduce.film`, JSON: [{step, valid_loss, text, source, target, steps: [{chosen, top, entropy, rank}]}].
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
from transduce.model import Transformer
from transduce.model.weights import shared_copy
from transduce.model_folder import ModelFolder
from transduce.storage import replace_file
from transduce.text.normalize import normalize
from transduce.text.vocabulary import EOS, SOS
from transduce.training.checkpoints import step_of
from transduce.training.loop import Callback, Validation

N_TOP = 5
MOST_FRAMES = 120  # when there are more, every second one is dropped
MOST_PIECES = 40  # of the text


class Film:
    """An observer that adds a frame at each validation, and tells another. It looks at a twin of the model: nothing changes."""

    def __init__(self, observer: Callback, path: Path, folder: ModelFolder, text: str) -> None:
        self._observer, self._path, self._folder, self._text = observer, path, folder, text
        self._frames: list[dict[str, Any]] = []
        self._tensors: dict[str, Tensor] = {}
        self.on_note, self.on_step = observer.on_note, observer.on_step

    def on_start(self, saved: Path | None) -> None:
        """Take up the frames that there are, up to the checkpoint; the others will be made again."""
        self._observer.on_start(saved)
        self._frames, self._tensors = load_film(self._path)
        self._keep(
            {frame["step"] for frame in self._frames if saved and frame["step"] <= step_of(saved)}
        )

    def on_validation(self, step: int, validation: Validation) -> None:
        """Add a frame and write the file again, whole."""
        self._observer.on_validation(step, validation)
        try:
            frame, tensors = look(self._folder, self._text)
            before = [each["step"] for each in self._frames if each["step"] < step]
            self._keep(set(before[:: 2 if len(before) >= MOST_FRAMES else 1]))
            self._frames.append({"step": step, "valid_loss": validation.loss, **frame})
            self._tensors |= {f"{step}.{name}": tensor for name, tensor in tensors.items()}
            film = save(
                self._tensors, {"transduce.film": json.dumps(self._frames, ensure_ascii=False)}
            )
            replace_file(self._path, film)
        except (OSError, TransduceError) as error:
            self.on_note(f"no film of step {step}: {error}; training goes on")

    def _keep(self, chosen: set[int]) -> None:
        self._frames = [frame for frame in self._frames if frame["step"] in chosen]
        self._tensors = {
            name: x for name, x in self._tensors.items() if int(name.partition(".")[0]) in chosen
        }


def look(folder: ModelFolder, text: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """One frame: greedy search, then one pass in which the weights are kept."""
    model = shared_copy(folder.model).eval()
    folder = replace(folder, model=model)
    tensors: dict[str, Tensor] = {}

    def keep(name: str, value: Tensor) -> None:
        if name.endswith("cross.weights" if isinstance(model, Transformer) else "self.weights"):
            tensors[name] = value.half().cpu().contiguous()

    target = folder.source_vocabulary.encode(normalize(text, folder.config.text.normalization))[
        :MOST_PIECES
    ]
    source: list[int] = []
    if isinstance(model, Transformer):
        source, (target, _) = (
            [*target, EOS],
            search_with_tree(Translator(folder), model, target, beam=1, edits=()),
        )
    instrument(model, (), keep)
    with torch.inference_mode():
        logits = compute_logits(model, source, [SOS, *target]).float().cpu()
    chosen = [*target, EOS if source else int(logits[-1].argmax())]
    frame = {
        "text": folder.target_vocabulary.decode(target),
        "source": [folder.source_vocabulary.token(i) for i in source],
        "target": [folder.target_vocabulary.token(i) for i in (SOS, *target)],
        "steps": describe_steps(logits, chosen, folder.target_vocabulary, N_TOP),
    }
    return frame, tensors


def load_film(path: Path) -> tuple[list[dict[str, Any]], dict[str, Tensor]]:
    """The frames of a file and their tensors; none if there is no such file, or it cannot be read."""
    try:
        with safe_open(str(path), "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  not a dictionary
            return json.loads((file.metadata() or {})["transduce.film"]), tensors
    except (OSError, SafetensorError, KeyError, ValueError):
        return [], {}
