"""A model folder, ready to work: a translator or a language model."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from transduce.decode.options import EngineName, Precision
from transduce.decode.translator import Translator
from transduce.log import Log
from transduce.model_folder import BUILTIN, open_model

if TYPE_CHECKING:
    import transduce.decode.generator


@overload
def load(
    path: None = None, *, engine: EngineName = "auto", precision: Precision = "float32"
) -> Translator: ...
@overload
def load(
    path: str | Path | None, *, engine: EngineName = "auto", precision: Precision = "float32"
) -> Any: ...
def load(
    path: str | Path | None = None, *, engine: EngineName = "auto", precision: Precision = "float32"
) -> "Translator | transduce.decode.generator.Generator":
    """The translator or language model in a model folder or run folder; left out, the built-in English -> Italian translator.

    A translator uses CTranslate2 where that is installed and can do what is asked, else torch; `engine` asks for one of them.
    """
    folder = open_model(Path(path) if path is not None else BUILTIN)
    if folder.config.model.kind == "decoder-only":
        from transduce.decode.generator import Generator

        return Generator(folder)
    return Translator(folder, engine=engine, precision=precision)


def load_translator(
    *paths: Path | None,
    engine: EngineName = "torch",
    precision: Precision = "float32",
    n_threads: int | None = None,
    log: Log = lambda message: None,
) -> Translator:
    """A translator, and nothing else; of several models, one that asks them all. None is the built-in one."""
    folders = [open_model(path or BUILTIN) for path in paths or (None,)]
    return Translator(*folders, engine=engine, precision=precision, n_threads=n_threads, log=log)


def load_generator(path: Path) -> "transduce.decode.generator.Generator":
    """A language model, and nothing else."""
    from transduce.decode.generator import Generator

    return Generator(open_model(path))
