"""Translate a stream line by line, overlapping the work on consecutive windows of lines."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from transduce.decode.options import TranslateOptions
from transduce.decode.translation import Translation
from transduce.text.line_stream import InputLine, LineReader

Finish = Callable[[], list[Translation]]  # wait for the translations of a window


@runtime_checkable
class WindowTranslator(Protocol):
    """The part of a Translator that is used here."""

    def begin(self, texts: Sequence[str], options: TranslateOptions) -> Finish:
        """Begin to translate the texts; return the function that finishes."""


def translate_stream(
    translator: WindowTranslator, options: TranslateOptions, reader: LineReader
) -> Iterator[list[Translation]]:
    """Yield the translations of all lines in order, one list for each window that was read.

    While more input is ready, the next window is begun before the last one is finished, so that
    an engine with its own threads always has work. No translation waits for input that has not
    arrived. Flags and notes of reading a line are added to those of its translation.
    """
    n_read = 0
    begun: deque[tuple[list[InputLine], Finish]] = deque()
    for lines in reader.windows():
        if options.sampling is not None:
            options = replace(options, sampling=replace(options.sampling, first=n_read))
        n_read += len(lines)
        begun.append((lines, translator.begin([line.text for line in lines], options)))
        n_ahead = 1 if reader.has_input() else 0
        while len(begun) > n_ahead:
            yield _finish(*begun.popleft())
    while begun:
        yield _finish(*begun.popleft())


def _finish(lines: list[InputLine], finish: Finish) -> list[Translation]:
    translations = []
    for line, translation in zip(lines, finish(), strict=True):
        notes = (*translation.notes, *line.notes)
        flags = dict.fromkeys((*line.flags, *translation.flags))  # each once, in order
        translations.append(replace(translation, notes=notes, flags=tuple(flags)))
    return translations
