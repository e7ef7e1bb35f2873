"""Lines of a stream, at the longest length and at the first line."""

import io
from typing import Any

import pytest

from transduce.text import line_stream
from transduce.text.line_stream import InputLine, LineReader


def read(content: bytes) -> list[InputLine]:
    reader = LineReader(io.BufferedReader(io.BytesIO(content)), lambda message: None)
    return [line for window in reader.windows() for line in window]


@pytest.mark.parametrize("end", [b"", b"\n", b"\nnext"])
@pytest.mark.parametrize("length", [6999, 7000, 7001, 20_000])
def test_a_line_is_cut_if_and_only_if_it_is_longer_than_the_longest(
    monkeypatch: pytest.MonkeyPatch, length: int, end: bytes
) -> None:
    """Longer than what is read at once, so that a line arrives in several reads."""
    monkeypatch.setattr(line_stream, "LONGEST_LINE", 7000)
    first, *others = read(b"x" * length + end)
    assert len(first.text) == min(length, 7000)
    assert first.flags == (("cut",) if length > 7000 else ())
    assert [line.text for line in others] == (["next"] if end == b"\nnext" else [])
    assert all(line.flags == () for line in others)


def test_a_byte_order_mark_is_dropped_from_the_first_line_only() -> None:
    mark = b"\xef\xbb\xbf"
    first, second = read(mark + b"a\n" + mark + b"b")
    assert (first.text, first.notes) == ("a", ("byte_order_mark",))
    assert (second.text, second.notes) == ("\ufeffb", ())


def test_blank_lines_are_lines_and_a_last_line_needs_no_line_feed() -> None:
    assert [line.text for line in read(b"\na\r\n\nb")] == ["", "a", "", "b"]
    assert read(b"") == []


class Chunks(io.RawIOBase):
    """A pipe from which each read returns what was written at once."""

    def __init__(self, *chunks: bytes) -> None:
        self._chunks = list(chunks)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self._chunks.pop(0) if self._chunks else b""
        buffer[: len(chunk)] = chunk
        return len(chunk)


def test_a_line_that_was_cut_is_flagged_although_only_its_end_arrives_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(line_stream, "LONGEST_LINE", 5)
    pipe = io.BufferedReader(Chunks(b"12345678", b"\n", b"abc\n"))
    lines = [line for window in LineReader(pipe, pytest.fail).windows() for line in window]
    assert lines == [InputLine("12345", flags=("cut",)), InputLine("abc")]
