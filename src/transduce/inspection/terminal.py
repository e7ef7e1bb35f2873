"""Draw matrices and lists in the terminal, within its width, with colors or digits."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.columns import Columns
from rich.console import Console
from rich.table import Table
from rich.text import Text

# Orange, white, blue, as on the page; distinguishable with color blindness.
LOW, MIDDLE, HIGH = (179, 88, 6), (247, 247, 247), (33, 102, 172)
MAX_COLUMN_LABEL, MAX_ROW_LABEL = 12, 16  # terminal cells
BAR = 24  # terminal cells of a probability of 1


@dataclass(frozen=True, slots=True)
class Grid:
    """A matrix with labelled rows and columns. A small one shows one character for each number."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float]]
    is_small: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return a JSON value; infinity, which JSON lacks, becomes None."""
        values = [[x if math.isfinite(x) else None for x in row] for row in self.values]
        return {"title": self.title, "rows": self.rows, "columns": self.columns, "values": values}

    def text(self, width: int, has_color: bool) -> Text:
        """Draw the grid in `width` terminal cells.

        Columns that do not fit follow below; a small grid omits some of its columns instead.
        """
        finite = [x for row in self.values for x in row if math.isfinite(x)]
        is_share = all(0 <= x <= 1.001 for x in finite)
        most = 1.0 if is_share else max(map(abs, finite), default=0.0) or 1.0
        label = min(MAX_ROW_LABEL, max(map(cell_len, self.rows), default=0))
        text = Text(clean(self.title) + "\n", style="bold", no_wrap=True, overflow="crop")
        n_columns = len(self.values[0])
        if self.is_small:
            # Select pairs of columns, because sine and cosine belong together.
            n_pairs = n_columns // 2
            n_fit = max(2, (width - label - 1) // 2) // 2
            pairs = [2 * (i * n_pairs // n_fit) for i in range(n_fit)] if n_fit < n_pairs else []
            blocks = [[i + j for i in pairs for j in (0, 1)] or list(range(n_columns))]
            widths = [2] * n_columns
            shown = [
                ["" if has_color else symbol(x / most, is_share) for x in row]
                for row in self.values
            ]
        else:
            digits = min(6, max(1, 1 - math.floor(math.log10(most))))
            shown = [
                [f"{100 * x:.0f}" if is_share else f"{x:z.{digits}f}" for x in row]
                for row in self.values
            ]
            least = max(len(x) for row in shown for x in row) + 1
            widths = [
                max(least, min(MAX_COLUMN_LABEL, cell_len(name) + 1)) for name in self.columns
            ]
            if sum(widths) + label + 1 > width:
                widths = [least] * n_columns
            blocks = [list(block) for block in fit(widths, width - label - 1)]
        for block in blocks:
            if not self.is_small:
                text.append(
                    " " * (label + 1)
                    + "".join(padded(self.columns[i], widths[i]) for i in block)
                    + "\n",
                    "dim",
                )
            for name, cells, row in zip(
                self.rows or [""] * len(shown), shown, self.values, strict=True
            ):
                text.append(padded(name, label, "<") + " " if label else "")
                for i in block:
                    text.append(
                        padded(cells[i], widths[i]),
                        paint(row[i] / most, is_share) if has_color else None,
                    )
                text.append("\n")
        return text


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows of values under column names; probabilities of the column `bar` become bars."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    bar: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return a JSON value."""
        return {"title": self.title, "columns": self.columns, "rows": self.rows}

    def table(self) -> Table:
        """Return a table for the terminal."""
        table = Table(
            title=Text(clean(self.title), "bold"), title_justify="left", box=None, pad_edge=False
        )
        for name, sample in zip(self.columns, self.rows[0], strict=True):
            is_number = isinstance(sample, int | float)
            table.add_column(name, header_style="dim", justify="right" if is_number else "left")
        if self.bar:
            table.add_column()
        for row in self.rows:
            cells = [Text(format_value(value)) for value in row]
            if self.bar:
                cells.append(
                    Text("█" * round(BAR * row[list(self.columns).index(self.bar)]), "blue")
                )
            table.add_row(*cells)
        return table


Element = Grid | Listing


def show(parts: Iterable[Element], console: Console) -> None:
    """Print elements one below the other, and small grids without labels side by side."""
    has_color = console.color_system is not None and not console.no_color
    for is_tile, group in groupby(
        parts, key=lambda part: isinstance(part, Grid) and part.is_small and not part.rows
    ):
        drawn = [
            part.text(console.width, has_color) if isinstance(part, Grid) else part.table()
            for part in group
        ]
        for each in [Columns(drawn)] if is_tile else drawn:
            console.print(each, highlight=False)
        console.print()


def fit(widths: Sequence[int], width: int) -> Iterable[Sequence[int]]:
    """Yield blocks of column indices, each at most `width` cells wide."""
    block: list[int] = []
    for i, each in enumerate(widths):
        if block and sum(widths[j] for j in block) + each > width:
            yield block
            block = []
        block.append(i)
    yield block


def padded(text: str, width: int, side: str = ">") -> str:
    """Pad or truncate a text to `width` terminal cells. `side` is the alignment, "<" or ">"."""
    text = clean(text)
    gap = 1 if side == ">" else 0  # between two right-aligned columns
    if cell_len(text) > width - gap:
        text = set_cell_size(text, max(0, width - 1 - gap)) + "…"
    if side == ">":
        return " " * (width - cell_len(text)) + text
    return set_cell_size(text, width)


def clean(text: str) -> str:
    """Replace control characters, which a terminal would interpret."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def symbol(x: float, is_share: bool) -> str:
    """Return one character for a number: tenths of a share, or the sign of other numbers."""
    if is_share and x >= 0.05:
        return str(min(9, int(10 * x + 0.5)))
    if not is_share and abs(x) > 0.3:
        return "+" if x > 0 else "-"
    return "."


def paint(x: float, is_share: bool) -> str:
    """Return the style of a cell: white to blue for shares, else orange over white to blue."""
    end = LOW if x < 0 and not is_share else HIGH
    strength = min(1.0, abs(x))
    r, g, b = (round(m + (e - m) * strength) for m, e in zip(MIDDLE, end, strict=True))
    return f"{'#000000' if strength < 0.6 else '#ffffff'} on rgb({r},{g},{b})"


def percent(p: float) -> str:
    """Return a probability in percent with about two significant digits, as on the page."""
    if 0 < p < 1e-4:
        return "< 0.01 %"
    if p >= 0.1 or p == 0:
        digits = 0
    elif p >= 0.01:
        digits = 1
    else:
        digits = 2
    return f"{100 * p:.{digits}f} %"


def format_value(value: Any) -> str:
    """Return a value of a listing as text. Candidates are pairs of a token and its probability."""
    if isinstance(value, list):
        return "  ".join(f"{clean(token)} {percent(p)}" for token, p in value)
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3f}"
    return clean(str(value))
