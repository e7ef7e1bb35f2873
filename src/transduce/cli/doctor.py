"""`transduce doctor`: what is wrong with a corpus."""

import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from transduce.doctor import examine, why_no_copy, write_clean
from transduce.doctor.summary import as_dict, as_text
from transduce.errors import DataError, OutputError
from transduce.reports.doctor import doctor_page
from transduce.text.corpus import Languages, PairSource


def run_doctor(
    pairs: PairSource,
    held_out: Sequence[PairSource],
    languages: Languages | None,
    write: Path | None,
    html: Path | None,
    as_json: bool,
    console: Console,
) -> None:
    """Examine a corpus, say what was found, and write what was asked for. Unequal files are told first, and then an error."""
    say = partial(console.print, highlight=False, markup=False)
    if html is not None:
        check_can_write(html)
    with console.status("reading") as status:

        def progress(n: int) -> None:
            status.update(f"{n:,} pairs examined")

        if write is not None:
            diagnosis = write_clean(pairs, write, languages, held_out, progress)
        else:
            diagnosis = examine(pairs, languages, held_out, progress=progress)
    if html is not None:
        html.write_bytes(doctor_page(diagnosis).encode(errors="backslashreplace"))
        say(f"the report is in {html}")
    said = json.dumps(as_dict(diagnosis)) if as_json else as_text(diagnosis)
    sys.stdout.buffer.write(said.encode(errors="backslashreplace") + b"\n")
    sys.stdout.buffer.flush()
    reason = why_no_copy(diagnosis)
    if write is not None and reason is not None:
        raise DataError(f"nothing was written to {write}: {reason}")
    if write is not None:
        n_dropped = diagnosis.n_pairs - diagnosis.n_usable
        say(f"{write}: {diagnosis.n_usable:,} pairs kept, {n_dropped:,} dropped (dropped.jsonl)")
    for unequal in diagnosis.unequal:
        raise DataError(
            f"{unequal}: line n of one must be the translation of line n of the other; put them right at the place shown"
        )


def check_can_write(path: Path) -> None:
    """Before the work: the folder of a file that shall be written is there."""
    if path.is_dir():
        raise OutputError(f"{path} is a folder, wanted the name of a file for the page")
    if not path.parent.is_dir():
        raise OutputError(f"{path} cannot be written: there is no folder {path.parent}")
