"""What readers need from the page: consistent names, explained numbers and changes, warnings."""

import math
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.conftest import Visit
from tests.browser.test_page import STATIONS, step
from transduce.decode.translator import Translator
from transduce.inspection import branches
from transduce.inspection.branches import make_branches
from transduce.inspection.page_export import export_html
from transduce.inspection.page_model import pack_model
from transduce.inspection.trace import Trace, trace

Open = Callable[..., Visit]
ENTRIES = "#station-try ol.tokens li button"


@pytest.fixture(scope="module")
def made(traced: Trace) -> list[Trace]:
    return make_branches(traced)


@pytest.fixture(scope="module")
def with_branches(traced: Trace, made: list[Trace]) -> str:
    return export_html(traced, branches=made)


def open_branch(page: Any, number: int) -> None:
    """Press a branch in the list, from 0, which is the original."""
    page.locator(ENTRIES).nth(number).click()
    page.locator(f"{ENTRIES}[aria-current=true]").nth(0).wait_for()


def tip_of(page: Any, selector: str, number: int = 0) -> str:
    """What stands beside the pointer when it is on something."""
    page.locator(selector).nth(number).hover(force=True)
    return page.inner_text("#tip")


def signed(text: str) -> float:
    return float(text.replace("\u2212", "-"))


def last_place(text: str) -> float:
    """One unit of the last digit that is shown."""
    digits, _, power = text.partition("e")
    return 10.0 ** (int(power.replace("\u2212", "-") or 0) - len(digits.partition(".")[2]))


def test_one_head_has_one_number_in_names_banner_and_table(
    with_branches: str, made: list[Trace], visit: Open
) -> None:
    page = visit(with_branches).page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    muted = [
        (i, b.meta["edits"][0]["head"])
        for i, b in enumerate(made, 1)
        if b.meta["edits"][0]["op"] == "mute"
    ]
    assert len(muted) == 4
    for i, head in muted:
        name = f"without decoder layer 2, cross-attention, head {head + 1}"
        assert page.locator(ENTRIES).nth(i).inner_text().startswith(name)
        open_branch(page, i)
        assert name in page.inner_text("#top .note")
        assert "dec.1.cross" not in page.inner_text("#top")
        assert f"decoder layer 2, cross-attention, head {head + 1}." in page.inner_text(
            "#try-journey"
        )
        assert (
            page.locator(ENTRIES).nth(i).get_attribute("title") == f"dec.1.cross, head index {head}"
        )
    page.locator("#station-heads .tool", has_text="CSV").click()
    page.locator("#station-heads .tool", has_text="copied").wait_for()
    lines = page.evaluate("navigator.clipboard.readText()").split("\n")
    assert lines[0] == "attention,head,tensor,query,key,weight"
    assert lines[1].startswith('"encoder layer 1, self-attention",1,enc.0.self.weights[0],')


def test_a_branch_reports_where_it_was_changed_and_where_another_token_was_fed_back(
    with_branches: str, made: list[Trace], traced: Trace, visit: Open
) -> None:
    page = visit(with_branches).page
    found = {}
    for i, branch in enumerate(made, 1):
        open_branch(page, i)
        found[i] = page.inner_text("#try-journey")
        edit = branch.meta["edits"][0]
        if edit["op"] == "mute":
            assert "is first seen at the decoder\u2019s cross-attention of layer 2" in found[i]
        rows = page.locator("#try-result [role=grid]").evaluate_all(
            "all => all.map((g) => g.ariaLabel)"
        )
        if edit["op"] == "no_positions":
            assert (
                "made at both embeddings. It is first seen at the encoder\u2019s embedding"
                in found[i]
            )
            assert "5 rows" in rows[0]  # embedding and two sub-layers in each of two layers
            assert "8 rows" in rows[1]  # embedding, three in each, and the logits
        if branch.meta["target"]["ids"] == traced.meta["target"]["ids"]:
            assert "fed back" not in found[i]
    [i] = [i for i, b in enumerate(made, 1) if b.meta["target"]["text"] == "Ti ama molto"]
    assert (
        "another token was written at step 2 (\u201cama\u201d instead of \u201camo\u201d) "
        "and fed back" in found[i]
    )


@pytest.mark.parametrize("is_small", [False, True])
def test_a_branch_keeps_all_stations_and_numbers_and_whoever_opened_it_stays(
    traced: Trace, visit: Open, monkeypatch: pytest.MonkeyPatch, is_small: bool
) -> None:
    if is_small:
        monkeypatch.setattr(branches, "MAX_COMPLETE_BYTES", 0)
    page = visit(export_html(traced, branches=make_branches(traced))).page
    menu = page.locator("#stations a").all_inner_texts()
    assert len(menu) == len(STATIONS)
    top = "document.querySelector('#station-try h3').getBoundingClientRect().top"
    for number in (2, 0, 1):
        open_branch(page, number)
        assert 0 <= page.evaluate(top) < 450
        assert page.locator("#stations a").all_inner_texts() == menu
        assert page.locator("main > section").count() == len(STATIONS)
        left_out = page.locator("section", has_text="does not hold the tensors").count()
        assert (left_out > 0) == (is_small and number > 0)


def test_everything_with_an_explanation_shows_it_beside_the_pointer(opened: Any) -> None:
    page = opened
    step(page, 2)
    for selector in (
        "#why .how",
        "#more .how",
        "#station-sentence table.bars tbody tr",
        "#station-sentence path[data-how]",
        "#station-decoder path[data-how]",
        "#station-qkv rect[data-how]",
        "#station-beam .node",
        "#probabilities tbody tr",
        "#station-lens [data-how]",
    ):
        assert len(tip_of(page, selector)) > 20, selector
    for x in (190, 200):  # a page that still scrolls hides it again
        page.locator("#station-scores canvas").last.hover(position={"x": x, "y": 60})
        page.wait_for_timeout(500)
    assert re.match(r"(enc|dec)\.\d\.\w+\.\w+\[\d, \d, \d+\] = ", page.inner_text("#tip"))
    box = page.evaluate(
        """(() => {
          const box = document.querySelector('#tip').getBoundingClientRect();
          return [box.left, box.right, box.top, box.bottom];
        })()"""
    )
    assert 0 <= box[0] < box[1] <= 1280
    assert 0 <= box[2] < box[3] <= 900
    page.keyboard.press("Escape")
    assert not page.locator("#tip").is_visible()
    page.locator("#why .how").first.focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    assert "the mean of the 4 heads of decoder layer 2, cross-attention" in page.inner_text("#tip")


def test_shown_arithmetic_comes_out_right_from_the_digits_that_are_shown(opened: Any) -> None:
    page = opened
    number = r"(\u2212?\d+(?:\.\d+)?(?:e[\u2212\d]+)?)"
    checks = {
        rf"{number} \u00d7 {number} = {number}": lambda a, b: a * b,
        rf"^{number} \+ {number} = {number}": lambda a, b: a + b,
        rf"^{number} \+ log p\S* {number}.* = {number};": lambda a, b: a + b,
        rf"= {number} / {number} = {number}": lambda a, b: a / b,
        rf"the table holds {number} for this token; "
        rf"times \u221a96 = {number} that is {number}": lambda a, b: a * b,
    }
    seen: dict[str, int] = dict.fromkeys(checks, 0)
    for t in range(4):
        step(page, t)
        page.locator("#station-embedding [role=gridcell]").first.focus()
        for key in ("Control+Home", *["ArrowRight"] * t, *["ArrowDown"] * (t % 3)):
            page.keyboard.press(key)
        for stage in ("raw", "scaled", "weights"):
            page.locator(f"[data-stage={stage}]").click()
            texts = page.evaluate(
                """(() => {
                  const lines = [...document.querySelectorAll('.readout .line')];
                  const tips = [...document.querySelectorAll('[data-how]')];
                  return [
                    ...lines.map((node) => node.textContent),
                    ...tips.flatMap((node) => node.dataset.how.split('\\n')),
                  ];
                })()"""
            )
            for text in texts:
                for pattern, compute in checks.items():
                    for a, b, c in re.findall(pattern, text):
                        assert abs(compute(signed(a), signed(b)) - signed(c)) <= 1.01 * last_place(
                            c
                        ), text
                        seen[pattern] += 1
    assert all(seen.values()), seen


def test_without_the_mask_the_page_explains_its_probabilities(
    with_branches: str, made: list[Trace], visit: Open
) -> None:
    page = visit(with_branches).page
    [i] = [i for i, b in enumerate(made, 1) if b.meta["edits"][0]["op"] == "no_mask"]
    assert "without the mask" not in page.inner_text("#more")
    open_branch(page, i)
    assert "not those with which the sentence was found" in page.inner_text("#more")
    assert "has nothing later to see" in page.inner_text("#station-try")


def test_the_tokens_follow_the_time_bar(opened: Any) -> None:
    for t in (0, 2, 3):
        step(opened, t)
        assert f"What the decoder reads at step {t + 1}: {t + 1} of 4 tokens" in opened.inner_text(
            "#station-tokens"
        )
        assert opened.locator("#station-tokens .token.later").count() == 3 - t


def test_colours_have_a_scale_with_numbers_by_day_by_night_and_for_differences(
    with_branches: str, visit: Open, traced: Trace
) -> None:
    page = visit(with_branches).page
    scale = """() =>
      [...document.querySelectorAll('#station-heads .legend svg text')].map((n) => n.textContent)
    """
    first = "() => document.querySelector('#station-heads .legend rect').getAttribute('fill')"
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_timeout(100)
        assert "dark is much" not in page.inner_text("#station-heads")
        assert page.evaluate(scale) == ["0", "1.000"]
    night = page.evaluate(first)
    page.emulate_media(color_scheme="light")
    page.wait_for_timeout(100)
    assert page.evaluate(first) != night
    open_branch(page, 1)
    page.get_by_label("show the difference from the original").check()
    assert page.evaluate(scale) == ["\u22121.000", "+1.000"]


def test_the_captions_of_heads_are_shares_of_the_same_rows(traced: Trace, opened: Any) -> None:
    told = opened.eval_on_selector_all(
        ".head",
        """all => all.map((button) => [
          button.dataset.place,
          Number(button.dataset.head),
          button.querySelector('.role').textContent,
        ])""",
    )
    counted = 0
    for place, head, role in told:
        weights = traced[f"{place}.weights"][head].half().float()
        start = 1 if place.startswith("dec") and place.endswith("self") else 0
        n = len(weights)
        ahead = {"itself": 0, "the one before": -1, "two before": -2, "the next": 1}
        name, share = (
            (role.rsplit(" ", 2)[0], role.rsplit(" ", 2)[-2]) if "%" in role else (role, "")
        )
        if name in ahead:
            at = [
                float(weights[i, i + ahead[name]]) if 0 <= i + ahead[name] < n else 0.0
                for i in range(start, n)
            ]
        elif name == "[SOS]":
            at = [float(weights[i, 0]) for i in range(start, n)]
        else:
            continue
        assert abs(100 * sum(at) / len(at) - float(share)) <= 0.51, (place, head, role)
        counted += 1
    assert counted >= 6


def test_counts_and_sums_agree_with_each_other(
    traced: Trace, translator: Translator, visit: Open
) -> None:
    page = visit(export_html(traced, weights=pack_model(translator.folder))).page
    hidden = traced["dec.1.ff.hidden"]
    active = int((hidden[2] > 0).sum())
    assert f"{active} of them are active ({100 * active / 256:.0f} %)" in page.text_content(
        "#station-ff"
    )
    assert f"one of {active} of 256 neurons that are active" in page.text_content(
        "#station-ff .readout"
    )
    lengths = [
        float(traced["dec.1.ff.add"][2].sub(traced["dec.1.ff.out"][2]).norm()),
        float(traced["dec.1.ff.out"][2].norm()),
    ]
    assert f"{lengths[1] / lengths[0]:.1f} times as long as the residual" in page.text_content(
        "#norm-said"
    )
    assert "only corrects" not in page.text_content("#station-norm")
    page.select_option("#try-op", "row")
    for head in range(4):
        page.locator("#try-form .control:has(> span:text-is('head')) select").select_option(
            str(head)
        )
        for row in range(4):
            page.locator("#try-form .control:has(> span:text-is('row')) select").select_option(
                str(row)
            )
            assert page.inner_text("#try-form output") == "sum 1.000"


def test_a_change_is_not_made_on_top_of_another_unless_requested(
    traced: Trace, translator: Translator, visit: Open
) -> None:
    page = visit(export_html(traced, weights=pack_model(translator.folder))).page
    for op in ("no_positions", "no_scale"):
        page.select_option("#try-op", op)
        page.click("#try-change")
        page.locator(
            ENTRIES, has_text={"no_positions": "positions", "no_scale": "d_k"}[op]
        ).first.wait_for()
    assert page.evaluate("page.trace.meta.edits") == [{"op": "no_scale"}]
    page.get_by_label("keep the change in view too: without 1/\u221ad_k").check()
    page.select_option("#try-op", "no_mask")
    page.click("#try-change")
    page.locator(ENTRIES, has_text="mask").wait_for()
    assert page.evaluate("page.trace.meta.edits") == [{"op": "no_scale"}, {"op": "no_mask"}]


def test_a_longer_word_gives_maps_with_a_column_for_each_token_and_no_map_of_zeros(
    traced: Trace, translator: Translator, visit: Open
) -> None:
    page = visit(export_html(traced, weights=pack_model(translator.folder))).page
    page.fill("#try-with", "understandable")
    page.click("#try-change")
    page.wait_for_selector("#try-branch")
    n = page.evaluate("page.trace.meta.source.pieces.length")
    assert n > len(traced.meta["source"]["pieces"])
    assert f"{n} columns" in page.locator("#try-result [role=grid]").first.get_attribute(
        "aria-label"
    )
    page.locator(ENTRIES).first.click()
    page.select_option("#try-op", "mute")
    page.click("#try-change")
    page.wait_for_selector("#try-branch")
    assert page.locator("#try-result [role=grid]").count() == 1
    assert "On the source side nothing changed." in page.inner_text("#try-result")


@pytest.mark.parametrize("has_model", [False, True])
def test_unseen_words_byte_tokens_and_repetition_are_reported(
    traced: Trace, translator: Translator, visit: Open, has_model: bool
) -> None:
    text = "I love xyzzy \u2603"
    assert trace(translator, text).meta["doubts"] == {
        "unseen": ["xyzzy", "\u2603"],
        "unknown": ["\u2603"],
        "repeats": False,
    }
    if has_model:
        page = visit(export_html(traced, weights=pack_model(translator.folder))).page
        assert page.locator("#doubts").count() == 0
        page.fill("#try-text", text)
        page.click("#try-translate")
        page.wait_for_selector("#doubts")
    else:
        page = visit(export_html(trace(translator, text))).page
    said = page.inner_text("#doubts")
    assert "The model has not seen \u201cxyzzy\u201d, \u201c\u2603\u201d in training" in said
    assert "Its vocabulary has no token for \u201c\u2603\u201d: written as bytes" in said
    assert "repeats" not in said
    page.evaluate("page.trace.meta.doubts.repeats = true; page.show(page.trace)")
    assert "The translation repeats itself." in page.inner_text("#doubts")


def test_the_first_screen_shows_the_remaining_probability_and_explains_hiding(
    traced: Trace, opened: Any
) -> None:
    step(opened, 2)
    rest = 1 - float(traced["probs"][2].topk(5).values.sum())
    assert re.search(
        rf"other 2,770\s+{100 * rest:.1f} %", opened.inner_text("#station-sentence table.bars")
    )
    said = opened.inner_text("#more")
    assert said.startswith("Hiding a token means that no layer may attend to it.")
    assert "\u201cmuch\u201d no change" in said
    assert math.exp(float(traced["align.occlusion"][2, 4])) < 1.05
    mean = traced["dec.0.cross.weights"][:, 2].mean(0)
    assert (
        f"Layer 1 looked {100 * float(mean.max()):.0f} % at "
        f"\u201c{traced.meta['source']['pieces'][int(mean.argmax())]}\u201d" in said
    )


def test_every_length_penalty_keeps_the_order_of_equal_lengths_and_the_tree_shows_its_scores(
    traced: Trace, opened: Any
) -> None:
    page = opened
    page.locator("#station-beam input[type=range]").fill("0")
    sums = page.locator("#station-beam .node text:nth-of-type(2)").all_text_contents()
    page.locator("#station-beam input[type=range]").fill("1")
    normalised = page.locator("#station-beam .node text:nth-of-type(2)").all_text_contents()
    for node, raw, shown in zip(traced.meta["tree"], sums, normalised, strict=True):
        assert signed(raw) == pytest.approx(node["score"], abs=0.006)
        assert signed(shown) == pytest.approx(node["score"] / (node["step"] + 1), abs=0.006)
    lengths = [node["step"] + 1 for node in traced.meta["tree"] if node["state"] == "ended"]
    text = page.inner_text("#station-beam")
    assert len(lengths) >= 8  # twice the beam: the stop rule
    says_equal = (
        f"All {len(lengths)} have the same length, {lengths[0]}, so no \u03b1 can change" in text
    )
    assert says_equal == (len(set(lengths)) == 1)
