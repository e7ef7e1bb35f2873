"""The page in a browser: numbers equal the trace, no requests, accessible to everybody."""

import json
import math
import re
import threading
import time
import xml.etree.ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save
from torch import Tensor

from tests.browser.conftest import TEXT, Visit
from transduce.config import ModelConfig, TextConfig
from transduce.decode.generator import Generator
from transduce.decode.translator import Translator
from transduce.inspection import page_export as export
from transduce.inspection.page_export import PAGE, bundle, export_html, page_html
from transduce.inspection.trace import Trace, trace
from transduce.model.weights import build
from transduce.model_folder import FolderConfig, ModelFolder
from transduce.service.inspector import make_app
from transduce.text.vocabulary import Vocabulary

Open = Callable[..., Visit]
STATIONS = [
    *("sentence", "tokens", "embedding", "qkv", "scores", "heads", "concat", "norm", "ff"),
    *("decoder", "probs", "beam", "lens", "try", "check"),
]
UNFOLD = "document.querySelectorAll('details').forEach((details) => { details.open = true; })"
HOSTILE = "</script><img src=x onerror=alert(1)>"


def step(page: Any, t: int) -> None:
    """Click on a time step; click again if the page moved under the mouse."""
    for _ in range(5):
        page.locator(".said .chip").nth(t).click()
        if page.inner_text("#count").startswith(f"step {t + 1} of"):
            return
    raise AssertionError(f"step {t + 1} cannot be reached: {page.inner_text('#count')}")


def numbers(page: Any) -> list[dict[str, str]]:
    """Return all numbers on the page that name their tensor."""
    return page.evaluate(
        "[...document.querySelectorAll('[data-tensor]')].map((node) => ({ ...node.dataset }))"
    )


def value_of(traced: Trace, name: str, index: str) -> float:
    return float(traced[name][tuple(map(int, index.split(",")))])


def near(a: float, b: float) -> bool:
    """Return whether two numbers are equal within the precision of float16."""
    return a == b or abs(a - b) <= 2**-10 * abs(b) + 2**-24


def test_an_exported_page_is_small_holds_no_address_and_fills_all_stations(
    exported: str, opened: Any
) -> None:
    assert len(exported.encode()) <= 2_000_000
    assert not re.search(r"(?:src|href)\s*=\s*[\"']?\s*(?:https?:)?//", exported, re.IGNORECASE)
    page = opened
    assert [
        s.removeprefix("station-")
        for s in page.eval_on_selector_all("main > section", "all => all.map((s) => s.id)")
    ] == STATIONS
    assert page.locator("details[open]").count() == 0
    for name in ("concat", "norm", "ff"):
        assert not page.locator(f"#station-{name} figure").first.is_visible()
        page.locator(f"#station-{name} summary").press("Enter")
        assert page.locator(f"#station-{name} figure").first.is_visible()
    for name in STATIONS:
        section = page.locator(f"#station-{name}")
        assert section.locator("figure, table, ol, form").count() >= 1, name
        assert len(section.inner_text()) > 100
    blank = """all => all.filter((c) => !c.width || !c.height
      || !c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(Boolean)).length"""
    assert page.eval_on_selector_all("canvas", blank) == 0


def test_the_page_says_why_molto_was_written_and_the_numbers_are_the_models(
    traced: Trace, opened: Any
) -> None:
    page = opened
    step(page, 2)
    said = page.inner_text("#why")
    looked = traced["align.attention"][2]
    harm = math.exp(float(traced["align.occlusion"][2].max()))
    probs = traced["probs"][2]
    assert said.startswith(
        "At step 3 the model had written “Ti amo”. Its last decoder layer looked "
    )
    assert (
        f"looked {100 * float(looked.max()):.0f} % at “very”; hiding “very” makes “molto” " in said
    )
    assert (
        abs(float(re.search(r"([\d,]+) times less likely", said)[1].replace(",", "")) / harm - 1)
        < 0.1
    )  # type: ignore[index]  # it is there
    assert (
        f"It gave “molto” {100 * float(probs.max()):.0f} %, "
        f"next “bene” {100 * float(probs.topk(2).values[1]):.2f} %." in said
    )


def test_every_number_on_the_page_that_names_its_tensor_is_that_of_the_trace(
    traced: Trace, opened: Any
) -> None:
    page = opened
    seen: set[str] = set()
    for t in range(len(traced.meta["steps"])):
        step(page, t)
        for found in numbers(page):
            if found["tensor"] == "tree":
                assert float(found["value"]) == traced.meta["tree"][int(found["index"])]["score"]
            elif re.fullmatch(r"[\w.]+", found["tensor"]):
                wanted = value_of(traced, found["tensor"], found["index"])
                assert (
                    near(float(found["value"]), wanted)
                    or abs(float(found["value"]) - wanted) <= 1e-3
                ), found
                seen.add(found["tensor"].rpartition(".")[2])
    assert {
        "weights",
        "raw",
        "q",
        "v",
        "emb",
        "pos",
        "wrote",
        "heads",
        "norm",
        "hidden",
        "attention",
        "probs",
    } <= seen


def test_probabilities_are_those_of_the_whole_vocabulary_and_follow_the_sliders(
    traced: Trace, opened: Any
) -> None:
    page = opened
    read = """rows => rows.map((row) => [row.querySelector('th').textContent,
      ...[...row.querySelectorAll('.figures')].map((cell) => Number(cell.dataset.value))])"""
    for t in range(len(traced.meta["steps"])):
        step(page, t)
        rows = page.eval_on_selector_all("#probabilities tbody tr", read)
        assert len(rows) == 20
        for (_, piece, logit, p), (shown, shown_logit, shown_p) in zip(
            traced.meta["steps"][t]["top"][:5], rows[:5], strict=True
        ):
            assert shown == piece
            assert near(shown_logit, logit)
            assert abs(shown_p - p) <= 0.01 * p
    step(page, 2)
    sliders = page.locator("#station-probs input[type=range]")
    sliders.nth(0).fill("2")
    first = page.eval_on_selector_all("#probabilities tbody tr", read)[0]
    assert first[2] == pytest.approx(
        float(torch.softmax(traced["logits"][2] / 2, dim=-1).max()), rel=0.01
    )
    sliders.nth(0).fill("1")
    sliders.nth(1).fill("1")  # the two likeliest
    rows = page.eval_on_selector_all("#probabilities tbody tr", read)
    best = traced["probs"][2].topk(2).values
    assert rows[0][2] == pytest.approx(float(best[0] / best.sum()), rel=1e-4)
    assert [row[2] for row in rows[2:]] == [0] * 18
    sliders.nth(1).fill(sliders.nth(1).get_attribute("max"))


def test_the_page_computes_its_numbers_again_and_finds_one_that_is_wrong(
    traced: Trace, opened: Any, visit: Open
) -> None:
    proof = "node => ({ ...node.dataset })"
    found = opened.eval_on_selector("#proof", proof)
    assert int(found["count"]) > 10_000
    assert float(found["weights"]) <= 1e-3
    assert float(found["worst"]) <= 1  # in units of what the rounding to float16 explains
    weights = traced["dec.1.cross.weights"].clone()
    weights[1, 2, 3] -= 0.05
    wrong = Trace(traced.meta, {**traced.tensors, "dec.1.cross.weights": weights})
    found = visit(export_html(wrong)).page.eval_on_selector("#proof", proof)
    assert float(found["worst"]) > 1


def test_the_five_stages_show_what_eq_1_computes_cell_by_cell(traced: Trace, opened: Any) -> None:
    page = opened
    page.locator(".head[data-place='dec.0.self'][data-head='2']").click()
    cell = page.locator("#station-scores [role=gridcell]")
    for stage in ("raw", "scaled", "masked", "weights", "heads"):
        page.locator(f"[data-stage={stage}]").click()
        cell.focus()
        page.keyboard.press("Control+Home")
        wanted = traced[f"dec.0.self.{stage}"][2]
        for i in range(wanted.shape[0]):
            for j in range(min(wanted.shape[1], 5)):
                code = page.locator("#station-scores .readout [data-tensor]")
                assert code.get_attribute("data-index") == f"2,{i},{j}"
                assert near(float(code.get_attribute("data-value")), float(wanted[i, j]))
                page.keyboard.press("ArrowRight")
            page.keyboard.press("Home")
            page.keyboard.press("ArrowDown")


def test_everything_can_be_reached_and_moved_by_keyboard(exported: str, visit: Open) -> None:
    page = visit(exported).page
    reached: list[str] = []
    for _ in range(400):
        page.keyboard.press("Tab")
        where = page.evaluate(
            "document.activeElement.closest('section, nav, #time, body')?.id ?? ''"
        )
        if not where and reached:
            break
        if where and where not in reached:
            reached.append(where)
    assert {f"station-{name}" for name in STATIONS} - set(reached) == set()
    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    step(page, 0)
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#count") == "step 2 of 4"
    page.keyboard.press("ArrowLeft")
    assert page.inner_text("#count") == "step 1 of 4"
    page.locator("#station-decoder [role=gridcell]").nth(1).focus()
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#live") == "Ti, very: hiding “very” does not make “Ti” less likely"
    assert page.inner_text("#count") == "step 1 of 4"  # within a matrix arrows move in the matrix
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.inner_text("#count") == "step 2 of 4"
    page.locator("#play").focus()
    page.keyboard.press("Space")
    page.locator("#count", has_text="step 3 of 4").wait_for()
    page.keyboard.press("Space")
    assert page.locator("#play").get_attribute("aria-pressed") == "false"


def test_axe_finds_nothing_serious_in_the_light_nor_contrasts_too_weak_in_the_dark(
    exported: str, visit: Open
) -> None:
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe is not installed"
    )
    page = visit(exported).page
    page.evaluate(UNFOLD)
    page.evaluate(
        (Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    )  # the policy forbids a script element
    for scheme, rules in (("light", {}), ("dark", {"runOnly": ["color-contrast"]})):
        page.emulate_media(color_scheme=scheme)
        found = page.evaluate(
            "(rules) => axe.run(document, { resultTypes: ['violations'], ...rules })", rules
        )
        serious = [v for v in found["violations"] if v["impact"] in ("serious", "critical")]
        assert [(v["id"], [node["target"] for node in v["nodes"]]) for v in serious] == [], scheme


def test_a_phone_shows_it_all_without_panning_the_page_and_no_letter_is_small(
    exported: str, visit: Open
) -> None:
    page = visit(exported, width=390).page
    page.evaluate(UNFOLD)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    small = """() => [...document.querySelectorAll('body *')].filter((node) =>
      node.offsetParent !== null
      && [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim())
      && parseFloat(getComputedStyle(node).fontSize) < 14)
        .map((node) => node.outerHTML.slice(0, 90))"""
    assert page.evaluate(small) == []


TEXTS = [
    HOSTILE,
    "أحبك كثيرا جدا",
    "我非常爱你",
    "I ❤️ you 👩‍👩‍👧 very much",
    "I lo\u0301ve you\u0308 very much",
]


@pytest.mark.parametrize("text", TEXTS, ids=["hostile", "arabic", "chinese", "emoji", "marks"])
def test_any_text_stays_text(text: str, translator: Translator, visit: Open) -> None:
    found = trace(translator, text, beam=1)
    branches = (
        [found.edit({"op": "replace", "word": 0, "with": HOSTILE})] if text == HOSTILE else []
    )
    page = visit(export_html(found, branches=branches), width=390).page
    assert page.locator("h1 bdi").first.inner_text() == found.meta["source"]["text"]
    assert page.locator("main img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    pieces = page.eval_on_selector_all(
        "#station-tokens figure:first-of-type .token bdi", "all => all.map((b) => b.textContent)"
    )
    assert pieces == found.meta["source"]["pieces"]
    direction = page.eval_on_selector("h1", "node => getComputedStyle(node).direction")
    assert direction == ("rtl" if text.startswith("أ") else "ltr")


def test_each_view_saves_as_svg_and_png_and_copies_as_csv(
    exported: str, traced: Trace, visit: Open
) -> None:
    page = visit(exported).page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    for kind, start in enumerate((b"<svg", b"\x89PNG\r\n\x1a\n")):
        with page.expect_download() as download:
            page.locator("#station-scores figure .tool").nth(kind).click()
        assert Path(download.value.path()).read_bytes().startswith(start)
    # Keep the blobs instead of downloading them: a browser refuses the eleventh download.
    page.evaluate("""() => { window.saved = []; HTMLAnchorElement.prototype.click = () => {};
      URL.createObjectURL = (blob) => { saved.push(blob); return "#"; }; }""")
    figures = page.locator("main figure")
    assert figures.count() >= 18
    for i in range(figures.count()):
        assert figures.nth(i).locator(".tool").all_text_contents() == [
            "save SVG",
            "save PNG",
            "copy CSV",
        ]
    page.eval_on_selector_all(
        "main figure .tool:first-child", "all => all.forEach((button) => button.click())"
    )
    saved = page.evaluate("Promise.all(saved.map((blob) => blob.text()))")
    assert len(saved) == figures.count()
    for text in saved:
        root = xml.etree.ElementTree.fromstring(text)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert len(root) == 3  # paper, title, and the picture
        assert len(root[1].text or "") > 5
        assert sum(1 for _ in root[2].iter()) > 5
    page.locator("#station-scores figure .tool").nth(2).click()
    page.locator("#station-scores .tool", has_text="copied").wait_for()
    lines = page.evaluate("navigator.clipboard.readText()").split("\n")
    assert lines[0] == ",I,love,you,very,much,[EOS]"
    row = [float(cell) for cell in lines[3].split(",")[1:]]
    assert torch.tensor(row) == pytest.approx(traced["dec.1.cross.weights"][0, 2], abs=1e-3)


def test_the_length_penalty_ranks_the_sentences_anew(traced: Trace, opened: Any) -> None:
    page = opened
    ended = [node for node in traced.meta["tree"] if node["state"] == "ended"]
    for alpha in (0.0, 0.6, 2.0):
        page.locator("#station-beam input[type=range]").fill(str(alpha))
        shown = page.eval_on_selector_all(
            "#ranking tbody tr", "rows => rows.map((row) => Number(row.cells[4].dataset.value))"
        )
        assert shown == sorted(shown, reverse=True)
        assert shown == pytest.approx(
            sorted((n["score"] / (n["step"] + 1) ** alpha for n in ended), reverse=True)[:8],
            rel=1e-6,
        )


def test_a_branch_shows_its_difference_from_the_original(traced: Trace, visit: Open) -> None:
    branch = traced.edit({"op": "mute", "at": "dec.1.cross", "head": 0})
    page = visit(export_html(traced, branches=[branch])).page
    page.evaluate("page.show(page.branches[0], page.trace)")
    assert "without decoder layer 2, cross-attention, head 1" in page.inner_text("#top")
    page.get_by_label("show the difference from the original").check()
    page.set_viewport_size({"width": 390, "height": 900})
    page.wait_for_timeout(200)  # it draws again a moment after the width changed
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    most = "(name) => Math.max(...page.tensor(name).data.map(Math.abs))"
    assert page.evaluate(most, "enc.1.self.weights") == 0  # upstream nothing changes
    assert page.evaluate(most, "dec.1.self.weights") == 0
    assert page.evaluate(most, "dec.1.cross.wrote") > 0
    wanted = float((branch["logits"].half().float() - traced["logits"].half().float()).abs().max())
    assert page.evaluate(most, "logits") == pytest.approx(wanted, rel=1e-5)


def large(n_layers: int, n_heads: int, size: int) -> Trace:
    """A trace of a large model on a long text; its numbers are random."""
    draw = torch.Generator().manual_seed(0)
    words = [f"word{i}" for i in range(size)]
    tensors: dict[str, Tensor] = {}
    for place in [
        f"{stack}.{i}.{kind}"
        for i in range(n_layers)
        for stack, kind in (("enc", "self"), ("dec", "self"), ("dec", "cross"))
    ]:
        q, k, v = torch.randn(3, n_heads, size, 8, generator=draw)
        raw = q @ k.mT
        hidden = (
            torch.ones(size, size, dtype=torch.bool).triu(1)
            if place.startswith("dec") and place.endswith("self")
            else None
        )
        scores = (
            raw / math.sqrt(8)
            if hidden is None
            else (raw / math.sqrt(8)).masked_fill(hidden, -math.inf)
        )
        weights = scores.softmax(-1)
        tensors |= {
            f"{place}.{n}": x
            for n, x in {
                "q": q,
                "k": k,
                "v": v,
                "raw": raw,
                "weights": weights,
                "heads": weights @ v,
            }.items()
        }
        tensors[f"{place}.wrote"], tensors[f"{place}.out"] = (
            torch.rand(n_heads, size, generator=draw),
            torch.zeros(size, 8),
        )
    tensors["logits"] = torch.randn(size, size, generator=draw)
    tensors["align.attention"] = tensors[f"dec.{n_layers - 1}.cross.weights"].mean(0)
    tensors["align.occlusion"], tensors["align.gradient"] = torch.rand(
        2, size, size, generator=draw
    )
    tensors |= {f"lens.{i}": tensors["logits"] for i in range(n_layers)}
    side = {
        "ids": list(range(size)),
        "pieces": words,
        "words": list(range(size)),
        "text": " ".join(words),
    }
    model = {
        "kind": "encoder-decoder",
        "n_layers": n_layers,
        "n_heads": n_heads,
        "d_model": 8,
        "vocab_size": size,
        "norm": "post",
        "positions": "sinusoidal",
        "alignment_layer": n_layers - 1,
        "alpha": 1.0,
        "length_penalty": "power",
    }
    steps = [{"chosen": t, "top": [], "entropy": 0.0, "rank": 0} for t in range(size)]
    node = {"id": 0, "piece": "w", "log_prob": -1.0, "normalised": -1.0, "state": "kept"}
    parents = [(8 * (t - 1) if t else -1, t) for t in range(size) for _ in range(8)]
    tree = [{**node, "parent": parent, "step": t, "score": -float(t)} for parent, t in parents]
    meta = {
        "format": 1,
        "text": side["text"],
        "beam": 4,
        "edits": [],
        "tree": tree,
        "source": side,
        "target": side,
        "model": model,
        "steps": steps,
    }
    return Trace({**meta, "vocabulary": words, "neurons": {}}, tensors)


def test_six_layers_of_eight_heads_over_sixty_tokens_are_few_nodes(visit: Open) -> None:
    page = visit(export_html(large(6, 8, 60))).page
    assert page.locator(".head").count() == 6 * 8 * 3
    assert page.evaluate("document.querySelectorAll('*').length") < 20_000
    step(page, 41)
    assert page.inner_text("#count") == "step 42 of 60"
    assert page.evaluate("document.querySelectorAll('*').length") < 20_000
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert float(page.get_attribute("#proof", "data-worst")) <= 1


def test_a_language_model_has_no_source_and_no_station_that_needs_one(
    vocabulary: Vocabulary, visit: Open
) -> None:
    torch.manual_seed(0)
    config = ModelConfig(
        vocab_size=len(vocabulary),
        n_layers=2,
        d_model=16,
        d_ff=23,
        n_heads=2,
        kind="decoder-only",
        window=31,
        norm="pre",
    )
    folder = ModelFolder(
        FolderConfig(text=TextConfig(vocab_size=len(vocabulary)), model=config),
        build(config).eval(),
        vocabulary,
        vocabulary,
    )
    found = trace(Generator(folder), TEXT)
    page = visit(export_html(found)).page
    shown = page.eval_on_selector_all("main > section", "all => all.map((s) => s.id.slice(8))")
    assert shown == [name for name in STATIONS if name != "beam"]
    assert page.inner_text("#why").startswith("At step 3 the model had read “")
    assert page.locator("#station-decoder [role=grid]").count() == 0
    assert float(page.get_attribute("#proof", "data-worst")) <= 1


def test_the_film_of_a_training_is_shown_frame_by_frame(traced: Trace, visit: Open) -> None:
    weights = {
        f"{n}.dec.{i}.cross.weights": torch.full((2, 2, 3), n / 1000).half()
        for n in (100, 200)
        for i in (0, 1)
    }
    frames = [
        {
            "step": n,
            "valid_loss": 300.0 / n,
            "text": f"text {n}",
            "source": ["a", "b", "[EOS]"],
            "target": ["[SOS]", "c"],
            "steps": [{"chosen": 5, "top": [[5, "c", 1.0, n / 1000]], "entropy": 0.0, "rank": 0}]
            * 2,
        }
        for n in (100, 200)
    ]
    page = visit(
        export_html(traced, film=save(weights, {"transduce.film": json.dumps(frames)}))
    ).page
    assert (
        page.inner_text("#film-text")
        == "After 200 training steps it wrote “text 200” (loss 1.500)."
    )
    page.locator("#station-film input[type=range]").fill("0")
    assert (
        page.inner_text("#film-text")
        == "After 100 training steps it wrote “text 100” (loss 3.000)."
    )
    assert page.get_attribute("#station-film .readout [data-tensor]", "data-value") == str(
        float(torch.tensor(0.1).half())
    )


def test_the_page_of_a_server_requests_traces_and_nothing_else(
    browser: Any, translator: Translator
) -> None:
    uvicorn = pytest.importorskip("uvicorn", reason="uvicorn is not installed: no server")
    server = uvicorn.Server(
        uvicorn.Config(make_app(translator), port=0, log_level="warning", ws="none")
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        page = browser.new_page()
        requests: list[str] = []
        errors: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        page.on(
            "console",
            lambda message: errors.append(message.text) if message.type == "error" else None,
        )
        page.goto(address)
        page.get_by_role("textbox").fill("I love you")
        page.keyboard.press("Enter")
        page.wait_for_selector("#proof[data-count]", state="attached")
        assert page.inner_text("h1") == "I love you → Ti amo"
        assert page.url == f"{address}/?text=I+love+you"
        page.select_option("#try-op", "no_positions")
        page.click("#try-change")
        page.wait_for_selector("#try-branch")
        kept, wrote = page.url, page.inner_text("h1")
        page.fill("#try-text", "I see you")  # the field stays
        page.click("#try-translate")
        page.locator("h1", has_text="I see you").wait_for()
        names = page.locator("#station-try ol.tokens li").all_inner_texts()
        assert names[0].startswith("“I love you”: ")
        assert names[1].startswith("“I love you” without positions: ")
        page.goto(kept)
        page.wait_for_selector("#try-branch")
        assert page.inner_text("h1") == wrote
        assert (
            page.locator("#station-try [aria-current=true]")
            .inner_text()
            .startswith("without positions")
        )
        with page.expect_download() as download:
            page.get_by_role("link", name="this trace as one file").click()
        assert b"base64" in Path(download.value.path()).read_bytes()
        assert errors == []
        assert all(url.startswith((f"{address}/", "data:")) for url in requests)
        page.close()
    finally:
        server.should_exit = True
        thread.join()


def test_modules_evaluate_no_text_and_use_no_random_numbers() -> None:
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(|new Function|Math\.random|"
        r"https?://(?!www\.w3\.org/2000/svg)"
    )
    for path in PAGE.rglob("*.js"):
        assert not re.search(forbidden, path.read_text(encoding="utf-8")), path.name


def test_one_module_holds_all_and_no_script_ends_early() -> None:
    assert not re.search(r"^\s*(import|export)\b", bundle(), re.MULTILINE)
    assert "</" not in bundle()
    page = page_html("server")
    assert page.count("<script") == 2  # where it lives, and the module
    assert "connect-src 'self'" in page
    assert "unsafe" not in page.partition("</head>")[0].partition("<style>")[0]


def test_a_module_that_imports_itself_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "app.js").write_text('import { a } from "./b.js";\n')
    (tmp_path / "b.js").write_text('import { c } from "./app.js";\nexport const a = 1;\n')
    monkeypatch.setattr(export, "PAGE", tmp_path)
    with pytest.raises(AssertionError, match=r"app\.js imports itself"):
        bundle.__wrapped__()
