"""`transduce export`: write a model for another program."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from transduce.cli.arguments import FileOption, split_languages
from transduce.cli.output import log


def export(
    model: Annotated[Path, Argument(metavar="MODEL", help="Model folder or run folder.")],
    out: Annotated[
        Path, Argument(metavar="OUT", help="Folder to create; for argos, an .argosmodel file.")
    ],
    to: Annotated[str, Option(metavar="FORMAT", help="marian, ctranslate2 or argos.")],
    languages: Annotated[
        str | None, Option(metavar="FROM-TO", help="Languages. Default: the model's own.")
    ] = None,
    samples: Annotated[
        Path | None, FileOption(help="Sentences for the parity check. Default: generated.")
    ] = None,
) -> None:
    """Export a model to Hugging Face, CTranslate2 or Argos Translate, with a parity check.

    \b
    Examples:
      transduce export runs/en-fr opus-mt-en-fr --to marian
      transduce export runs/en-fr en-fr-ct2 --to ctranslate2
      transduce export runs/en-fr en-fr.argosmodel --to argos
    """
    from transduce.exchange.exporting import export_model

    export_model(model, out, to, languages=split_languages(languages), samples=samples, log=log)
