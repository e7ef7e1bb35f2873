"""The page of `transduce compare` in a real browser: no requests, fits a phone, text stays text."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Visit
from transduce.evaluation.comparison import Side, compare
from transduce.grammar import generate
from transduce.reports.comparison import N_SHOWN, comparison_page

Open = Callable[..., Visit]
HOSTILE = "</bdi></dl><img src=x onerror=alert(1)><script>alert(2)</script>&amp;"


def make_page(
    systems: dict[str, list[str]], right: list[str], source: list[str], training: Path
) -> str:
    sides: dict[Side, Path] = {"source": training, "reference": training}
    return comparison_page(compare(systems, [right], source=source, training=sides))


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page of 40 sentences and three systems.

    The second system wins the first 20, loses the next 10 and ties the rest; the third is a copy.
    """
    pairs = list(generate("en-it", 40, seed=6))
    source, right = [pair.source for pair in pairs], [pair.target for pair in pairs]
    worse = [f"sempre {line} qui" for line in right]
    best = [*right[:20], *(f"{line} oggi" for line in worse[20:30]), *worse[30:]]
    training = tmp_path_factory.mktemp("training") / "text"
    training.write_text("".join(f"{line}\n" for line in source[:15]))
    return make_page({"first": worse, "best": best, "copy": list(worse)}, right, source, training)


def count(page: Any, selector: str) -> int:
    return int(page.locator(selector).count())


def test_wins_come_before_losses_and_differences_are_marked(content: str, visit: Open) -> None:
    page = visit(content, ready="h1").page
    assert page.inner_text("h1") == "3 systems compared"
    assert "best is better than first: BLEU +" in page.inner_text("main")
    assert (
        "copy does not differ significantly from first: BLEU +0.00, p = 1.0000 by bootstrap"
        in page.inner_text("main")
    )
    assert "By chrF best wins 20 sentences, loses 10 and ties 10." in page.inner_text("main")
    assert "By chrF copy wins 0 sentences, loses 0 and ties 40." in page.inner_text("main")
    assert page.eval_on_selector_all("h3", "all => all.map((h) => h.innerText)")[:2] == [
        "Where best gains most",
        "Where best loses most",
    ]
    gains = [
        float(text)
        for text in page.eval_on_selector_all(".card > p b", "all => all.map((b) => b.textContent)")
    ]
    assert len(gains) == 30
    assert gains[:20] == sorted((gain for gain in gains if gain > 0), reverse=True)
    assert gains[20:] == sorted(gain for gain in gains if gain < 0)
    card = page.locator(".card:has(dl)").first
    assert card.locator("dt").all_inner_texts() == ["source", "reference", "first", "best"]
    assert card.locator("ins").all_inner_texts() == ["sempre", "qui"]
    assert count(page, "main > .card:has(dl)") == 2 * N_SHOWN
    page.locator("summary", has_text="12 more").click()
    assert page.locator("details[open] .card").first.is_visible()


def test_axe_finds_nothing_serious_on_a_screen_and_on_a_phone_in_the_light_and_in_the_dark(
    content: str, visit: Open
) -> None:
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe is not installed"
    )
    for width in (1280, 390):
        page = visit(content, width=width, ready="h1").page
        page.evaluate(
            "document.querySelectorAll('details').forEach((each) => { each.open = true; })"
        )
        page.evaluate((Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
            serious = [v for v in found["violations"] if v["impact"] in ("serious", "critical")]
            assert [(v["id"], [node["target"] for node in v["nodes"]]) for v in serious] == [], (
                width,
                scheme,
            )


def test_a_phone_shows_it_without_panning_and_hostile_text_stays_text(
    visit: Open, tmp_path: Path
) -> None:
    name = f"{HOSTILE} \u202e {'long' * 60}"
    lines = [
        HOSTILE,
        "x" * 3000,
        "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd",
        "Ti amo",
        "\ud800",
        "gi\u0301a\u0300 👩\u200d👧",
    ]
    right = [
        "Ti amo molto",
        HOSTILE,
        "\u05e9\u05dc\u05d5\u05dd",
        "Ti amo",
        "x" * 3000,
        "gi\u0301a\u0300",
    ]
    training = tmp_path / "training"
    training.write_text(HOSTILE)
    content = make_page({name: lines, HOSTILE: right[::-1]}, right, lines[::-1], training)
    page = visit(content.encode(errors="backslashreplace").decode(), width=390, ready="h1").page
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert count(page, "img, script") == 0
    assert HOSTILE in page.locator("bdi").all_inner_texts()
    assert page.inner_text("h1").startswith(f"{HOSTILE} against {HOSTILE}")
