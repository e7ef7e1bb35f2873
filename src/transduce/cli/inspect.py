"""`transduce inspect`: look into a model while it translates one text, in the terminal, as a page, or as numbers."""

import io
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from transduce.cli.translate import DOUBTS, named
from transduce.decode.generator import Generator
from transduce.decode.load import load
from transduce.decode.translator import Translator
from transduce.errors import OutputError, UsageError
from transduce.inspection.branches import make_branches
from transduce.inspection.edits import parse_edits
from transduce.inspection.terminal import show
from transduce.inspection.trace import Trace, trace
from transduce.inspection.views import VIEWS, Selection, build_view
from transduce.storage import replace_file
from transduce.training.run_folder import find_film

DEFAULT = ("steps", "alignment", "why")
SVG_WIDTH = 100


def inspect(
    model: Path | None,
    text: str,
    views: Sequence[str],
    selection: Selection,
    beam: int | None,
    edits: Sequence[str],
    html: Path | None,
    with_model: bool,
    svg: Path | None,
    as_json: bool,
) -> None:
    """Make a trace and show what is asked of it."""
    for view in views:
        if view not in VIEWS:
            raise UsageError(f"--view {view}: there are {', '.join(VIEWS)}")
    worker = load(model, engine="torch")
    found = trace(worker, text, beam=beam, edits=parse_edits([parse_edit(edit) for edit in edits]))
    doubts = found.meta.get("doubts", {})
    words = {name: named(tuple(value)) for name, value in doubts.items() if name != "repeats"}
    for name, kind in (
        ("unseen", "unseen_words"),
        ("unknown", "unknown_characters"),
        ("repeats", "repetition"),
    ):
        if doubts.get(name):
            print(f"transduce: {DOUBTS[kind].format(**words)}", file=sys.stderr)
    if html is not None:
        write(html, page(found, worker, model, with_model))
        print(f"transduce: wrote {html}", file=sys.stderr)
    if not views and as_json:
        tensors = [
            {"name": name, "shape": list(tensor.shape)} for name, tensor in found.tensors.items()
        ]
        print(json.dumps({"meta": found.meta, "tensors": tensors}, ensure_ascii=False))
        return
    if not views and html is not None and svg is None:
        return
    default = DEFAULT if isinstance(worker, Translator) else DEFAULT[::2]
    parts = [part for view in views or default for part in build_view(found, view, selection)]
    if as_json:
        print(json.dumps([part.as_dict() for part in parts], ensure_ascii=False))
    elif svg is not None:
        drawn = Console(
            record=True,
            file=io.StringIO(),
            color_system="truecolor",
            no_color=False,
            width=SVG_WIDTH,
        )
        show(parts, drawn)
        picture = drawn.export_svg(title=f"transduce inspect {text!r}")
        # The reader's own fonts: nothing is fetched.
        write(svg, re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL))
    else:
        show(parts, Console())


def parse_edit(edit: str) -> Any:
    """An edit from the command line."""
    try:
        return json.loads(edit)
    except ValueError as error:
        raise UsageError(f"--edit {edit!r} is not JSON: {error}") from None


def page(found: Trace, worker: Translator | Generator, model: Path | None, with_model: bool) -> str:
    """The page in one file: with the model inside, or else with branches that were made beforehand; and with the film of a run."""
    from transduce.inspection.page_export import export_html
    from transduce.inspection.page_model import pack_model

    film = find_film(model)
    if with_model:
        return export_html(found, weights=pack_model(worker.folder), film=film)
    return export_html(found, branches=make_branches(found), film=film)


def write(path: Path, content: str) -> None:
    """Write a file, whole or not at all."""
    try:
        replace_file(path, content.encode())
    except OSError as error:
        raise OutputError(f"cannot create {path}: {error.strerror}") from None
