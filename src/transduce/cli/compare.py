"""`transduce compare`: compare systems on one test set."""

from pathlib import Path
from typing import Annotated

from typer import Option

from transduce.cli.arguments import FileOption, JsonOutput, ReferenceFiles, Tokenizer
from transduce.cli.output import stderr_console
from transduce.errors import UsageError


def compare(
    system: Annotated[
        list[str] | None,
        Option(
            metavar="NAME=FILE",
            help="Translations or a model folder. Repeat for each system, baseline first.",
        ),
    ] = None,
    reference: ReferenceFiles = None,
    source: Annotated[
        Path | None, FileOption(help="Source text; needed to translate with a model.")
    ] = None,
    train_source: Annotated[
        Path | None,
        FileOption(help="Source side of the training text, for scores by rare words and overlap."),
    ] = None,
    train_target: Annotated[
        Path | None, FileOption(help="Target side of the training text, for the same.")
    ] = None,
    rare: Annotated[
        int, Option(min=0, help="A word is rare if the training text has it at most this often.")
    ] = 5,
    tokenize: Tokenizer = "13a",
    html: Annotated[
        Path | None, FileOption(help="Write a page with the sentences of all systems.")
    ] = None,
    as_json: JsonOutput = False,
) -> None:
    """Compare systems on one test set, with significance tests.

    Prints the scores of each system, and whether it differs significantly from the first one by
    two paired tests.

    \b
    Example:
      transduce compare --reference test.it --system first=a.it --system second=b.it
    """
    if not reference:
        raise UsageError("missing --reference FILE")
    from transduce.evaluation.comparison import compare_systems

    sides = {"source": train_source, "reference": train_target}
    training = {side: path for side, path in sides.items() if path is not None}
    compare_systems(
        system or (), reference, source, training, rare, tokenize, html, as_json, stderr_console()
    )
