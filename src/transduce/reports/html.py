"""HTML that all pages share: escaping, the page itself, tables. Pages load and run nothing.

Escaping is done only here: every function escapes its arguments unless they are `Html`. So text of
a corpus can never become markup.
"""

import html
from collections.abc import Iterable, Sequence
from pathlib import Path

STYLE = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


class Html(str):
    """Text that is already HTML. It is not escaped again."""

    __slots__ = ()


def escape(content: object) -> Html:
    """Return content as HTML: `Html` unchanged, anything else as escaped text."""
    return content if isinstance(content, Html) else Html(html.escape(str(content)))


def join(parts: Iterable[object]) -> Html:
    """Concatenate parts, escaping those that are not HTML."""
    return Html("".join(escape(part) for part in parts))


def element(tag: str, *content: object, style: str = "", **attributes: object) -> Html:
    """Return an element. `style` is a class of html.css; an attribute that is None is omitted."""
    given = {"class": style or None, **attributes}
    written = "".join(
        f' {name}="{escape(value)}"' for name, value in given.items() if value is not None
    )
    return Html(f"<{tag}{written}>{join(content)}</{tag}>")


def page(title: str, *content: object) -> str:
    """Return a complete page. Its content security policy forbids scripts and requests."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title>"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<style>\n{STYLE}</style></head>"
        f"<body><main>{join(content)}</main></body></html>\n"
    )


def tiles(items: Iterable[tuple[object, object]]) -> Html:
    """Return a row of large numbers, given as (value, label)."""
    drawn = [
        element("div", element("b", value), element("span", label), style="tile")
        for value, label in items
    ]
    return element("div", *drawn, style="tiles")


def table(
    headers: Sequence[object], rows: Iterable[Sequence[object]], numbers: Iterable[int] = ()
) -> Html:
    """Return a table. The columns in `numbers`, counted from 0, are aligned to the right."""
    is_number = set(numbers)

    def row(tag: str, cells: Sequence[object]) -> Html:
        written = [
            element(tag, cell, style="number" if column in is_number else "")
            for column, cell in enumerate(cells)
        ]
        return element("tr", *written)

    head = element("thead", row("th", headers))
    body = element("tbody", *(row("td", cells) for cells in rows))
    # In the tab order, so that a table wider than the screen can be scrolled by arrow keys.
    return element("div", element("table", head, body), style="scroll", tabindex=0)


def details(summary: object, *content: object, is_open: bool = False) -> Html:
    """Return a section that unfolds at a click on its summary."""
    opening = "<details open>" if is_open else "<details>"
    return Html(f"{opening}{element('summary', summary)}{join(content)}</details>")
