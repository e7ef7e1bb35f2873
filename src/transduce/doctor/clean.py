"""Write the cleaned copy of a corpus, and a log of every dropped pair."""

import errno
import json
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

from transduce.doctor.examination import Diagnosis, Visit, examine
from transduce.doctor.measure import split_parts
from transduce.doctor.repeats import Note
from transduce.errors import OutputError, UsageError
from transduce.text.corpus import Languages, Pair, PairFiles, PairSource, PairTables
from transduce.text.files import COMPRESSED_SUFFIXES
from transduce.text.normalize import CONTROL_CHARACTERS

LOG = "dropped.jsonl"


def write_clean(
    pairs: PairSource,
    folder: Path,
    languages: Languages | None = None,
    held_out: Sequence[PairSource] = (),
    progress: Callable[[int], None] | None = None,
) -> Diagnosis:
    """Examine a corpus and write the usable pairs to a new folder.

    The files keep their names and are not compressed. `dropped.jsonl` has an object per dropped
    pair: file, line, reason, note, source, target. Control characters are removed from the pairs
    that are kept.

    The folder appears when it is complete, and not at all if `reason_not_to_clean` has a reason.
    """
    names = output_names(pairs)
    folder = find_free(folder)
    partial = folder.with_name(f"{folder.name}.partial-{os.getpid()}")
    try:
        partial.mkdir(parents=True)
    except OSError as error:
        raise OutputError(f"cannot create {folder}: {error.strerror}") from None

    try:
        with ExitStack() as stack:
            files = {
                name: stack.enter_context(open_text(partial / name))
                for name in [LOG, *(name for both in names.values() for name in both)]
            }
            diagnosis = examine(pairs, languages, held_out, _make_writer(names, files), progress)
            for file in files.values():
                file.flush()
                os.fsync(file.fileno())

        if reason_not_to_clean(diagnosis) is None:
            if folder.exists():
                folder.rmdir()  # it is empty
            partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return diagnosis


def reason_not_to_clean(diagnosis: Diagnosis) -> str | None:
    """Return why no cleaned copy can be written, or None if it can."""
    if diagnosis.unequal:
        return (
            "files of unequal length cannot be cleaned; "
            "fix the alignment at the place shown and run doctor again"
        )
    if diagnosis.are_swapped:
        return (
            "the two sides look swapped; "
            "exchange --source and --target, or give --languages, and run doctor again"
        )
    if not diagnosis.n_usable:
        return f"none of the {diagnosis.n_pairs:,} pairs is usable; fix the findings of the report"
    return None


def find_free(folder: Path) -> Path:
    """Return the folder with its links followed; raise OutputError unless it is new or empty."""
    target = Path(os.path.realpath(folder))
    if target.is_symlink():
        raise OutputError(f"cannot create {folder}: {os.strerror(errno.ELOOP)}")
    if target.exists() and not target.is_dir():
        raise OutputError(f"{folder} is a file; expected a new folder for the cleaned copy")
    if target.is_dir() and any(target.iterdir()):
        raise OutputError(f"{folder} is not empty; give a new folder for the cleaned copy")
    if target == Path.cwd():  # it would be replaced, and a shell in it would see the old one
        raise OutputError(f"{folder} is the current folder; give a new one for the cleaned copy")
    return target


def output_names(pairs: PairSource) -> dict[str, tuple[str, str]]:
    """Return the names of the two output files for each part of the corpus, by the part's name.

    Parallel files keep their names. A table becomes two files, named by language or by side.
    """
    names: dict[str, tuple[str, str]] = {}
    for part in split_parts(pairs):
        if isinstance(part, PairFiles):
            names[part.name] = (
                _uncompressed_name(part.sources[0]),
                _uncompressed_name(part.targets[0]),
            )
            continue
        stem = "pairs"
        if isinstance(part, PairTables):
            stem = Path(_uncompressed_name(part.paths[0])).stem
        source, target = part.languages or ("source", "target")
        names[part.name] = f"{stem}.{source}", f"{stem}.{target}"

    written = [name for both in names.values() for name in both]
    for name in written:
        if written.count(name) > 1 or name == LOG:
            raise UsageError(
                f"two files of the cleaned copy would be named {name}; "
                "give the input files different names"
            )
    return names


def open_text(path: Path) -> TextIO:
    """Open a UTF-8 file for writing, with line feeds as line ends; escape lone surrogates."""
    return path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n")


def _uncompressed_name(path: Path) -> str:
    return path.stem if path.suffix in COMPRESSED_SUFFIXES else path.name


def _make_writer(names: dict[str, tuple[str, str]], files: dict[str, TextIO]) -> Visit:
    """Return a function that writes each examined pair to its files, or to the log."""

    def write(part: PairSource, line: int, pair: Pair, notes: Sequence[Note]) -> None:
        reasons = [(fault.name, note) for fault, note in notes if fault.is_dropped]
        if reasons:
            reason, note = reasons[0]
            row = {
                "file": part.name,
                "line": line,
                "reason": reason,
                "note": note,
                "source": pair.source,
                "target": pair.target,
            }
            files[LOG].write(json.dumps(row, ensure_ascii=False) + "\n")
            return
        for name, text in zip(names[part.name], (pair.source, pair.target), strict=True):
            files[name].write(CONTROL_CHARACTERS.sub("", text).rstrip("\r") + "\n")

    return write
