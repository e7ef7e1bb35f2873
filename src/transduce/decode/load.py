"""A model folder, ready to work: a translator or a language model."""

from pathlib import Path
from typing import Any, overload

from transduce.checkpoint import BUILTIN, load_model
from transduce.decode.generator import Generator
from transduce.decode.translator import Translator
from transduce.model import LanguageModel


@overload
def load(path: None = None) -> Translator: ...
@overload
def load(path: str | Path) -> Any: ...
def load(path: str | Path | None = None) -> Translator | Generator:
    """The translator or language model in a model folder or run folder; left out, the built-in English -> Italian translator."""
    folder = load_model(Path(path) if path is not None else BUILTIN)
    return Generator(folder) if isinstance(folder.model, LanguageModel) else Translator(folder)


def load_translator(path: Path | None) -> Translator:
    """A translator, and nothing else."""
    return Translator(load_model(path or BUILTIN))


def load_generator(path: Path) -> Generator:
    """A language model, and nothing else."""
    return Generator(load_model(path))
