"""`transduce doctor`: find faults in a corpus."""

import glob
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import Console
from typer import Option

from transduce.cli.arguments import (
    FileNames,
    FileOption,
    JsonFields,
    JsonOutput,
    LanguagePair,
    PairFiles,
    SourceFiles,
    TargetFiles,
    parse_fields,
    parse_files,
    split_two,
)
from transduce.cli.output import check_outputs, log, stderr_console, write_page
from transduce.errors import DataError

if TYPE_CHECKING:
    from transduce.text.corpus import Languages, PairSource


def doctor(
    source: SourceFiles = None,
    target: TargetFiles = None,
    pairs: PairFiles = None,
    fields: JsonFields = None,
    valid_source: Annotated[
        FileNames, FileOption(help="Held-out set that must not be in the corpus. Repeatable.")
    ] = None,
    valid_target: Annotated[FileNames, FileOption(help="Target side of the held-out set.")] = None,
    valid_pairs: Annotated[
        FileNames, FileOption(help="Held-out set with both sides in one file.")
    ] = None,
    languages: LanguagePair = None,
    write: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            help="Write a cleaned copy, and the dropped pairs as dropped.jsonl, to a new folder.",
        ),
    ] = None,
    html: Annotated[Path | None, FileOption(help="Write the report as one page.")] = None,
    as_json: JsonOutput = False,
) -> None:
    """Find what is wrong with a corpus before you train on it. Never changes the input.

    \b
    Examples:
      transduce doctor --source train.en --target train.de --html report.html
      transduce doctor --pairs train.tsv --write cleaned
    """
    from transduce.text.corpus import open_pairs

    field_names = parse_fields(fields, pairs or valid_pairs)
    files = parse_files(source, target, pairs, valid_source, valid_target, valid_pairs)
    check_outputs((html,), [path for names in files for path in _expand(names)])
    source, target, pairs, valid_source, valid_target, valid_pairs = files
    corpus = open_pairs(source, target, pairs, field_names)
    held_out = []
    if valid_source or valid_target:
        held_out.append(open_pairs(valid_source, valid_target))
    if valid_pairs:
        held_out.append(open_pairs(pairs=valid_pairs, fields=field_names))
    names = split_two(languages, "--languages") if languages is not None else None
    run_doctor(corpus, held_out, names, write, html, as_json, stderr_console())


def _expand(names: Sequence[str]) -> list[Path]:
    """Return the files that the names and patterns of an option stand for."""
    return [Path(path) for name in names for path in glob.glob(name, recursive=True) or [name]]


def run_doctor(
    pairs: "PairSource",
    held_out: "Sequence[PairSource]",
    languages: "Languages | None",
    write: Path | None,
    html: Path | None,
    as_json: bool,
    console: Console,
) -> None:
    """Examine a corpus, print the diagnosis, and write the requested page and cleaned copy.

    Raise DataError after printing if the files have unequal lengths or no copy can be written.
    """
    from transduce.doctor import examine, reason_not_to_clean, write_clean
    from transduce.doctor.summary import as_dict, as_text
    from transduce.reports.doctor import doctor_page

    with console.status("reading") as status:

        def progress(n: int) -> None:
            status.update(f"{n:,} pairs examined")

        if write is not None:
            diagnosis = write_clean(pairs, write, languages, held_out, progress)
        else:
            diagnosis = examine(pairs, languages, held_out, progress=progress)

    if html is not None:
        write_page(html, doctor_page(diagnosis))
        log(f"report: {html}")
    summary = json.dumps(as_dict(diagnosis)) if as_json else as_text(diagnosis)
    print(summary, flush=True)

    if write is not None:
        if (reason := reason_not_to_clean(diagnosis)) is not None:
            raise DataError(f"nothing was written to {write}: {reason}")
        n_dropped = diagnosis.n_pairs - diagnosis.n_usable
        log(f"{write}: {diagnosis.n_usable:,} pairs kept, {n_dropped:,} dropped (dropped.jsonl)")
    if diagnosis.unequal:
        raise DataError(
            f"{diagnosis.unequal[0]}; "
            "line n of one must be the translation of line n of the other: "
            "fix the alignment at the place shown"
        )
