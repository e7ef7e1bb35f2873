"""The page of claims in a real browser, on a desk and on a telephone, by day and by night."""

from pathlib import Path
from typing import Any

import pytest

from transduce.claims import claims
from transduce.claims.claim import Result
from transduce.claims.lab import Lab
from transduce.claims.page import claims_page

NAMES = ("causal_mask", "path_length", "sinusoids")


@pytest.fixture(scope="module")
def results() -> dict[str, Result]:
    lab = Lab()
    return {name: claims()[name].run(lab) for name in NAMES}


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_every_claim_is_on_the_page_and_nothing_is_wider_than_the_screen(
    browser: Any, results: dict[str, Result], tmp_path: Path, width: int, scheme: str
) -> None:
    path = tmp_path / "claims.html"
    path.write_text(
        claims_page(results, "One model.", "transduce claims", "2026-11-17"), encoding="utf-8"
    )
    context = browser.new_context(
        viewport={"width": width, "height": 900}, offline=True, color_scheme=scheme
    )
    page = context.new_page()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(path.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for name in NAMES:
        section = page.locator(f"section#{name}")
        assert claims()[name].statement in section.inner_text()
        assert results[name].says in section.inner_text()
        box = section.locator("svg").first.bounding_box()
        assert 0 <= box["x"] <= box["x"] + box["width"] <= width
        page.locator(f'a[href="#{name}"]').click()
    assert requests == [path.as_uri()]
    context.close()
