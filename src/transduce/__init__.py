"""The Transformer of "Attention Is All You Need" as software: from two text files to a translator.

>>> import transduce
>>> transduce.load().translate(["I love you very much"])[0].text
'Ti amo molto'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transduce.config import Config as Config
    from transduce.config import ModelConfig as ModelConfig
    from transduce.decode.generator import Generation as Generation
    from transduce.decode.generator import Generator as Generator
    from transduce.decode.load import load as load
    from transduce.decode.options import Sampling as Sampling
    from transduce.decode.translation import Translation as Translation
    from transduce.decode.translator import Translator as Translator
    from transduce.errors import TransduceError as TransduceError
    from transduce.inspection.steps import time_steps as time_steps
    from transduce.inspection.trace import Trace as Trace
    from transduce.inspection.trace import trace as trace
    from transduce.model_folder import ModelFolder as ModelFolder
    from transduce.training.run import train as train

__version__ = "0.1.0"

_HOMES = {
    "Config": "transduce.config",
    "ModelConfig": "transduce.config",
    "ModelFolder": "transduce.model_folder",
    "Sampling": "transduce.decode.options",
    "Generation": "transduce.decode.generator",
    "Generator": "transduce.decode.generator",
    "TransduceError": "transduce.errors",
    "Translation": "transduce.decode.translation",
    "Translator": "transduce.decode.translator",
    "load": "transduce.decode.load",
    "Trace": "transduce.inspection.trace",
    "time_steps": "transduce.inspection.steps",
    "trace": "transduce.inspection.trace",
    "train": "transduce.training.run",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Import a public name on first access (PEP 562), so that `import transduce` is fast."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in ("model", "text", "errors"):
        return import_module(f"transduce.{name}")
    raise AttributeError(f"module 'transduce' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
