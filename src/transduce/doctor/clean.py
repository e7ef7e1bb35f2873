"""The cleaned copy of a corpus: whole or not at all, with a log of every pair that was left out."""

import json
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

from transduce.doctor.examination import Diagnosis, Visit, examine
from transduce.doctor.measure import parts_of
from transduce.doctor.repeats import Note
from transduce.errors import OutputError, UsageError
from transduce.text.corpus import Languages, Pair, PairFiles, PairSource, PairTables
from transduce.text.files import PACKED
from transduce.text.normalize import CONTROL_CHARACTERS

LOG = "dropped.jsonl"


def write_clean(
    pairs: PairSource,
    folder: Path,
    languages: Languages | None = None,
    held_out: Sequence[PairSource] = (),
    progress: Callable[[int], None] | None = None,
) -> Diagnosis:
    """Examine a corpus and write the pairs worth keeping into a new folder, under the names of its files, unpacked.

    `dropped.jsonl` has an object for each pair left out: file, line, reason, note, source, target. Control characters are taken out
    of what stays. Where `why_no_copy` has a reason, there is no folder in the end.
    """
    names = output_names(pairs)
    check_is_free(folder)
    partial = folder.with_name(f"{folder.name}.partial-{os.getpid()}")
    try:
        partial.mkdir(parents=True)
    except OSError as error:
        raise OutputError(f"{folder} cannot be created: {error.strerror}") from None
    try:
        with ExitStack() as stack:
            files = {
                name: stack.enter_context(open_text(partial / name))
                for name in [LOG, *(name for both in names.values() for name in both)]
            }
            diagnosis = examine(pairs, languages, held_out, _writer(names, files), progress)
            for file in files.values():
                file.flush()
                os.fsync(file.fileno())
        if why_no_copy(diagnosis) is None:
            if folder.exists():
                folder.rmdir()  # it is empty
            partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return diagnosis


def why_no_copy(diagnosis: Diagnosis) -> str | None:
    """The reason why no cleaned copy can be made, if there is one."""
    if diagnosis.unequal:
        return "unequal files cannot be cleaned: put right which lines belong together, at the place shown, and come again"
    if diagnosis.are_swapped:
        return "the two sides look swapped: exchange --source and --target, or give --languages, and come again"
    if not diagnosis.n_usable:
        return f"no pair would be left of {diagnosis.n_pairs:,}"
    return None


def check_is_free(folder: Path) -> None:
    """A copy is written into a new or an empty folder only."""
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file, wanted a new folder for the cleaned copy")
    if folder.is_dir() and any(folder.iterdir()):
        raise OutputError(
            f"{folder} is not empty, and nothing is overwritten: name a new folder for the cleaned copy"
        )


def output_names(pairs: PairSource) -> dict[str, tuple[str, str]]:
    """The names of the two files written for each part: those of its files; a table becomes two files, by language or side."""
    names: dict[str, tuple[str, str]] = {}
    for part in parts_of(pairs):
        if isinstance(part, PairFiles):
            names[part.name] = _bare(part.sources[0]), _bare(part.targets[0])
        else:
            stem = Path(_bare(part.paths[0])).stem if isinstance(part, PairTables) else "pairs"
            source, target = part.languages or ("source", "target")
            names[part.name] = f"{stem}.{source}", f"{stem}.{target}"
    written = [name for both in names.values() for name in both]
    for name in written:
        if written.count(name) > 1 or name == LOG:
            raise UsageError(
                f"two files of the cleaned copy would be called {name}: give the input files different names"
            )
    return names


def open_text(path: Path) -> TextIO:
    """A text file for writing, with line feeds only; half a character becomes its escape."""
    return path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n")


def _bare(path: Path) -> str:
    return path.stem if path.suffix in PACKED else path.name


def _writer(names: dict[str, tuple[str, str]], files: dict[str, TextIO]) -> Visit:
    def visit(part: PairSource, line: int, pair: Pair, notes: Sequence[Note]) -> None:
        reasons = [(fault.name, note) for fault, note in notes if fault.drops]
        if reasons:
            reason, note = reasons[0]
            row = {"file": part.name, "line": line, "reason": reason, "note": note}
            row |= {"source": pair.source, "target": pair.target}
            files[LOG].write(json.dumps(row, ensure_ascii=False) + "\n")
            return
        for name, text in zip(names[part.name], (pair.source, pair.target), strict=True):
            files[name].write(CONTROL_CHARACTERS.sub("", text).rstrip("\r") + "\n")

    return visit
