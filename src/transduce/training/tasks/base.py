"""The interface between the training pipeline (training/run.py) and its tasks."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from transduce.config import Config, Layer
from transduce.data.prepared import Inputs, Manifest, Vocabularies
from transduce.log import Log
from transduce.model_folder import ModelFolder
from transduce.text.files import Fingerprint
from transduce.training.loop import Validate


@dataclass(frozen=True)
class TrainingSetup(ABC):
    """Everything the training loop needs besides the batches."""

    config: Config
    preset: str
    vocabularies: Vocabularies
    words: frozenset[str] | None  # of the source side; None if they are unknown or too many

    @property
    @abstractmethod
    def card(self) -> Mapping[str, Any]:
        """Entries about the training data for the card of the model."""

    @property
    @abstractmethod
    def probe(self) -> str:
        """The text that the film of the training shows."""

    @abstractmethod
    def make_validate(self, folder: ModelFolder) -> Validate:
        """Return the function that validates the model of `folder`."""


@runtime_checkable
class Task(Protocol):
    """The data of a training, and how it becomes a prepared corpus and settings."""

    @property
    def kind(self) -> str:
        """The setting `model.kind` of the models this task trains."""

    @property
    def defaults(self) -> Layer:
        """Settings of the task; those of the user override them."""

    def fingerprint(self) -> Fingerprint:
        """Return names and SHA-256 of all files, including the validation set."""

    def encode(
        self,
        folder: Path,
        inputs: Inputs,
        requested: Config,
        log: Log,
        vocabularies: Vocabularies | None = None,
    ) -> Manifest:
        """Encode the corpus into `folder` and return its manifest.

        `requested` holds the user's `text` and `data` settings. The vocabularies are learned from
        the corpus unless they are given.
        """

    def set_up(
        self,
        manifest: Manifest,
        folder: Path,
        preset: str | None,
        settings: Sequence[Layer],
        log: Log,
        *,
        is_fine_tuning: bool = False,
    ) -> TrainingSetup:
        """Choose the settings for a prepared corpus, log them with reasons, and load the rest."""
