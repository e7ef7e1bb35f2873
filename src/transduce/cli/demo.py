"""`transduce demo`: train, score and show a small model."""

import tempfile
from pathlib import Path
from typing import Annotated

from typer import Option

from transduce.cli.output import ignore_closed_pipe, stderr_console, stdout_console


def demo(
    lm: Annotated[
        bool, Option("--lm", help="Train a language model of Italian sentences instead.")
    ] = False,
    keep: Annotated[Path | None, Option(metavar="DIR", help="Keep the run in DIR.")] = None,
) -> None:
    """Train an English-Italian translator on this machine, score it and show how it works.

    Takes a minute or two.
    """
    ignore_closed_pipe()
    from transduce.training.demo import run_demo, run_text_demo

    with tempfile.TemporaryDirectory() as temporary:
        run = keep or Path(temporary) / "demo"
        run_any_demo = run_text_demo if lm else run_demo
        run_any_demo(run, stdout_console(soft_wrap=True), stderr_console())
