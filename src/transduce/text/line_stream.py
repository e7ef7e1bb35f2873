"""Lines from a stream as they arrive: from a file, a pipe or a terminal."""

import select
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BufferedReader
from typing import BinaryIO, cast

from transduce.errors import MissingInputError
from transduce.text.files import BYTE_ORDER_MARK, LONGEST_LINE, detect_binary

# Bytes per read. The first reads are small, so that the first lines are translated early.
MIN_READ, MAX_READ = 1 << 11, 1 << 16


@dataclass(frozen=True, slots=True)
class InputLine:
    """A line of text without its line break, and the quality flags and notes of reading it."""

    text: str
    notes: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


class LineReader:
    """A reader of a stream in windows: the lines that are available together.

    `warn` is called if the stream does not look like UTF-8 text.
    """

    def __init__(self, file: BinaryIO, warn: Callable[[str], None]) -> None:
        self._file = file
        self._warn = warn
        self._n_lines = 0  # complete lines so far

    def windows(self) -> Iterator[list[InputLine]]:
        """Yield the lines that are available together, without waiting for more.

        So a program that writes one line and waits gets its answer. A window is empty if only a
        part of a line has arrived. A line longer than LONGEST_LINE bytes is cut there and
        flagged, so that a stream without line breaks cannot fill the memory.
        """
        size = MIN_READ
        rest = bytearray()  # the beginning of a line whose end has not arrived
        is_cut = False
        while read := self._read(size):
            size = min(2 * size, MAX_READ)
            *lines, end = read.split(b"\n")

            if not lines:
                yield []
            else:
                is_cut = is_cut or len(rest) + len(lines[0]) > LONGEST_LINE
                first = (bytes(rest) + lines[0])[:LONGEST_LINE]
                rest.clear()
                window = [self._decode(first, is_cut=is_cut)]
                window += [self._decode(line) for line in lines[1:]]
                is_cut = False
                yield window

            is_cut = is_cut or len(rest) + len(end) > LONGEST_LINE
            rest += end[: LONGEST_LINE - len(rest)]
        if rest:
            yield [self._decode(bytes(rest), is_cut=is_cut)]

    def has_input(self) -> bool:
        """Return whether more can be read without waiting; False if that is unknown."""
        try:
            readable, _, _ = select.select([self._file], [], [], 0)
        except (OSError, ValueError):
            return False
        return bool(readable)

    def _read(self, size: int) -> bytes:
        """Return what is available, at most `size` bytes; nothing at the end."""
        try:
            return cast(BufferedReader, self._file).read1(size)
        except OSError as error:
            raise MissingInputError(f"standard input cannot be read: {error.strerror}") from None

    def _decode(self, line: bytes, is_cut: bool = False) -> InputLine:
        self._n_lines += 1
        notes: list[str] = []
        flags: list[str] = []
        if is_cut:
            flags.append("cut")
        line = line.removesuffix(b"\r")
        if self._n_lines == 1:
            if (found := detect_binary(line)) is not None:
                self._warn(f"standard input {found}")
            if line.startswith(BYTE_ORDER_MARK):
                line = line.removeprefix(BYTE_ORDER_MARK)
                notes.append("byte_order_mark")
        try:
            text = line.decode()
        except UnicodeDecodeError:
            text = line.decode(errors="replace")
            flags.append("invalid_characters")
        return InputLine(text, tuple(notes), tuple(flags))
