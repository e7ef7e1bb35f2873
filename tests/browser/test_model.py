"""A page that contains its model, opened from disk offline, translates and edits like Python."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.browser.conftest import TEXT, Visit
from transduce.config import ModelConfig
from transduce.decode.generator import Generator
from transduce.decode.translator import Translator
from transduce.grammar import generate
from transduce.inspection.page_export import export_html
from transduce.inspection.page_model import pack_model
from transduce.inspection.trace import Trace, trace
from transduce.model import LanguageModel
from transduce.model_folder import FolderConfig, ModelFolder
from transduce.text.vocabulary import EOS, SOS, Vocabulary

Open = Callable[..., Visit]


@pytest.fixture(scope="module")
def with_model(traced: Trace, translator: Translator) -> str:
    return export_html(traced, weights=pack_model(translator.folder))


def field(page: Any, label: str) -> Any:
    """The choice or the text field with a label."""
    return page.locator(f"#try-form .control:has(> span:text-is('{label}')) :is(select, input)")


def branch(page: Any, number: int) -> Any:
    """A branch in the list, from 0, which is the original."""
    return page.locator("#station-try ol.tokens li button").nth(number)


def change(page: Any, op: str) -> None:
    """Submit the form for a change and wait for the branch."""
    before = page.locator("#station-try ol.tokens li").count()
    page.select_option("#try-op", op)
    page.click("#try-change")
    branch(page, before).wait_for()


def test_its_logits_equal_pytorch_and_it_translates_two_hundred_held_out_sentences_alike(
    visit: Open, with_model: str, translator: Translator
) -> None:
    page = visit(with_model).page
    draw = random.Random(3)
    size = len(translator.source_vocabulary)
    for _ in range(10):
        source = [*(draw.randrange(4, size) for _ in range(draw.randrange(1, 20))), EOS]
        target = [SOS, *(draw.randrange(4, size) for _ in range(draw.randrange(0, 20)))]
        script = "([s, t]) => Array.from(globalThis.page.model.logits(s, t).data)"
        found = torch.tensor(page.evaluate(script, [source, target])).view(len(target), size)
        ids = torch.tensor([source])
        with torch.inference_mode():
            wanted = translator.model(
                ids, torch.ones_like(ids, dtype=torch.bool), torch.tensor([target])
            )[0]
        assert float((found - wanted).abs().max()) < 1e-4
    texts = [pair.source for pair in generate("en-it", 200, seed=31, split="held-out")]
    told = page.evaluate(
        "(texts) => texts.map((text) => globalThis.page.model.translate(text))", texts
    )
    assert told == [each.text for each in translator.translate(texts)]


def test_a_trace_made_in_the_page_has_pythons_numbers(
    visit: Open, with_model: str, translator: Translator
) -> None:
    page = visit(with_model).page
    edits = [{"op": "mute", "at": "dec.1.cross", "head": 0}]
    script = """async ([text, edits]) => {
        const trace = await globalThis.page.ask(text, edits);
        return trace.names().map((name) => [name, Array.from(trace.get(name).data)]);
    }"""
    python = trace(translator, "the cats see the house", edits=edits)
    told = dict(page.evaluate(script, ["the cats see the house", edits]))
    assert told.keys() == python.tensors.keys()
    for name, tensor in python.tensors.items():
        torch.testing.assert_close(
            torch.tensor(told[name]), tensor.float().flatten(), atol=1e-4, rtol=1e-5, msg=name
        )


def test_a_swapped_word_changes_the_translation_and_nothing_before_it(
    visit: Open, with_model: str
) -> None:
    page = visit(with_model).page
    page.select_option("#try-op", "replace")
    field(page, "word").select_option(label="you")
    field(page, "becomes").fill("her")
    page.keyboard.press("Enter")
    page.wait_for_selector("#try-branch")
    assert page.inner_text("#try-parent") == "Ti amo molto"
    assert page.inner_text("#try-branch") == "L'amo molto"
    assert "is first seen at the encoder\u2019s embedding" in page.inner_text("#try-journey")
    assert "her" in page.inner_text("h1")
    branch(page, 0).click()
    assert page.locator("#try-branch").count() == 0
    assert "you" in page.inner_text("h1")


def test_a_mute_head_changes_nothing_before_it(visit: Open, with_model: str) -> None:
    page = visit(with_model).page
    change(page, "mute")
    assert "is first seen at the decoder\u2019s cross-attention of layer 2" in page.inner_text(
        "#try-journey"
    )
    page.click("#try-tensors summary")
    page.wait_for_selector("#try-tensors td")
    rows = page.evaluate(
        """[...document.querySelectorAll('#try-tensors tbody tr')].map((row) =>
          [...row.cells].map((cell) => cell.innerText))"""
    )
    changed = [name for name, most in rows if most != "the same"]
    assert len(rows) == 100
    assert all(
        name.startswith(("dec.1.cross", "dec.1.ff", "dec.out", "logits", "lens.1", "align"))
        for name in changed
    )
    assert "dec.1.cross.heads" in changed
    assert "dec.1.cross.weights" not in changed


def test_every_change_can_be_made_and_undone_by_the_list(
    visit: Open, with_model: str, translator: Translator
) -> None:
    page = visit(with_model).page
    found = {}
    for op in ("no_positions", "no_scale", "no_mask"):
        branch(page, 0).click()
        change(page, op)
        found[op] = page.inner_text("#try-branch")
    assert found == {
        op: trace(translator, TEXT, edits=[{"op": op}]).meta["target"]["text"] for op in found
    }
    branch(page, 0).click()
    page.select_option("#try-op", "force")
    field(page, "step").select_option(index=2)
    page.click("#try-change")
    branch(page, 4).wait_for()
    assert page.inner_text("#try-branch").split()[:2] == ["Ti", "amo"]
    assert page.inner_text("#try-branch") != "Ti amo molto"
    page.select_option("#try-op", "row")
    field(page, "put all on").select_option(label="[EOS]")
    page.click("#try-change")
    branch(page, 5).wait_for()
    assert page.locator("#station-try [aria-current=true]").count() == 1
    page.get_by_role("button", name="back to the original").click()
    assert page.inner_text("#station-try [aria-current=true]").startswith("the original")


def test_a_new_sentence_is_translated_and_hostile_text_stays_text(
    visit: Open, with_model: str, translator: Translator
) -> None:
    page = visit(with_model).page
    for number, text in enumerate(
        ("the white cat sleeps", "</script><img src=x>", "\u0645\u0631\u062d\u0628\u0627 🙂"), 1
    ):
        page.fill("#try-text", text)
        page.click("#try-translate")
        branch(page, number).wait_for()
        assert (
            page.evaluate("globalThis.page.trace.meta.target.text")
            == trace(translator, text).meta["target"]["text"]
        )
    assert page.locator("#main img").count() == 0


def test_a_text_that_is_too_long_is_reported(visit: Open, with_model: str) -> None:
    page = visit(with_model).page
    page.fill("#try-text", "I love you " * 60)
    page.click("#try-translate")
    page.locator("#text-said:not(:empty)").wait_for()
    assert page.inner_text("#text-said").startswith(
        "the text has 181 tokens, at most 128 can be traced"
    )
    assert page.locator("#station-try ol.tokens li").count() == 1


def test_a_page_without_a_model_shows_its_branches_and_explains_why(
    visit: Open, traced: Trace
) -> None:
    without = traced.edit({"op": "no_positions"})
    page = visit(export_html(traced, branches=[without])).page
    assert "This file holds no model" in page.inner_text("#station-try")
    assert page.locator("#try-form").count() == 0
    page.get_by_role("button", name="without positions").click()
    assert page.inner_text("#try-branch") == without.meta["target"]["text"]
    page = visit(export_html(traced)).page
    assert "It holds no branches either" in page.inner_text("#station-try")


def test_axe_finds_nothing_serious_in_a_comparison(visit: Open, with_model: str) -> None:
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe is not installed"
    )
    page = visit(with_model).page
    change(page, "mute")
    page.select_option("#try-op", "row")
    page.click("#try-tensors summary")
    page.evaluate((Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate(
        "axe.run(document.getElementById('station-try'), { resultTypes: ['violations'] })"
    )
    assert [each["id"] for each in found["violations"]] == []


def test_a_language_model_is_read_and_changed_in_the_page_too(
    visit: Open, vocabulary: Vocabulary
) -> None:
    torch.manual_seed(0)
    config = ModelConfig(
        kind="decoder-only", vocab_size=len(vocabulary), n_layers=2, d_model=22, d_ff=37, n_heads=2
    )
    folder = ModelFolder(
        FolderConfig(model=config), LanguageModel(config).eval(), vocabulary, vocabulary
    )
    read = trace(Generator(folder), TEXT)
    page = visit(export_html(read, weights=pack_model(folder))).page
    assert "force" not in page.locator("#try-op option").evaluate_all(
        "(all) => all.map((each) => each.value)"
    )
    change(page, "mute")
    assert page.inner_text("#try-branch") == TEXT
    assert "is first seen at the decoder\u2019s self-attention of layer 2" in page.inner_text(
        "#try-journey"
    )
