"""The page as one file: modules, style and data inside, no address outside, and a policy that lets nothing else run.

ES modules that import other files are not allowed from file://, one inline module is. So each module becomes a function that
returns what it exports, in the order of the imports: named imports of relative paths, one to a line, no cycles.
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
Home = Literal["file", "server"]


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
    """A page that shows a trace, from disk and without a network."""
    data = [_data(trace.to_bytes(), 'id="trace"')]
    data += [_data(each.to_bytes(), 'class="branch"') for each in branches]
    if weights:
        data.append(_data(weights, 'id="weights"'))
    return page_html("file", data, film)


def page_html(kind: Home = "server", data: Sequence[str] = (), film: bytes | None = None) -> str:
    """The page with its modules and style inside; without a trace it asks the server it came from."""
    data = [*data, *([_data(film, 'id="film"')] if film else ())]
    script, style = bundle(), (PAGE / "page.css").read_text(encoding="utf-8")
    connect = "self" if kind == "server" else "none"
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data: blob:; "
        f"connect-src '{connect}'; base-uri 'none'; form-action 'none'"
    )
    home = f'<script type="application/json" id="home">{json.dumps({"kind": kind})}</script>'
    page = (PAGE / "index.html").read_text(encoding="utf-8")
    charset = '<meta charset="utf-8">'
    parts = {
        charset: f'{charset}\n<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<link rel="stylesheet" href="page.css">': f"<style>{style}</style>",
        '<script type="module" src="app.js"></script>': f'<script type="module">{script}</script>',
        "<!-- data -->": "\n".join((home, *data)),
    }
    for old, new in parts.items():
        assert page.count(old) == 1, f"index.html holds {old} once"
        page = page.replace(old, new)
    return page


@cache
def bundle() -> str:
    """All modules as one, each in a scope of its own, what is imported before what imports it."""
    made: dict[Path, str] = {}

    def add(path: Path, above: tuple[Path, ...]) -> str:
        assert path not in above, f"{path.name} imports itself"
        if path not in made:
            source = path.read_text(encoding="utf-8")
            names = {
                other: add((path.parent / other).resolve(), (*above, path))
                for _, other in IMPORT.findall(source)
            }
            body = IMPORT.sub(lambda found: f"const {{{found[1]}}} = {names[found[2]]};", source)
            exported = ", ".join(EXPORT.findall(body))
            assert f"module_{path.stem}" not in made.values(), f"two modules are named {path.stem}"
            body = EXPORT.sub("", body)
            assert not re.search(r"^(import|export)\b", body, re.MULTILINE), (
                f"{path.name}: an import that is not named"
            )
            name = made[path] = f"module_{path.stem}"
            parts.append(f"const {name} = (() => {{\n{body}\nreturn {{ {exported} }};\n}})();\n")
        return made[path]

    parts: list[str] = []
    add((PAGE / "app.js").resolve(), ())
    return "".join(parts).replace("</", "<\\/")


def _data(content: bytes, attributes: str) -> str:
    encoded = base64.b64encode(content).decode("ascii")
    return f'<script type="application/octet-stream;base64" {attributes}>{encoded}</script>'


def _hash(content: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode('ascii')}"
