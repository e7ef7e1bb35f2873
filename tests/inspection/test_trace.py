"""Recorded tensors obey the paper's equations and agree with the fast forward pass."""

import html
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from transduce.config import ModelConfig, TextConfig
from transduce.decode.engines.base import SearchInput
from transduce.decode.generator import Generator
from transduce.decode.load import load
from transduce.decode.options import Sampling, TranslateOptions
from transduce.decode.translator import Translator
from transduce.errors import DataError, MissingInputError, TransduceError, UsageError
from transduce.inspection import trace as trace_module
from transduce.inspection.record import heads_per_attention
from transduce.inspection.trace import Trace, load_trace, trace, trace_id
from transduce.model.weights import build
from transduce.model_folder import FolderConfig, ModelFolder
from transduce.text.vocabulary import EOS, Vocabulary

TEXT = "I love you very much"
LONG = f"{TEXT} " * 30
KINDS = [
    ("encoder-decoder", "post", "sinusoidal"),
    ("encoder-decoder", "pre", "learned"),
    ("decoder-only", "pre", "sinusoidal"),
    ("decoder-only", "post", "learned"),
]


def worker_of(
    vocabulary: Vocabulary, kind: str, norm: str, positions: str
) -> Translator | Generator:
    """An untrained model; no two of its dimensions are the same."""
    torch.manual_seed(0)
    shape = {
        "vocab_size": len(vocabulary),
        "n_layers": 2,
        "d_model": 22,
        "d_ff": 37,
        "n_heads": 3,
        "d_k": 7,
        "d_v": 5,
    }
    config = ModelConfig.model_validate(
        {**shape, "kind": kind, "norm": norm, "positions": positions, "window": 31}
    )
    folder_config = FolderConfig(text=TextConfig(vocab_size=len(vocabulary)), model=config)
    folder = ModelFolder(folder_config, build(config).eval(), vocabulary, vocabulary)
    return Translator(folder) if kind == "encoder-decoder" else Generator(folder)


@pytest.fixture(params=KINDS, ids=lambda kind: "-".join(kind))
def worker(request: pytest.FixtureRequest, vocabulary: Vocabulary) -> Translator | Generator:
    return worker_of(vocabulary, *request.param)


@pytest.fixture(scope="module")
def builtin() -> Translator:
    return load(engine="torch")


@pytest.fixture(scope="module")
def built(builtin: Translator) -> Trace:
    return trace(builtin, TEXT)


@pytest.fixture(autouse=True)
def _without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def close(a: Tensor, b: Tensor, tolerance: float = 1e-5) -> None:
    assert a.shape == b.shape
    assert float((a - b).abs().max()) <= tolerance


@pytest.mark.parametrize(
    "text", [TEXT, "Your cat is a lovely cat", "The girls did not eat my apples"]
)
def test_the_spelled_out_pass_agrees_with_the_search_step_by_step(
    builtin: Translator, text: str
) -> None:
    found = trace(builtin, text, beam=1)
    sentence = SearchInput(tuple(builtin.source_vocabulary.encode(text)))
    moments = list(
        builtin.torch_engine.stream(sentence, TranslateOptions(builtin.settings(beam=1)))
    )
    spelled = torch.log_softmax(found["logits"], dim=-1)
    assert len(moments) == len(spelled)
    for row, moment in zip(spelled, moments, strict=True):
        fast = moment.log_probs[0, 0]
        close(row[fast.isfinite()], fast[fast.isfinite()])
    assert found.meta["target"]["text"] == builtin.translate([text], beam=1)[0].text


def test_the_spelled_out_pass_of_any_shape_agrees_with_the_cache(
    worker: Translator | Generator,
) -> None:
    found = trace(worker, TEXT)
    ids = found.meta["target"]["ids"]
    spelled = torch.log_softmax(found["logits"], dim=-1)
    if isinstance(worker, Translator):
        source = torch.tensor([found.meta["source"]["ids"]])
        cache = worker.model.start(source, torch.ones_like(source, dtype=torch.bool))
    else:
        cache = worker.model.start()
    with torch.inference_mode():
        for t, token in enumerate(ids):
            hidden, cache = worker.model.decode(torch.tensor([[token]]), cache)
            close(spelled[t], torch.log_softmax(worker.model.logits(hidden[0, 0]), dim=-1))


def test_the_trace_of_a_language_model_agrees_with_its_generation(vocabulary: Vocabulary) -> None:
    generator = worker_of(vocabulary, "decoder-only", "pre", "sinusoidal")
    assert isinstance(generator, Generator)
    found = trace(generator, "I love")
    [drawn] = generator.draw(found.meta["target"]["ids"], 1, Sampling(temperature=0.0))
    step = found.meta["steps"][-1]
    assert drawn.id == step["chosen"]
    assert math.exp(drawn.log_prob) == pytest.approx(step["top"][0][3], abs=1e-6)


def test_what_was_recorded_obeys_equation_1_and_section_3_2_2(
    worker: Translator | Generator,
) -> None:
    found = trace(worker, TEXT)
    model: Any = worker.model
    for at in heads_per_attention(model):
        stack, number, kind = at.split(".")
        layer = (model.encoder if stack == "enc" else model.decoder.layers)[int(number)]
        attention = getattr(layer, f"{kind}_attention")
        q, k, v, raw, weights, heads = (
            found[f"{at}.{name}"] for name in ("q", "k", "v", "raw", "weights", "heads")
        )
        read = found["enc.out"] if kind == "cross" else found[f"{at}.in"]
        for part, matrix, asked in (
            (q, attention.w_q, found[f"{at}.in"]),
            (k, attention.w_k, read),
            (v, attention.w_v, read),
        ):
            close(part.transpose(0, 1).flatten(1), matrix(asked))
        close(raw, q @ k.transpose(1, 2))
        close(found[f"{at}.scaled"], raw / math.sqrt(7))
        masked = found[f"{at}.masked"]
        is_hidden = (
            torch.ones_like(raw, dtype=torch.bool).triu(1)
            if (stack, kind) == ("dec", "self")
            else raw != raw
        )
        assert torch.equal(masked == float("-inf"), is_hidden)
        close(weights, torch.softmax(masked, dim=-1))
        close(heads, weights @ v)
        close(found[f"{at}.out"], attention.w_o(heads.transpose(0, 1).flatten(1)))
        alone = [
            attention.w_o(torch.nn.functional.pad(heads[h], (5 * h, 10 - 5 * h))).norm(dim=-1)
            for h in range(3)
        ]
        close(found[f"{at}.wrote"], torch.stack(alone))


def test_residuals_norms_and_feed_forward_are_figure_1(worker: Translator | Generator) -> None:
    found = trace(worker, TEXT)
    model: Any = worker.model
    is_pre = model.config.norm == "pre"
    for stack, layers in (("enc", getattr(model, "encoder", [])), ("dec", model.decoder.layers)):
        if not len(layers):
            continue
        x = found["src.x" if stack == "enc" else "tgt.x"]
        for number, layer in enumerate(layers):
            for kind, part in (
                ("self", "self_attention"),
                ("cross", "cross_attention"),
                ("ff", "feed_forward"),
            ):
                at = f"{stack}.{number}.{kind}"
                if f"{at}.in" not in found.tensors:
                    continue
                norm = getattr(layer, f"{part}_norm").norm
                close(found[f"{at}.in"], norm(x) if is_pre else x)
                close(found[f"{at}.add"], x + found[f"{at}.out"])
                x = found[f"{at}.add"] if is_pre else norm(found[f"{at}.add"])
                close(found[f"{at}.norm"], x)
            hidden = found[f"{stack}.{number}.ff.hidden"]
            assert float(hidden.min()) >= 0
            close(hidden, layer.feed_forward.w_1(found[f"{stack}.{number}.ff.in"]).relu())
            close(found[f"{stack}.{number}.ff.out"], layer.feed_forward.w_2(hidden))
        final = model.encoder_norm if stack == "enc" else model.decoder.norm
        close(found[f"{stack}.out"], final(x))
    close(found["logits"], found["dec.out"] @ model.logit_weight.T)
    close(found["lens.1"], found["logits"])
    close(found["probs"], torch.softmax(found["logits"], dim=-1))


def test_positions_and_embeddings_add_up(worker: Translator | Generator) -> None:
    found = trace(worker, TEXT)
    table = (
        worker.model.embedding if isinstance(worker, Generator) else worker.model.source_embedding
    )
    side, name = ("tgt", "target") if isinstance(worker, Generator) else ("src", "source")
    close(found[f"{side}.x"], found[f"{side}.emb"] + found[f"{side}.pos"])
    close(found[f"{side}.emb"], table.weight[found.meta[name]["ids"]] * math.sqrt(22))
    if worker.model.config.positions == "sinusoidal":
        assert float(found[f"{side}.pos"][3, 2]) == pytest.approx(
            math.sin(3 / 10000 ** (2 / 22)), abs=1e-6
        )


def test_the_steps_agree_with_the_logits(built: Trace) -> None:
    assert built.meta["source"]["pieces"] == ["I", "love", "you", "very", "much", "[EOS]"]
    assert built.meta["target"]["pieces"] == ["[SOS]", "Ti", "amo", "molto"]
    assert [built.meta["vocabulary"][step["chosen"]] for step in built.meta["steps"]] == [
        "Ti",
        "amo",
        "molto",
        "[EOS]",
    ]
    for t, step in enumerate(built.meta["steps"]):
        number, token, logit, probability = step["top"][0]
        assert number == int(built["logits"][t].argmax())
        assert token == built.meta["vocabulary"][number]
        assert (logit, probability) == pytest.approx(
            (float(built["logits"][t].max()), float(built["probs"][t].max()))
        )
        assert step["entropy"] == pytest.approx(
            float(torch.distributions.Categorical(built["probs"][t]).entropy()), abs=1e-3
        )
        assert step["rank"] == 0


def test_the_tree_contains_the_whole_search(builtin: Translator, built: Trace) -> None:
    """The best ended node is the translation; scores are sums of log-probabilities."""
    nodes = built.meta["tree"]
    for node in nodes:
        parent = nodes[node["parent"]]["score"] if node["parent"] >= 0 else 0.0
        assert node["score"] == pytest.approx(parent + node["log_prob"], abs=1e-5)
        assert node["normalised"] == pytest.approx(node["score"] / (node["step"] + 1))
        assert node["parent"] < 0 or nodes[node["parent"]]["state"] == "kept"
    best = max(
        (node for node in nodes if node["state"] == "ended"), key=lambda node: node["normalised"]
    )
    chosen = torch.tensor([step["chosen"] for step in built.meta["steps"]])
    total = torch.log_softmax(built["logits"], dim=-1).gather(1, chosen[:, None]).sum()
    assert best["score"] == pytest.approx(float(total), abs=1e-4)
    [translation] = builtin.translate([TEXT])
    assert best["normalised"] == pytest.approx(translation.score, abs=1e-5)
    assert sum(node["state"] == "kept" and node["step"] == 0 for node in nodes) == 4


def test_attention_occlusion_and_gradient_agree_with_computation_by_hand(built: Trace) -> None:
    """Occlusion agrees with hiding by hand; the gradient with a small step along the input."""
    assert built.alignment() == [(0, 1), (1, 1), (2, 0), (3, 2)]
    close(built["align.attention"], built["dec.1.cross.weights"].mean(dim=0))
    worker: Any = built.worker
    source, target = (torch.tensor([built.meta[side]["ids"]]) for side in ("source", "target"))
    mask = torch.ones_like(source, dtype=torch.bool)
    mask[0, 3] = False
    chosen = torch.tensor([step["chosen"] for step in built.meta["steps"]])[:, None]
    with torch.inference_mode():
        without = torch.log_softmax(worker.model(source, mask, target)[0], dim=-1).gather(
            1, chosen
        )[:, 0]
    whole = torch.log_softmax(built["logits"], dim=-1).gather(1, chosen)[:, 0]
    close(built["align.occlusion"][:, 3], (whole - without).clamp(min=0), 1e-4)
    assert int(built["align.occlusion"][2].argmax()) == 3  # molto: very


MUTE = {"op": "mute", "at": "dec.1.cross", "head": 0}


def test_a_mute_head_writes_zeros_and_nothing_before_it_changes(built: Trace) -> None:
    branch = built.edit(MUTE)
    assert torch.count_nonzero(branch["dec.1.cross.heads"][0]) == 0
    close(branch["dec.1.cross.heads"][1:], built["dec.1.cross.heads"][1:], 0)
    check_upstream(built, branch, "dec.1.cross", {"in", "q", "k", "v", "raw", "weights"})


def check_upstream(built: Trace, branch: Trace, at: str, same: set[str]) -> None:
    """Zero up to the place of an edit, not zero after it."""
    difference = built.diff(branch)
    n_zero = 0
    for name, value in difference.items():
        before = (
            name.startswith(("enc.", "src.", "tgt.", "dec.0.", "dec.1.self."))
            if at.startswith("dec.1")
            else False
        )
        if before or (name.startswith(f"{at}.") and name.rpartition(".")[2] in same):
            assert value == 0, name
            n_zero += 1
    assert n_zero > 40
    assert difference[f"{at}.heads"] > 0
    assert difference["logits"] > 0


def test_a_row_set_by_hand_is_that_row(built: Trace) -> None:
    values = [0.0, 0.5, 0.0, 0.0, 0.5, 0.0]
    branch = built.edit({"op": "row", "at": "dec.1.cross", "head": 0, "row": 2, "values": values})
    assert branch["dec.1.cross.weights"][0, 2].tolist() == values
    v = branch["dec.1.cross.v"][0]
    close(branch["dec.1.cross.heads"][0, 2], (v[1] + v[4]) / 2)
    check_upstream(built, branch, "dec.1.cross", {"in", "q", "k", "v", "raw"})
    changed = (built["logits"] - branch["logits"]).abs().amax(dim=1)
    assert changed[2] > 0
    assert changed[[0, 1]].max() == 0  # the steps before know nothing of it


def test_a_short_row_of_the_decoder_is_padded_with_zeros(built: Trace) -> None:
    branch = built.edit(
        {"op": "row", "at": "dec.0.self", "head": 1, "row": 1, "values": [0.25, 0.75]}
    )
    assert branch["dec.0.self.weights"][1, 1].tolist() == [0.25, 0.75, 0, 0]


def test_without_the_scale_the_mask_or_positions(built: Trace) -> None:
    unscaled = built.edit({"op": "no_scale"})
    close(unscaled["enc.0.self.weights"], torch.softmax(unscaled["enc.0.self.raw"], dim=-1))
    close(unscaled["enc.0.self.scaled"], unscaled["enc.0.self.raw"], 0)
    unmasked = built.edit({"op": "no_mask"})
    assert float(unmasked["dec.0.self.weights"].triu(1).sum()) > 0
    assert unmasked["dec.0.self.masked"].isfinite().all()
    assert {
        name: value
        for name, value in built.diff(unmasked).items()
        if name.startswith("enc.") and value
    } == {}
    lost = built.edit({"op": "no_positions"})
    assert torch.count_nonzero(lost["src.pos"]) == torch.count_nonzero(lost["tgt.pos"]) == 0


def test_without_positions_the_encoder_knows_no_order(builtin: Translator) -> None:
    edits = [{"op": "no_positions"}]
    one, other = (
        trace(builtin, text, edits=edits)["enc.out"] for text in (TEXT, "much very you love I")
    )
    close(one[[4, 3, 2, 1, 0, 5]], other, 1e-4)
    with_positions = trace(builtin, "much very you love I")["enc.out"]
    assert (
        float((trace(builtin, TEXT)["enc.out"][[4, 3, 2, 1, 0, 5]] - with_positions).abs().max())
        > 0.1
    )


def test_a_language_model_can_be_edited_too(vocabulary: Vocabulary) -> None:
    found = trace(worker_of(vocabulary, "decoder-only", "pre", "learned"), "I love you")
    assert torch.count_nonzero(found.edit({"op": "no_positions"})["tgt.pos"]) == 0
    assert (
        torch.count_nonzero(
            found.edit({"op": "mute", "at": "dec.0.self", "head": 1})["dec.0.self.heads"][1]
        )
        == 0
    )
    assert (
        found.edit({"op": "replace", "word": 1, "with": "see"}).meta["target"]["text"]
        == "I see you"
    )


def test_a_replaced_word_and_a_forced_token_change_the_translation(
    builtin: Translator, built: Trace
) -> None:
    assert (
        built.edit({"op": "replace", "word": 1, "with": "see"}).meta["target"]["text"]
        == "Ti vedo molto"
    )
    aspetto = builtin.target_vocabulary.encode("aspetto")[0]
    forced = built.edit({"op": "force", "step": 1, "piece": aspetto})
    assert forced.meta["target"]["text"] == "Ti aspetto molto"
    assert built.edit({"op": "force", "step": 1, "piece": EOS}).meta["target"]["text"] == "Ti"


def test_an_edit_without_effect_leaves_the_search_result_unchanged(
    builtin: Translator, built: Trace
) -> None:
    """Two roads: with a cache, and reading everything again as edits need it."""
    same = trace(builtin, TEXT, edits=[{"op": "replace", "word": 0, "with": "I"}])
    assert max(built.diff(same).values()) == 0
    for a, b in zip(built.meta["tree"], same.meta["tree"], strict=True):
        assert a["state"] == b["state"]
        assert a["score"] == pytest.approx(b["score"], abs=1e-4)


def test_a_saved_trace_loads_unchanged(built: Trace, tmp_path: Path) -> None:
    built.save(tmp_path / "x.safetensors")
    loaded = load_trace(tmp_path / "x.safetensors")
    assert loaded.meta == json.loads(json.dumps(built.meta))
    assert loaded.tensors.keys() == built.tensors.keys()
    for name, tensor in built.tensors.items():
        assert torch.equal(loaded[name], tensor.half())
    assert loaded.alignment() == built.alignment()
    close(loaded["dec.0.self.masked"].softmax(dim=-1), built["dec.0.self.weights"], 0.05)
    assert trace_id(loaded.meta) == trace_id(built.meta) != trace_id(built.edit(MUTE).meta)
    with pytest.raises(
        UsageError, match=r"loaded from a file has no model; make a new one with transduce\.trace"
    ):
        loaded.edit(MUTE)


def test_in_a_notebook_a_trace_is_its_page_in_a_frame(builtin: Translator, tmp_path: Path) -> None:
    found = trace(builtin, 'I love "><img src=x onerror=alert(1)>')
    shown = found._repr_html_()
    page = re.fullmatch(r'<iframe srcdoc="([^"]*)" style="[^"]*" title="([^"]*)"></iframe>', shown)
    assert page
    assert "<" not in page[1] + page[2]
    found.save(tmp_path / "x.html")
    assert html.unescape(page[1]) == (tmp_path / "x.html").read_text(encoding="utf-8")
    assert html.unescape(page[2]) == found.meta["text"]


def test_tracing_does_not_change_the_model(builtin: Translator) -> None:
    before = {name: weight.clone() for name, weight in builtin.model.named_parameters()}
    state = torch.get_rng_state()
    trace(builtin, TEXT, edits=[MUTE, {"op": "no_positions"}, {"op": "no_mask"}])
    assert torch.equal(state, torch.get_rng_state())
    assert builtin.translate([TEXT])[0].text == "Ti amo molto"
    assert all(
        torch.equal(before[name], weight) for name, weight in builtin.model.named_parameters()
    )


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            {"op": "paint"},
            "unknown edit 'paint'; known: mute, row, no_positions, no_scale, no_mask, "
            "replace, force",
        ),
        ({"op": "mute", "at": "dec.1.cross"}, "edit 'mute': head is None, expected int"),
        (
            {"op": "mute", "at": "dec.1.cross", "head": True},
            "edit 'mute': head is True, expected int",
        ),
        ({"op": "no_mask", "head": 1}, "edit 'no_mask' has no field 'head'"),
        (
            {"op": "mute", "at": "dec.7.cross", "head": 0},
            "no attention 'dec.7.cross' in this model; known: enc.0.self, ",
        ),
        ({"op": "mute", "at": "enc.0.self", "head": 9}, "no head 9; enc.0.self has heads 0 to 3"),
        ({"op": "force", "step": -1, "piece": 5}, "edit 'force': no step -1 or no token 5"),
        ({"op": "force", "step": 9, "piece": 5}, "edit 'force': no step 9; the last step is 3"),
        (
            {"op": "replace", "word": 5, "with": "x"},
            "edit 'replace': no word 5; the text has 5 words",
        ),
        (
            {"op": "row", "at": "enc.0.self", "head": 0, "row": 0, "values": ["a"]},
            "edit 'row': values must be finite numbers",
        ),
        (
            {"op": "row", "at": "enc.0.self", "head": 0, "row": 6, "values": [1] * 6},
            "no row 6; enc.0.self has rows 0 to 5",
        ),
        (
            {"op": "row", "at": "dec.0.self", "head": 0, "row": 0, "values": [1] * 200},
            "200 values; there are at most 129 keys",
        ),
        (
            {"op": "row", "at": "dec.0.cross", "head": 0, "row": 0, "values": [1]},
            "1 values, but dec.0.cross has 6 keys",
        ),
    ],
)
def test_an_invalid_edit_is_refused(builtin: Translator, edit: Any, message: str) -> None:
    with pytest.raises(UsageError) as error:
        trace(builtin, TEXT, edits=[edit])
    assert message in str(error.value)


def test_texts_that_cannot_be_traced_are_refused_with_a_reason(
    builtin: Translator, vocabulary: Vocabulary
) -> None:
    generator = worker_of(vocabulary, "decoder-only", "pre", "learned")
    several = Translator(builtin.folder, builtin.folder)
    cases: list[tuple[type[TransduceError], str, Any]] = [
        (
            DataError,
            "the text has 151 tokens, at most 128 can be traced; shorten it, "
            "the excess begins at 'very",
            (builtin, LONG),
        ),
        (UsageError, "the text is blank; give a text with at least one word", (builtin, " ")),
        (UsageError, "a trace needs a single model in float32; load one model", (several, TEXT)),
        (DataError, "tokens, at most 30 can be traced", (generator, LONG)),
    ]
    for kind, message, arguments in cases:
        with pytest.raises(kind) as error:
            trace(*arguments)
        assert message in str(error.value)
    with pytest.raises(
        UsageError, match="a language model is traced without search; remove the beam"
    ):
        trace(generator, TEXT, beam=3)
    with pytest.raises(UsageError, match="33 edits; combine at most 32"):
        trace(builtin, TEXT, edits=[{"op": "no_mask"}] * 33)
    with pytest.raises(
        UsageError, match="a language model has no source; alignment needs a translation model"
    ):
        trace(generator, TEXT).alignment()


def test_files_that_are_no_traces_are_refused(
    built: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, untrained_folder: ModelFolder
) -> None:
    from safetensors.torch import save_file

    (tmp_path / "text").write_text("hello")
    save_file({"x": torch.zeros(2)}, tmp_path / "other")
    for name, meta in (("deep", "[" * 100_000), ("digits", "9" * 5_000)):
        save_file({"x": torch.zeros(2)}, tmp_path / name, {"transduce.trace": meta})
    for name, kind, message in (
        ("gone", MissingInputError, " does not exist"),
        ("text", DataError, "cannot be read as a trace: "),
        (".", DataError, "cannot be read as a trace: "),
        ("other", DataError, "is not a trace of format 1"),
        ("deep", DataError, "cannot be read as a trace: it is nested too deeply"),
        ("digits", DataError, "cannot be read as a trace: a number has too many digits"),
    ):
        with pytest.raises(kind, match=message):
            load_trace(tmp_path / name)
    with pytest.raises(
        UsageError, match=r"cannot save a trace as 'x\.txt'; use \.safetensors or \.html"
    ):
        built.save(tmp_path / "x.txt")
    with pytest.raises(KeyError, match=r"no tensor 'nothing'; known: align\.attention, "):
        built["nothing"]
    monkeypatch.setattr(trace_module, "MAX_BYTES", 1 << 10)
    with pytest.raises(DataError, match="the trace has 0 MB, more than 0 MB; shorten the text"):
        built.to_bytes()
    with torch.no_grad():
        untrained_folder.model.logit_weight.fill_(float("nan"))
    with pytest.raises(TransduceError, match="the model's scores are NaN"):
        trace(Translator(untrained_folder), TEXT)
