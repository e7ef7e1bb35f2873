"""Load a translator or a language model from a model folder."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from transduce.decode.options import EngineName, Precision
from transduce.decode.translator import Translator
from transduce.log import Log, silent
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
) -> Any: ...  # which of the two is known only when the folder is read
def load(
    path: str | Path | None = None, *, engine: EngineName = "auto", precision: Precision = "float32"
) -> "Translator | transduce.decode.generator.Generator":
    """Load the translator or language model of a model folder or run folder.

    Without a path, load the built-in English -> Italian translator. The engine "auto" is
    CTranslate2 where it is installed and supports the options, else torch.
    """
    folder = open_model(Path(path) if path is not None else BUILTIN)
    if folder.config.model.kind == "decoder-only":
        from transduce.decode.generator import Generator

        return Generator(folder)
    return Translator(folder, engine=engine, precision=precision)


def load_translator(
    *paths: Path | None,
    engine: EngineName,
    precision: Precision = "float32",
    n_threads: int | None = None,
    log: Log = silent,
) -> Translator:
    """Load a translator; several paths are an ensemble, None is the built-in model.

    The engine has no default: commands that must be exact choose "torch". Raises ModelError for a
    language model.
    """
    folders = [open_model(path or BUILTIN) for path in paths or (None,)]
    return Translator(*folders, engine=engine, precision=precision, n_threads=n_threads, log=log)


def load_generator(path: Path) -> "transduce.decode.generator.Generator":
    """Load a language model. Raises ModelError for a translation model."""
    from transduce.decode.generator import Generator

    return Generator(open_model(path))
