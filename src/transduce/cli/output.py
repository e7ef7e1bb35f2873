"""What all commands share when they write: streams, messages, output formats, checks of paths.

Data goes to stdout as it is. Everything else goes to stderr, and what is printed there contains no
control characters of the data: messages are printed by the functions below, tables and progress
bars by the consoles below, and the stream itself lets nothing else through.
"""

import contextlib
import io
import json
import os
import signal
import stat
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from transduce.errors import StorageError, UsageError
from transduce.outputs import check_output, write_output
from transduce.text.console import PrintableConsole
from transduce.text.printable import printable, printable_lines, shorten

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from transduce.decode.translation import Translation


# Messages


def note(message: str) -> None:
    """Print a note on stderr: information that needs no action."""
    log(f"transduce: note: {message}")


def warn(message: str) -> None:
    """Print a warning on stderr: the command continues, but its result may not be as expected."""
    log(f"transduce: warning: {message}")


def error(message: str) -> None:
    """Print an error on stderr: the command ends. What it quotes is of limited length."""
    log(f"transduce: error: {shorten(message)}")


def log(message: str) -> None:
    """Print a line of progress on stderr, without a prefix."""
    print(printable(message), file=sys.stderr)


def overwrite(message: str) -> None:
    """Print a line of progress that the next output on stderr overwrites."""
    _console_stream().write(f"\r{printable(message)}\r")


def print_report(text: str) -> None:
    """Print a report for people on stdout."""
    print(printable_lines(text))


def stdout_console(soft_wrap: bool = False) -> PrintableConsole:
    """Return a console on stdout, for tables; with `soft_wrap` it never breaks long lines."""
    return PrintableConsole(soft_wrap=soft_wrap)


def stderr_console() -> PrintableConsole:
    """Return a console on stderr, for progress bars; it never breaks long lines."""
    return PrintableConsole(file=_console_stream(), soft_wrap=True)


def _console_stream() -> TextIO:
    """Return stderr for text that is printable already, perhaps between control sequences."""
    stream = sys.stderr
    return stream.unfiltered if isinstance(stream, _MessageStream) else stream


# Streams and signals


def prepare_streams() -> None:
    """Make the standard streams safe.

    All are open, stdout is UTF-8, stderr is printable and never fails. Output to a stdout that the
    caller closed is an error.
    """
    is_closed = sys.stdout is None
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # The caller closed the stream (`>&-`). Without a replacement, the next file that is
            # opened would get its file descriptor and receive the output of the stream.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  stays open
    if is_closed:
        sys.stdout = _ClosedStdout(sys.stdout)
    elif type(sys.stdout) is io.TextIOWrapper:
        sys.stdout = _name_write_errors(sys.stdout)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.stderr = _MessageStream(sys.stderr)


class _StdoutFile(io.FileIO):
    """Standard output that says what could not be written."""

    def write(self, data: "ReadableBuffer", /) -> int | None:  # type: ignore[override]  # None if it would block
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise StorageError(f"cannot write to standard output: {error.strerror}") from None


def _name_write_errors(stdout: io.TextIOWrapper) -> TextIO:
    """Return a stream to the same file whose write errors name standard output."""
    file = _StdoutFile(stdout.fileno(), "wb", closefd=False)
    return io.TextIOWrapper(
        file if stdout.write_through else io.BufferedWriter(file),  # as Python itself does
        line_buffering=stdout.line_buffering,
        write_through=stdout.write_through,
    )


class _ClosedStdout(io.StringIO):
    """Standard output that the caller closed: output would be lost, so it is an error."""

    def __init__(self, placeholder: TextIO) -> None:
        super().__init__()
        self._placeholder = placeholder  # keeps the number of the stream in use

    def write(self, text: str) -> int:
        raise StorageError(
            "standard output is closed; redirect it to a file, or to /dev/null to discard it"
        )


class _ForgivingStream:
    """Standard error that ignores write errors: a closed terminal must not abort the run."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._file.write(text)
            self._file.flush()
        return len(text)

    def flush(self) -> None:
        pass  # write() has flushed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class _MessageStream(_ForgivingStream):
    """Standard error for messages: only line feeds and printable characters get through."""

    def __init__(self, file: TextIO) -> None:
        super().__init__(file)
        self.unfiltered: Any = _ForgivingStream(file)  # for consoles

    def write(self, text: str) -> int:
        return super().write(printable_lines(text))


def discard_stdout() -> None:
    """Drop what stdout still has to write: a reader that does not read must not stop the end."""
    with contextlib.suppress(OSError, ValueError):  # closed, or not a file
        handle = sys.stdout.fileno()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, handle)
        os.close(null)


def end_on_closed_pipe() -> None:
    """End quietly when the reader of stdout is gone, as in `transduce ... | head`."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def ignore_closed_pipe() -> None:
    """Turn writes to a closed pipe into errors, as commands with worker processes need."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)


def ignore_hangup() -> None:
    """Continue when the terminal is closed."""
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


# Files


def check_outputs(
    outputs: Sequence[Path | None],
    inputs: Sequence[Path | None],
    models: Sequence[Path | None] = (),
) -> None:
    """Check, before any work is done, that all outputs of a command can be written.

    Raise OutputError if one cannot be created, UsageError if a file or a pipe is both read and
    written, or written twice. Standard input and the files of the models count as read. None stands
    for an option that was not given.
    """
    from transduce.model_folder import model_files

    written = [path for path in outputs if path is not None]
    if not written:
        return
    of_models = [path for model in models if model is not None for path in model_files(model)]
    given = [path for path in (*inputs, *of_models) if path is not None]
    read = [os.fstat(0), *(path.stat() for path in given if path.exists())]
    for path in written:
        check_output(path)
        if path.exists() and any(_is_same_data(path.stat(), each) for each in read):
            raise UsageError(f"{path} is both read and written; name another output file")
    for i, path in enumerate(written):
        if any(_is_same_file(path, other) for other in written[:i]):
            raise UsageError(f"{path} would be written twice; name two different output files")


def check_stdin_is_not_stdout() -> None:
    """Raise UsageError if standard input and output are one file or one pipe, a loop without end.

    Called by commands that read and write at the same time.
    """
    if _is_same_data(os.fstat(0), os.fstat(1)):
        raise UsageError("standard input is also the standard output; write to another file")


def _is_same_data(read: os.stat_result, written: os.stat_result) -> bool:
    """Return whether what is written would be read: both are the same file or the same pipe."""
    has_data = stat.S_ISREG(read.st_mode) or stat.S_ISFIFO(read.st_mode)
    return has_data and os.path.samestat(read, written)


def _is_same_file(path: Path, other: Path) -> bool:
    if path.exists() and other.exists():
        return path.samefile(other)
    return path.resolve() == other.resolve()


def write_page(path: Path, content: str) -> None:
    """Write a page as `write_output` does. Lone surrogates are escaped."""
    write_output(path, content.encode(errors="backslashreplace"))


# Formats


def json_line(record: Mapping[str, Any]) -> str:
    """Return a record as one line of JSON that can always be encoded as UTF-8."""
    text = json.dumps(record, ensure_ascii=False)
    return text.encode(errors="backslashreplace").decode()  # a lone surrogate is not valid UTF-8


class OutputFormat(Protocol):
    """How `translate` writes a translation.

    To add a format, implement this protocol and enter it in FORMATS.
    """

    needs_details: bool  # whether it writes tokens, their scores or the alignment

    def lines(self, number: int, translation: "Translation") -> Iterable[str]:
        """Return the lines to write for one input line, whose number starts at 1."""


class TextFormat:
    """The translation, one line each."""

    needs_details = False

    def lines(self, number: int, translation: "Translation") -> Iterable[str]:
        """Return the text."""
        return [translation.text]


class NBestFormat:
    """All hypotheses, best first, in the Moses n-best format: `0 ||| text ||| score`."""

    needs_details = False

    def lines(self, number: int, translation: "Translation") -> Iterable[str]:
        """Return one line for each hypothesis; Moses counts the input lines from 0."""
        hypotheses = translation.alternatives or [translation]
        return [f"{number - 1} ||| {each.text} ||| {each.score:.6f}" for each in hypotheses]


class JsonFormat:
    """Everything known about the translation, as one JSON object."""

    needs_details = True

    def lines(self, number: int, translation: "Translation") -> Iterable[str]:
        """Return the record, with the number of the line as its first field."""
        return [json_line({"line": number, **asdict(translation)})]


class AlignmentFormat:
    """The word alignment in Pharaoh format: `0-1 1-0`."""

    needs_details = True

    def lines(self, number: int, translation: "Translation") -> Iterable[str]:
        """Return the alignment."""
        return [translation.alignment]


class ReportFormat:
    """The quality flags and notes of the line, with the words they are about, as JSON."""

    needs_details = False

    def lines(self, number: int, translation: "Translation") -> Iterable[str]:
        """Return the record, with the number of the line as its first field."""
        record = {
            "line": number,
            "notes": translation.notes,
            "flags": translation.flags,
            "unseen": translation.unseen,
            "unknown": translation.unknown,
            "missing": translation.missing,
        }
        return [json_line(record)]


FORMATS: dict[str, OutputFormat] = {
    "text": TextFormat(),
    "nbest": NBestFormat(),
    "json": JsonFormat(),
    "alignment": AlignmentFormat(),
    "report": ReportFormat(),
}
