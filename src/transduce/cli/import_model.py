"""`transduce import`: make a model folder from a model of another program."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from transduce.cli.arguments import FileOption, split_languages
from transduce.cli.output import log


def import_model(
    out: Annotated[Path, Argument(metavar="OUT", help="Model folder to create.")],
    source: Annotated[
        Path, Option("--from", metavar="FOLDER", help="Folder of a Hugging Face Marian model.")
    ],
    languages: Annotated[
        str | None,
        Option(metavar="FROM-TO", help="Languages, such as en-fr. Default: as the folder says."),
    ] = None,
    to: Annotated[
        str | None,
        Option(metavar="TAG", help="Language to translate into, for a multilingual model."),
    ] = None,
    samples: Annotated[
        Path | None,
        FileOption(help="Sentences for the parity check. Default: generated."),
    ] = None,
) -> None:
    """Import a Marian model, such as OPUS-MT's, and compare it with transformers.

    \b
    Reads config.json, model.safetensors or pytorch_model.bin, source.spm, target.spm and
    vocab.json. Nothing in the folder is executed.

    \b
    Examples:
      transduce import models/en-fr --from opus-mt-en-fr
      transduce import models/en-it --from opus-mt-en-ROMANCE --to it --languages en-it
    """
    from transduce.exchange.importing import import_model as import_folder

    import_folder(
        out, source, to=to, languages=split_languages(languages), samples=samples, log=log
    )
