"""Terminal views: numbers equal the trace, lines fit, no control characters reach the terminal."""

import io
import json
import re
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from tests.inspection.test_trace import TEXT, worker_of
from transduce.decode.load import load
from transduce.errors import UsageError
from transduce.inspection.terminal import Grid, Listing, clean, padded, paint, percent, show
from transduce.inspection.trace import Trace, trace
from transduce.inspection.views import VIEWS, Selection, build_view
from transduce.text.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def built() -> Trace:
    return trace(load(engine="torch"), TEXT)


@pytest.fixture(scope="module")
def reader(vocabulary: Vocabulary) -> Trace:
    return trace(worker_of(vocabulary, "decoder-only", "pre", "sinusoidal"), TEXT)


def shown(parts: list[Any], width: int = 80, **options: Any) -> str:
    console = Console(file=io.StringIO(), width=width, **options)
    show(parts, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def grid(parts: list[Any], number: int = 0) -> Grid:
    assert isinstance(parts[number], Grid)
    return parts[number]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("width", [40, 80, 200])
def test_every_view_fits_and_is_plain_without_colour(
    built: Trace, reader: Trace, view: str, width: int
) -> None:
    for found in (built, reader):
        if found is reader and view in ("alignment", "beam"):
            continue
        text = shown(build_view(found, view, Selection()), width)
        assert "\x1b" not in text
        assert max(cell_len(line) for line in text.splitlines()) <= width
        assert len(text.split()) > 10
        json.dumps(
            [part.as_dict() for part in build_view(found, view, Selection())], allow_nan=False
        )


def test_color_is_used_only_where_it_is_enabled(built: Trace) -> None:
    parts = build_view(built, "alignment", Selection())
    assert ";48;2;" in shown(parts, color_system="truecolor", force_terminal=True)
    without = shown(parts, color_system="truecolor", force_terminal=True, no_color=True)
    assert "48;2;" not in without
    assert " 100 " in without  # the numbers are there either way


def test_the_heat_map_has_the_numbers_of_the_trace_in_hundredths_below_their_tokens(
    built: Trace,
) -> None:
    lines = shown(build_view(built, "alignment", Selection())).splitlines()
    ends = {piece: lines[1].index(piece) + len(piece) for piece in built.meta["source"]["pieces"]}
    for t, line in enumerate(lines[2:6]):
        assert line.startswith(("Ti", "amo", "molto", "[EOS]")[t])
        for s, end in enumerate(ends.values()):
            assert int(line[end - 3 : end]) == round(100 * float(built["align.attention"][t, s]))


def test_plus_is_blue_and_minus_is_orange_as_on_the_page() -> None:
    assert paint(1.0, False) == paint(1.0, True) == "#ffffff on rgb(33,102,172)"
    assert paint(-1.0, False) == "#ffffff on rgb(179,88,6)"
    assert [percent(p) for p in (0.0, 2e-5, 4e-4, 0.0123, 0.5, 1.0)] == [
        "0 %",
        "< 0.01 %",
        "0.04 %",
        "1.2 %",
        "50 %",
        "100 %",
    ]


def test_columns_that_do_not_fit_follow_below(built: Trace) -> None:
    text = shown(build_view(built, "scores", Selection(kind="enc"))[:1], 24)
    assert len(re.findall(r"-?\d+\.\d", text)) == 6 * 6
    assert text.count("\nlove ") == 2


def test_the_stages_of_the_scores_are_the_tensors(built: Trace) -> None:
    parts = build_view(built, "scores", Selection(layer=0, head=1, kind="self"))
    for part, name in zip(parts, ("raw", "scaled", "masked", "weights", "heads"), strict=True):
        assert part.title.startswith("decoder layer 1, masked self-attention, head 2: ")
        assert part.title.endswith(f"(dec.0.self.{name}[1])")
    assert grid(parts).rows == ["[SOS] -> Ti", "Ti -> amo", "amo -> molto", "molto -> [EOS]"]
    for part, name in zip(parts, ("raw", "scaled", "masked", "weights", "heads"), strict=True):
        assert isinstance(part, Grid)
        values = torch.tensor(part.values)
        assert torch.allclose(values, built[f"dec.0.self.{name}"][1], atol=1e-5)
    masked = parts[2].as_dict()["values"]
    assert masked[0][1:] == [None, None, None]
    assert "-inf" in shown(parts)


def test_heads_are_side_by_side(built: Trace) -> None:
    text = shown(build_view(built, "heads", Selection()))
    [first] = [line for line in text.splitlines() if "layer 1 head 1" in line]
    assert [f"layer 1 head {h}" in first for h in range(1, 5)] == [True] * 4
    assert "cross-attention, in tenths" in text
    assert "amo -> molto" in text
    titles = [
        part.title for part in build_view(built, "heads", Selection(layer=1, head=2, kind="enc"))
    ]
    assert titles == ["self-attention, in tenths", "layer 2 head 3"]
    colored = shown(
        build_view(built, "heads", Selection()), color_system="truecolor", force_terminal=True
    )
    assert "\x1b[" in colored


def test_the_listings_agree_with_the_steps(built: Trace) -> None:
    [listing] = build_view(built, "probs", Selection(step=3))
    assert isinstance(listing, Listing)
    assert listing.title == "step 3: molto"
    assert listing.rows[0][0] == "molto"
    assert len(build_view(built, "probs", Selection())) == 4
    text = shown(build_view(built, "steps", Selection()), 100)
    assert "3  [SOS] Ti amo        molto    molto 90 %  bene 0.02 %" in text
    [steps] = build_view(built, "steps", Selection(step=3))
    assert isinstance(steps, Listing)
    probs = built["probs"][2]
    assert steps.columns[-1] == "bits"
    assert steps.rows[0][-1] == pytest.approx(
        float(-(probs * probs.clamp(min=1e-12).log2()).sum()), abs=1e-3
    )
    [why] = build_view(built, "why", Selection(step=3))
    assert isinstance(why, Listing)
    less = float(f"{built['align.occlusion'][2].max().exp():.2g}")
    said = f'it looked 100 % at "very"; hiding "very" makes "molto" {less:,.0f} times less likely; '
    assert why.rows == [[3, said + '"molto" got 90 %, "bene" 0.02 %']]
    [lens] = build_view(built, "layers", Selection(step=3))
    assert isinstance(lens, Listing)
    assert lens.rows[0][3] == [
        ["molto", pytest.approx(built.meta["steps"][2]["top"][0][3], abs=1e-6)]
    ]
    [tree] = build_view(built, "beam", Selection())
    assert isinstance(tree, Listing)
    assert len(tree.rows) == len(built.meta["tree"])
    assert [row[0] for row in tree.rows[:4]] == ["Ti", "  amo", "    molto", "      [EOS]"]


@pytest.mark.parametrize(
    ("view", "selection", "message"),
    [
        ("heads", Selection(layer=2), "--layer 2 is out of range; expected 0 to 1"),
        ("heads", Selection(head=-1), "--head -1 is out of range; expected 0 to 3"),
        ("probs", Selection(step=0), "--step 0 is out of range; expected 1 to 4"),
    ],
)
def test_a_selection_that_is_out_of_range_is_refused(
    built: Trace, view: str, selection: Selection, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        build_view(built, view, selection)


def test_views_that_need_a_source_are_refused_for_a_language_model(reader: Trace) -> None:
    for view, selection, message in (
        (
            "alignment",
            Selection(),
            "a language model has no source; alignment needs a translation model",
        ),
        ("beam", Selection(), "a language model is traced without search; --view beam needs"),
        (
            "heads",
            Selection(kind="cross"),
            "--kind cross: a language model has only self-attention; use --kind self",
        ),
    ):
        with pytest.raises(UsageError, match=message):
            build_view(reader, view, selection)


@given(st.text(max_size=30), st.integers(2, 20), st.sampled_from("<>"))
def test_a_label_always_has_its_width_in_cells(text: str, width: int, side: str) -> None:
    assert cell_len(padded(text, width, side)) == width


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert clean("\x1b[31mred\x07\x9b\u202e") == "\ufffd[31mred\ufffd\ufffd\ufffd"
    hostile = "\x1b]0;title\x07[bold]x[/bold]"
    parts = [
        Grid(hostile, [hostile], [hostile, "b"], [[0.5, 1.0]]),
        Listing(hostile, ["a"], [[hostile]]),
    ]
    text = shown(parts)
    assert "\x1b" not in text
    assert "[bold]x[/bold]" in text
