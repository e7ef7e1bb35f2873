"""The entry point of the command line.

Registers one command per module of this package and turns errors into messages and exit codes.
A command module parses arguments, calls the library and prints. It imports the library inside
its functions, so that `--help` answers without loading torch.
"""

import os
import signal
import sys
import time
from types import FrameType
from typing import Annotated

import typer
from typer import Option

from transduce.cli.claims import claims
from transduce.cli.compare import compare
from transduce.cli.demo import demo
from transduce.cli.doctor import doctor
from transduce.cli.evaluate import evaluate
from transduce.cli.export import export
from transduce.cli.generate import generate
from transduce.cli.import_model import import_model
from transduce.cli.info import info
from transduce.cli.inspect import inspect
from transduce.cli.output import (
    discard_stdout,
    end_on_closed_pipe,
    error,
    prepare_streams,
)
from transduce.cli.plan import plan
from transduce.cli.score import score
from transduce.cli.serve import serve
from transduce.cli.train import train
from transduce.cli.translate import translate
from transduce.errors import StorageError, TransduceError

# In the order of `transduce --help`.
COMMANDS = (
    demo,
    train,
    translate,
    generate,
    evaluate,
    score,
    compare,
    doctor,
    plan,
    inspect,
    claims,
    info,
    serve,
    import_model,
    export,
)
NAMES = {"import_model": "import"}  # of commands that are named otherwise than their functions

STOP_SIGNALS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
REPEAT_SECONDS = (
    1.0  # the same signal may come twice: `timeout` sends it to the process and its group
)

app = typer.Typer(
    help="The Transformer of 'Attention Is All You Need': from two text files to a translator.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in COMMANDS:
    app.command(NAMES.get(command.__name__))(command)


def main() -> None:
    """Run the command line. An error becomes one line on stderr and its exit code."""
    # Read by OpenMP when torch is imported: threads that wait for each other spin only briefly,
    # then sleep. Long spinning slows training many times where other programs use the cores.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    prepare_streams()
    end_on_closed_pipe()
    _stop_on_signals()
    try:
        _run_app()
    except _Stopped as stopped:
        discard_stdout()
        error(STOP_SIGNALS[stopped.signal])
        sys.exit(128 + stopped.signal)
    except TransduceError as raised:
        if not raised.already_reported:
            error(str(raised))
        if isinstance(raised, StorageError):
            discard_stdout()  # writing the rest would fail again
        sys.exit(raised.exit_code)
    except OSError as raised:
        reason = raised.strerror or str(raised)
        error(f"{raised.filename}: {reason}" if raised.filename else reason)
        sys.exit(StorageError.exit_code)


def _run_app() -> None:
    """Run the command, and write the rest of its output before it exits."""
    try:
        app()
    except SystemExit:
        sys.stdout.flush()
        raise


class _Stopped(BaseException):
    """A signal ends the command. Not an Exception, so that no library catches it."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number)
        self.signal = number


def _stop_on_signals() -> None:
    """Let SIGINT and SIGTERM end the command, which removes what it has half written.

    If that takes long, another signal ends the process at once.
    """
    first: list[float] = []

    def stop(number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if not first:
            first.append(now)
            raise _Stopped(signal.Signals(number))
        if now - first[0] > REPEAT_SECONDS:
            os._exit(128 + number)

    for number in STOP_SIGNALS:
        signal.signal(number, stop)


def _print_version(is_given: bool) -> None:
    if is_given:
        from transduce import __version__

        print(f"transduce {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    pass
