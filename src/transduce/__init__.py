"""The Transformer of "Attention Is All You Need" as software: from two text files to a translator.

>>> import transduce
>>> transduce.load().translate(["I love you very much"])[0].text
'Ti amo molto'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transduce.app.run import train
    from transduce.checkpoint import ModelFolder
    from transduce.config import Config, ModelConfig
    from transduce.decode.generator import Generation, Generator
    from transduce.decode.how import Sampling
    from transduce.decode.load import load
    from transduce.decode.translation import Translation
    from transduce.decode.translator import Translator
    from transduce.errors import TransduceError
    from transduce.inspection.steps import time_steps
    from transduce.inspection.trace import Trace, trace

__version__ = "0.1.0"

_HOMES = {
    "Config": "transduce.config",
    "ModelConfig": "transduce.config",
    "ModelFolder": "transduce.checkpoint",
    "Sampling": "transduce.decode.how",
    "Generation": "transduce.decode.generator",
    "Generator": "transduce.decode.generator",
    "TransduceError": "transduce.errors",
    "Translation": "transduce.decode.translation",
    "Translator": "transduce.decode.translator",
    "load": "transduce.decode.load",
    "Trace": "transduce.inspection.trace",
    "time_steps": "transduce.inspection.steps",
    "trace": "transduce.inspection.trace",
    "train": "transduce.app.run",
}

__all__ = [
    "Config",
    "Generation",
    "Generator",
    "ModelConfig",
    "ModelFolder",
    "Sampling",
    "Trace",
    "TransduceError",
    "Translation",
    "Translator",
    "load",
    "time_steps",
    "trace",
    "train",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for (PEP 562), so that `import transduce` is quick."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in ("model", "text", "errors"):
        return import_module(f"transduce.{name}")
    raise AttributeError(f"module 'transduce' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
