"""A real browser, Chromium without a network. Tests are skipped if it is not installed."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from transduce.decode.load import load
from transduce.decode.translator import Translator
from transduce.inspection.page_export import export_html
from transduce.inspection.trace import Trace, trace

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SWITCHES = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
TEXT = "I love you very much"


@dataclass
class Visit:
    """An open page, and what it did that it should not do."""

    page: Any
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("chromium is not installed: the page is not opened in a browser")
    api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: the page is not opened"
    )
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=SWITCHES.split())
        yield browser
        browser.close()


def open_in(
    browser: Any,
    path: Path,
    content: str,
    width: int = 1280,
    ready: str = "#proof[data-count]",
    **options: Any,
) -> Visit:
    """Open a page from disk with the network off; it is there when `ready` is."""
    path.write_text(content, encoding="utf-8")
    context = browser.new_context(viewport={"width": width, "height": 900}, offline=True, **options)
    page = context.new_page()
    found = Visit(page)
    page.on(
        "console", lambda m: found.errors.append(m.text) if m.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: found.errors.append(str(error)))
    page.on("dialog", lambda dialog: (found.errors.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: found.requests.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector(ready, state="attached", timeout=20_000)
    return found


def close(visit: Visit) -> None:
    """At the end nothing may have been asked for but the page itself, and nothing gone wrong."""
    visit.page.context.close()
    assert visit.errors == []
    assert [
        url for url in visit.requests if not url.startswith(("data:", "blob:"))
    ] == visit.requests[:1]


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Visit]]:
    """A way to open pages."""
    visits: list[Visit] = []

    def open_page(content: str, **options: Any) -> Visit:
        visits.append(open_in(browser, tmp_path / f"page{len(visits)}.html", content, **options))
        return visits[-1]

    yield open_page
    for each in visits:
        close(each)


@pytest.fixture(scope="package")
def translator() -> Translator:
    return load(engine="torch")


@pytest.fixture(scope="package")
def traced(translator: Translator) -> Trace:
    return trace(translator, TEXT)


@pytest.fixture(scope="package")
def exported(traced: Trace) -> str:
    return export_html(traced)


@pytest.fixture(scope="package")
def opened(browser: Any, exported: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The exported page, open; those who use it only look, and go to the step they want."""
    visit = open_in(browser, tmp_path_factory.mktemp("page") / "page.html", exported)
    yield visit.page
    close(visit)
