"""The table of engines. A new engine is registered here and nowhere else."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from transduce.decode.engines.base import Engine, EngineSetup
from transduce.decode.options import Precision
from transduce.errors import UsageError


def open_ctranslate2(setup: EngineSetup) -> Engine:
    """Open the CTranslate2 engine. The model is converted when the engine is first used."""
    from transduce.decode.engines.ctranslate2 import CTranslate2Engine

    return CTranslate2Engine(setup)


def open_torch(setup: EngineSetup) -> Engine:
    """Open the torch engine. Torch is imported here, not before."""
    from transduce.decode.engines.torch import TorchEngine
    from transduce.model import Transformer

    models = [folder.model for folder in setup.folders]
    return TorchEngine(
        [model for model in models if isinstance(model, Transformer)],
        setup.folders[0].target_vocabulary,
        setup.precision,
        setup.n_threads,
    )


@dataclass(frozen=True, slots=True)
class EngineEntry:
    """How to open an engine, and the precisions it supports."""

    open: Callable[[EngineSetup], Engine]
    precisions: tuple[Precision, ...]


ENGINES: dict[str, EngineEntry] = {  # in the order in which "auto" tries them
    "ctranslate2": EngineEntry(open_ctranslate2, ("float32", "int8")),
    "torch": EngineEntry(open_torch, ("float32", "bf16")),
}


def find_engines(name: str, precision: Precision) -> list[str]:
    """Return the names of the engines to try, in order; "auto" means all that have the precision.

    Raises UsageError if there is none.
    """
    if name != "auto" and name not in ENGINES:
        raise UsageError(f"unknown engine '{name}'; expected auto, {', '.join(ENGINES)}")
    names = list(ENGINES) if name == "auto" else [name]
    found = [each for each in names if precision in ENGINES[each].precisions]
    if not found:
        raise UsageError(
            f"the {name} engine does not support {precision}; omit --engine or --precision"
        )
    return found


def open_engine(name: str, setup: EngineSetup) -> Engine:
    """Open an engine. Without the requested precision it uses float32."""
    entry = ENGINES[name]
    precision = setup.precision if setup.precision in entry.precisions else "float32"
    return entry.open(replace(setup, precision=precision))
