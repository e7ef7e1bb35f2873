"""`transduce translate`: standard input to standard output, exactly one line for each, and a word on whatever is doubtful."""

import json
import os
import select
import stat
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from transduce.decode.load import load_translator
from transduce.decode.options import TranslateOptions
from transduce.decode.translation import Translation
from transduce.decode.translator import Translator
from transduce.errors import DataError, OutputError, UsageError
from transduce.text.corpus import open_pairs
from transduce.text.files import BYTE_ORDER_MARK, LONGEST_LINE, detect_binary

# Bytes of standard input that are translated together: few at first, so that they appear at once.
READ_FIRST, READ_MOST = 1 << 11, 1 << 16
MOST_SAID = 10  # lines whose doubts are told on stderr; the report has all
MOST_NAMED = 10  # words of a line that are named
LONGEST_NAMED = 40  # characters of such a word
SCORED_AT_ONCE = 1024  # pairs
SCORED = ("source", "text", "score", "pieces", "token_scores", "alignment")
BETWEEN = 1.0  # seconds between two signs of life on a terminal

DOUBTS: dict[str, str] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)


class Line(str):
    """A line of standard input as text, with what was already noticed about it."""

    notes: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


class Tally:
    """What was noticed, counted; the first doubts are said line by line."""

    def __init__(self) -> None:
        self.n_lines = self.n_flagged = self._n_said = 0
        self._counts: Counter[str] = Counter()
        self._start = self._shown = time.monotonic()

    def add(self, translation: Translation) -> None:
        """Count one more line, and say what is doubtful about it."""
        self.n_lines += 1
        self.n_flagged += bool(translation.flags)
        told = [kind for kind in (*translation.flags, *translation.notes) if kind in DOUBTS]
        self._counts.update((*translation.flags, *translation.notes))
        self._n_said += bool(told)
        for kind in told if self._n_said <= MOST_SAID else ():
            words = {
                name: named(getattr(translation, name)) for name in ("unknown", "missing", "unseen")
            }
            say(f"line {self.n_lines}: {DOUBTS[kind].format(longest=LONGEST_LINE >> 20, **words)}")

    def show_progress(self) -> None:
        """On a terminal whose output goes elsewhere: how far it is."""
        now = time.monotonic()
        if sys.stderr.isatty() and not sys.stdout.isatty() and now - self._shown > BETWEEN:
            self._shown = now
            speed = self.n_lines / (now - self._start)
            print(f"\r{self.n_lines:,} lines, {speed:,.0f} a second", end="\r", file=sys.stderr)

    def summary(self, has_report: bool) -> str:
        """All of it in one line."""
        kinds = ", ".join(f"{kind} {n:,}" for kind, n in sorted(self._counts.items()))
        hidden = self._n_said > MOST_SAID and not has_report
        return (
            f"{self.n_lines:,} line{'s' if self.n_lines != 1 else ''}, {self.n_flagged:,} flagged"
            + (f" ({kinds})" if kinds else "")
            + ("; --report FILE names every line" if hidden else "")
        )


def run_filter(
    translator: Translator,
    options: TranslateOptions,
    report: Path | None,
    alignments: Path | None,
    files: Sequence[Path | None],
    *,
    as_json: bool,
    strict: bool,
) -> None:
    """Translate standard input line by line; `files` are others that are read."""
    check_outputs((report, alignments), files)
    chosen, reason = translator.engine(options)
    say(f"engine: {chosen}" + (f" ({reason})" if reason is not None else ""))
    options = replace(options, details=as_json or alignments is not None)
    tally = Tally()
    with _create(report) as reported, _create(alignments) as aligned:
        for window in translated(translator, options, sys.stdin.buffer):
            out: list[str] = []
            for line, found in window:
                noted = replace(
                    found,
                    notes=(*found.notes, *line.notes),
                    flags=tuple(dict.fromkeys((*line.flags, *found.flags))),
                )
                tally.add(noted)
                out += _written(tally.n_lines, noted, as_json, options)
                if reported is not None:
                    doubts = {
                        name: getattr(noted, name)
                        for name in ("notes", "flags", "unseen", "unknown", "missing")
                    }
                    print(_to_json({"line": tally.n_lines, **doubts}), file=reported)
                if aligned is not None:
                    print(noted.alignment, file=aligned)
            sys.stdout.buffer.write("".join(f"{text}\n" for text in out).encode())
            sys.stdout.buffer.flush()
            tally.show_progress()
    say(tally.summary(report is not None))
    if strict and tally.n_flagged:
        raise DataError(
            f"{tally.n_flagged:,} of {tally.n_lines:,} lines are flagged, and --strict was given"
        )


def translated(
    translator: Translator, options: TranslateOptions, file: BinaryIO
) -> Iterator[list[tuple[Line, Translation]]]:
    """Lines with their translations, as many at once as were there; if more are, those are begun before these are finished."""
    n_read = 0
    begun: list[tuple[list[Line], Callable[[], list[Translation]]]] = []
    for lines in read_lines(file):
        if options.sampling is not None:
            options = replace(options, sampling=replace(options.sampling, first=n_read))
        n_read += len(lines)
        begun.append((lines, translator.begin(lines, options)))
        while len(begun) > is_waiting(file):
            first, finish = begun.pop(0)
            yield list(zip(first, finish(), strict=True))
    for last, finish in begun:
        yield list(zip(last, finish(), strict=True))


def score_files(
    model: Path | None,
    source: Path,
    target: Path,
    alpha: float | None,
    length_penalty: str | None,
    alignments: Path | None,
    as_json: bool,
) -> None:
    """Score the pairs of two files, a number each."""
    check_outputs((alignments,), (source, target))
    translator = load_translator(model)
    pairs = open_pairs([source], [target]).read()
    with _create(alignments) as aligned:
        number = 0
        while some := list(islice(pairs, SCORED_AT_ONCE)):
            both = [(pair.source, pair.target) for pair in some]
            for scored in translator.score(both, alpha, length_penalty, first=number + 1):
                number += 1
                record = {"line": number, **{name: getattr(scored, name) for name in SCORED}}
                print(_to_json(record) if as_json else f"{scored.score:.6f}")
                if aligned is not None:
                    print(scored.alignment, file=aligned)


def _written(
    number: int, translation: Translation, as_json: bool, options: TranslateOptions
) -> list[str]:
    """What stands on stdout for one line: the text, the record, or all that was found in Moses' form."""
    if as_json:
        return [_to_json({"line": number, **asdict(translation)})]
    if options.n_best == 1 and not options.alternatives:
        return [translation.text]
    found = [(each.text, each.score) for each in translation.alternatives] or [
        (translation.text, translation.score)
    ]
    return [f"{number - 1} ||| {text} ||| {score:.6f}" for text, score in found]


def _to_json(record: dict[str, Any]) -> str:
    text = json.dumps(record, ensure_ascii=False)
    return text.encode(errors="backslashreplace").decode()  # half a surrogate pair stays JSON


def say(message: str) -> None:
    """A line for people."""
    print(f"transduce: {message}", file=sys.stderr)


def check_outputs(outputs: Sequence[Path | None], inputs: Sequence[Path | None]) -> None:
    """No file is both read and written, or written twice."""
    read = [os.fstat(0)] if stat.S_ISREG(os.fstat(0).st_mode) else []
    read += [path.stat() for path in inputs if path is not None and path.is_file()]
    written = [path for path in outputs if path is not None]
    for path in written:
        if path.is_file() and any(os.path.samestat(path.stat(), each) for each in read):
            raise UsageError(f"{path} is both read and written: name another file for the output")
    there = [path.stat() for path in written if path.exists()]
    same = any(os.path.samestat(one, other) for i, one in enumerate(there) for other in there[:i])
    if same or len({path.resolve() for path in written}) < len(written):
        raise UsageError(f"{written[0]} would be written twice: name two files")


def _create(path: Path | None) -> Any:
    """A file to write into, checked before any work; or nothing."""
    if path is None:
        return nullcontext()
    try:
        return path.open("w", encoding="utf-8", buffering=1)
    except OSError as error:
        raise OutputError(f"cannot create {path}: {error.strerror}") from None


def read_lines(file: BinaryIO) -> Iterator[list[Line]]:
    """Lines as they come, as many at once as are there, so that who writes one line and waits gets its translation.

    Of a line that never ends only so much is kept as a line may have; no lines mean that one has not ended yet.
    """
    number, size, rest, is_cut = 0, READ_FIRST, bytearray(), False
    while read := file.read1(size):  # type: ignore[attr-defined]  # a BufferedReader has it
        size = min(2 * size, READ_MOST)
        *lines, end = read.split(b"\n")
        if not lines:
            yield []
        else:
            is_cut = is_cut or len(rest) + len(lines[0]) > LONGEST_LINE
            first = _decode((bytes(rest) + lines[0])[:LONGEST_LINE], number + 1, is_cut)
            rest.clear()
            is_cut = False
            yield [first, *(_decode(line, number + i) for i, line in enumerate(lines[1:], start=2))]
            number += len(lines)
        is_cut = is_cut or len(rest) + len(end) > LONGEST_LINE
        rest += end[: LONGEST_LINE - len(rest)]
    if rest:
        yield [_decode(bytes(rest), number + 1, is_cut)]


def is_waiting(file: BinaryIO) -> bool:
    """Whether reading would not have to wait; where that cannot be told, it would."""
    try:
        return bool(select.select([file], [], [], 0)[0])
    except (OSError, ValueError):
        return False


def _decode(line: bytes, number: int, is_cut: bool = False) -> Line:
    notes, flags = [], ["cut"] if is_cut else []
    line = line.removesuffix(b"\r")
    if number == 1 and (what := detect_binary(line)):
        say(f"standard input {what}")
    if number == 1 and line.startswith(BYTE_ORDER_MARK):
        line = line.removeprefix(BYTE_ORDER_MARK)
        notes.append("byte_order_mark")
    try:
        text = Line(line.decode())
    except UnicodeDecodeError:
        text = Line(line.decode(errors="replace"))
        flags.append("invalid_characters")
    text.notes, text.flags = tuple(notes), tuple(flags)
    return text


def printable(text: str) -> str:
    """A text on one line, with what cannot be seen, or turns the line round, by its number."""
    return "".join(c if c.isprintable() else f"U+{ord(c):04X}" for c in text)


def named(words: tuple[str, ...]) -> str:
    """Words as they can be shown: not too many, not endless, and what cannot be seen, or turns the line round, by its number."""
    cut = [
        word[:LONGEST_NAMED] + ("..." if len(word) > LONGEST_NAMED else "")
        for word in words[:MOST_NAMED]
    ]
    more = f" and {len(words) - MOST_NAMED:,} more" if len(words) > MOST_NAMED else ""
    return ", ".join(map(printable, cut)) + more
