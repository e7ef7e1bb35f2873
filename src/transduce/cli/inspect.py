"""`transduce inspect`: look into a model while it translates one text."""

import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rich.console import Console
from typer import Argument, Option

from transduce.cli.arguments import BeamSize, FileOption, JsonOutput, ModelPath
from transduce.cli.output import check_outputs, note, stdout_console, warn, write_page
from transduce.errors import UsageError

if TYPE_CHECKING:
    from transduce.decode.generator import Generator
    from transduce.decode.translator import Translator
    from transduce.inspection.trace import Trace
    from transduce.inspection.views import Selection

DEFAULT_VIEWS = ("steps", "alignment", "why")
DEFAULT_LANGUAGE_MODEL_VIEWS = ("steps", "why")
SVG_WIDTH = 100
MAX_QUOTED = 80  # characters of an edit that a message quotes


def inspect(
    text: Annotated[
        str,
        Argument(metavar="TEXT", help="Text to translate, or to continue with a language model."),
    ],
    model: ModelPath = None,
    view: Annotated[
        list[str] | None,
        Option(
            help="tokens, positions, heads, scores, alignment, probs, beam, steps, layers or why. "
            "Repeatable."
        ),
    ] = None,
    layer: Annotated[int | None, Option(help="Layer to show, from 0.")] = None,
    head: Annotated[int | None, Option(help="Attention head to show, from 0.")] = None,
    step: Annotated[int | None, Option(help="Decoding step to show, from 1.")] = None,
    kind: Annotated[
        Literal["self", "cross", "enc"] | None,
        Option(help="Attention to show: decoder self, decoder cross, or encoder."),
    ] = None,
    beam: BeamSize = None,
    edit: Annotated[
        list[str] | None,
        Option(metavar="JSON", help="Change the computation; see docs/inside.md. Repeatable."),
    ] = None,
    html: Annotated[
        Path | None, FileOption(help="Write an interactive page, complete in one file.")
    ] = None,
    with_model: Annotated[
        bool,
        Option("--with-model", help="With --html: include the model, for other texts and edits."),
    ] = False,
    svg: Annotated[Path | None, FileOption(help="Write the views as an SVG picture.")] = None,
    as_json: JsonOutput = False,
) -> None:
    """Look inside a model while it translates: every number it computes.

    Shows views in the terminal, or writes a page, a picture or JSON.

    \b
    Examples:
      transduce inspect "I love you very much" --view heads --view probs --step 3
      transduce inspect "I love you very much" --html out.html
    """
    if with_model and html is None:
        raise UsageError("--with-model puts the model into a page; add --html FILE")
    if svg is not None and as_json:
        raise UsageError("--svg and --json exclude each other; remove one of them")
    check_outputs((html, svg), (), (model,))
    from transduce.inspection.views import Selection

    selection = Selection(layer, head, step, kind)
    run_inspect(
        model, text, view or (), selection, beam, edit or (), html, with_model, svg, as_json
    )


def run_inspect(
    model: Path | None,
    text: str,
    views: Sequence[str],
    selection: "Selection",
    beam: int | None,
    edits: Sequence[str],
    html: Path | None,
    with_model: bool,
    svg: Path | None,
    as_json: bool,
) -> None:
    """Trace a text and write the requested views, page, picture or JSON."""
    from transduce.decode.load import load
    from transduce.decode.translator import Translator
    from transduce.inspection.edits import parse_edits
    from transduce.inspection.terminal import show
    from transduce.inspection.trace import trace
    from transduce.inspection.views import VIEWS, build_view

    for view in views:
        if view not in VIEWS:
            raise UsageError(f"unknown --view {view!r}; expected one of {', '.join(VIEWS)}")
    worker = load(model, engine="torch")
    found = trace(worker, text, beam=beam, edits=parse_edits([parse_edit(edit) for edit in edits]))
    _show_flags(found.meta.get("doubts", {}))
    if html is not None:
        write_page(html, page(found, worker, model, with_model))
        note(f"wrote {html}")
    if not views and as_json:
        tensors = [
            {"name": name, "shape": list(tensor.shape)} for name, tensor in found.tensors.items()
        ]
        print(json.dumps({"meta": found.meta, "tensors": tensors}, ensure_ascii=False))
        return
    if not views and html is not None and svg is None:
        return
    if not views:
        is_translator = isinstance(worker, Translator)
        views = DEFAULT_VIEWS if is_translator else DEFAULT_LANGUAGE_MODEL_VIEWS
    elements = [element for view in views for element in build_view(found, view, selection)]
    if as_json:
        print(json.dumps([element.as_dict() for element in elements], ensure_ascii=False))
    elif svg is not None:
        console = Console(
            record=True,
            file=io.StringIO(),
            color_system="truecolor",
            no_color=False,
            width=SVG_WIDTH,
        )
        show(elements, console)
        picture = console.export_svg(title=f"transduce inspect {text!r}")
        # Use the fonts of the reader instead of fetching one.
        write_page(svg, re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL))
    else:
        show(elements, stdout_console())


def _show_flags(found: Mapping[str, Any]) -> None:
    """Print a warning for each quality flag of the trace."""
    from transduce.decode.quality import explain_flag

    unseen, unknown = found.get("unseen", ()), found.get("unknown", ())
    flags = []
    if unseen:
        flags.append("unseen_words")
    if unknown:
        flags.append("unknown_characters")
    if found.get("repeats"):
        flags.append("repetition")
    for flag in flags:
        warn(explain_flag(flag, unseen=unseen, unknown=unknown) or flag)


def parse_edit(edit: str) -> Any:
    """Parse the JSON value of --edit."""
    try:
        return json.loads(edit)
    except (ValueError, RecursionError) as error:  # also integers of 4,301 digits, and deep lists
        quoted = edit if len(edit) <= MAX_QUOTED else f"{edit[:MAX_QUOTED]}..."
        raise UsageError(
            f"--edit {quoted!r} is not JSON: {error}; "
            'expected an object such as {"op": "no_mask"}'
        ) from None


def page(
    found: "Trace", worker: "Translator | Generator", model: Path | None, with_model: bool
) -> str:
    """Return the interactive page, with the film of the training if there is one.

    With the model the page can compute other texts and edits; otherwise it has a few prepared ones.
    """
    from transduce.inspection.branches import make_branches
    from transduce.inspection.page_export import export_html
    from transduce.inspection.page_model import pack_model
    from transduce.training.run_folder import find_film

    film = find_film(model)
    if with_model:
        return export_html(found, weights=pack_model(worker.folder), film=film)
    return export_html(found, branches=make_branches(found), film=film)
