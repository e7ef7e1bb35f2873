"""`transduce compare`: compare systems on one test set."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.text import Text
from typer import Option

from transduce.cli.arguments import FileOption, JsonOutput, ReferenceFiles, Tokenizer
from transduce.cli.output import check_outputs, log, note, stderr_console, warn, write_page
from transduce.errors import UsageError
from transduce.text.printable import printable

if TYPE_CHECKING:
    from transduce.evaluation.comparison import Side


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
        Path | None, FileOption(help="Target side of the training text, used like --train-source.")
    ] = None,
    rare: Annotated[
        int, Option(min=0, help="A word is rare if the training text has it at most N times.")
    ] = 5,
    tokenize: Tokenizer = "13a",
    html: Annotated[
        Path | None, FileOption(help="Write a page with the sentences of all systems.")
    ] = None,
    as_json: JsonOutput = False,
) -> None:
    """Compare systems on one test set, with significance tests.

    Prints the scores of each system, and whether it differs significantly from the first one by
    two paired tests. A model translates each line of --source as one segment.

    \b
    Example:
      transduce compare --reference test.it --system first=a.it --system second=b.it
    """
    if not reference:
        raise UsageError("missing --reference FILE")
    systems = parse_systems(system or ())
    training: dict[Side, Path] = {}
    if train_source is not None:
        training["source"] = train_source
    if train_target is not None:
        training["reference"] = train_target
    if html is not None:
        inputs = (*systems.values(), *reference, source, *training.values())
        check_outputs((html,), inputs, list(systems.values()))
    from transduce.evaluation.comparison import as_rows, as_text, compare_files

    console = stderr_console()
    with console.status("reading") as status:
        comparison = compare_files(
            systems,
            reference,
            source=source,
            training=training,
            rare=rare,
            tokenize=tokenize,
            warn=warn,
            note=note,
            progress=lambda message: status.update(Text(message)),
        )
    if html is not None:
        from transduce.reports.comparison import comparison_page

        write_page(html, comparison_page(comparison))
        log(f"the page is in {html}")
    lines = map(json.dumps, as_rows(comparison)) if as_json else as_text(comparison)
    sys.stdout.writelines(f"{line}\n" for line in lines)


def parse_systems(arguments: Sequence[str]) -> dict[str, Path]:
    """Return the files and model folders by name, in order.

    In `first=out.txt` the name is `first`; without an equals sign it is the file name. The path of
    an existing file may contain equals signs.
    """
    systems: dict[str, Path] = {}
    for argument in arguments:
        name, equals, path = argument.partition("=")
        if not equals or Path(argument).exists():
            name, path = Path(argument).name, argument
        name = printable(name)
        if not name or not path:
            raise UsageError(f"--system is {argument!r}; expected NAME=FILE, as in first=out.txt")
        if name in systems:
            raise UsageError(
                f"two systems are called {name!r}; "
                "give them different names: --system one=... --system two=..."
            )
        systems[name] = Path(path)
    if len(systems) < 2:
        raise UsageError(
            "compare needs at least two systems: --system first=out1.txt --system second=out2.txt"
        )
    return systems
