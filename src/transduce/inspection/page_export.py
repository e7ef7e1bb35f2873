"""The page as one HTML file with all scripts, styles and data inside.

It loads nothing from elsewhere, and a content security policy with hashes allows only these scripts
and styles.

Browsers refuse ES modules that import other files from file://, but accept one inline module. Each
module is therefore wrapped in a function that returns its exports, in the order of the imports. The
modules must import by name, from relative paths, without cycles.
"""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

PAGE = Path(__file__).with_name("page")
IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", re.MULTILINE)
Origin = Literal["file", "server"]


@runtime_checkable
class Serializable(Protocol):
    """What the page embeds as bytes: a `Trace`, which this module does not import."""

    def to_bytes(self) -> bytes:
        """Return the content of a safetensors file."""
        ...


def export_html(
    trace: Serializable,
    *,
    branches: Sequence[Serializable] = (),
    weights: bytes | None = None,
    film: bytes | None = None,
) -> str:
    """Return a page that shows a trace and needs no server.

    `weights` is a model from `pack_model`, with which the page can trace other texts; `film` is the
    film of the training.
    """
    data = [_data(trace.to_bytes(), 'id="trace"')]
    data += [_data(each.to_bytes(), 'class="branch"') for each in branches]
    if weights:
        data.append(_data(weights, 'id="weights"'))
    return page_html("file", data, film)


def page_html(
    origin: Origin = "server", data: Sequence[str] = (), film: bytes | None = None
) -> str:
    """Return the page with its scripts and styles inside.

    `data` are the elements that hold traces and weights. A page without data requests a trace from
    the server it came from.
    """
    data = [*data, *([_data(film, 'id="film"')] if film else ())]
    script, style = bundle(), (PAGE / "page.css").read_text(encoding="utf-8")
    connect = "self" if origin == "server" else "none"
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        f"img-src data: blob:; connect-src '{connect}'; base-uri 'none'; form-action 'none'"
    )
    home = f'<script type="application/json" id="home">{json.dumps({"kind": origin})}</script>'
    page = (PAGE / "index.html").read_text(encoding="utf-8")
    charset = '<meta charset="utf-8">'
    parts = {
        charset: f'{charset}\n<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<link rel="stylesheet" href="page.css">': f"<style>{style}</style>",
        '<script type="module" src="app.js"></script>': f'<script type="module">{script}</script>',
        "<!-- data -->": "\n".join((home, *data)),
    }
    for old, new in parts.items():
        assert page.count(old) == 1, f"index.html must hold {old} once"
        page = page.replace(old, new)
    return page


@cache
def bundle() -> str:
    """Return all modules as one script: each in its own scope, after those it imports."""
    names: dict[Path, str] = {}  # the variable that holds the exports of a module

    def add(path: Path, importers: tuple[Path, ...]) -> str:
        assert path not in importers, f"{path.name} imports itself"
        if path in names:
            return names[path]

        source = path.read_text(encoding="utf-8")
        imported = {
            other: add((path.parent / other).resolve(), (*importers, path))
            for _, other in IMPORT.findall(source)
        }
        body = IMPORT.sub(lambda found: f"const {{{found[1]}}} = {imported[found[2]]};", source)
        exports = ", ".join(EXPORT.findall(body))
        body = EXPORT.sub("", body)
        rest = re.search(r"^(import|export)\b", body, re.MULTILINE)
        assert rest is None, f"{path.name}: imports and exports must be named"

        name = f"module_{path.stem}"
        assert name not in names.values(), f"two modules are named {path.stem}"
        names[path] = name
        parts.append(f"const {name} = (() => {{\n{body}\nreturn {{ {exports} }};\n}})();\n")
        return name

    parts: list[str] = []
    add((PAGE / "app.js").resolve(), ())
    return "".join(parts).replace("</", "<\\/")


def _data(content: bytes, attributes: str) -> str:
    encoded = base64.b64encode(content).decode("ascii")
    return f'<script type="application/octet-stream;base64" {attributes}>{encoded}</script>'


def _hash(content: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode('ascii')}"
