"""The model inside the page computes the same as PyTorch: logits, tokens, translations, traces."""

import json
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.inspection.node import needs_node, run_js, to_tensor
from tests.shapes import Shape, name_of, random_shapes
from transduce.config import DecodeConfig, ModelConfig, TextConfig
from transduce.decode.generator import Generator
from transduce.decode.load import load_translator
from transduce.decode.translator import Translator
from transduce.grammar import generate
from transduce.inspection.page_model import pack_model
from transduce.inspection.trace import Trace, trace
from transduce.model.weights import build
from transduce.model_folder import FolderConfig, ModelFolder
from transduce.text.normalize import normalize
from transduce.text.vocabulary import EOS, SOS, Kind, Vocabulary, learn_vocabulary

pytestmark = needs_node
HOSTILE = [
    "",
    " ",
    "  ",
    "a",
    " leading",
    "trailing ",
    "two  spaces   three",
    "\ttab\tand\rreturn",
    "line\nfeed\n\n",
    "🙂",
    "👩\u200d👩\u200d👧\u200d👦 family 🇮🇹",
    "مرحبا بالعالم",
    "שלום עולם",
    "你好，世界",
    "こんにちは",
    "안녕하세요",
    "e\u0301 cafe\u0301",
    "Z\u0351\u036b\u0313\u036a\u0302\u036b\u033d\u034f\u0334\u0319\u0324\u031e\u0349\u035a\u032f"
    "\u031e\u0320\u034dA\u0334\u0335\u031c\u0330\u0354",
    "a\u0300" * 30,
    "\ufeffmark",
    "\u200bzero\u200dwidth",
    "</script><img onerror=alert(1)>",
    "<0x41><0xE2>",
    "[SOS] [EOS] [UNK]",
    "x\xa0y\u2003z",
    "ﬁ ² ①",
    "\x00\x07\x1b[31mred",
    "\x1c\x1d\x85",
    "I love\u2581you",
    "\u2581",
    "\u2581\u2581 \u2581",
    "\ufdd0\u2581",
    "\U0010ffff",
    "ẞßſ",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "1,234.5 €",
]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return load_translator(engine="torch")


@pytest.fixture(scope="module")
def italian() -> Vocabulary:
    return learn_vocabulary(
        [pair.target for pair in generate("en-it", 200, seed=2)], "unigram", 400
    )


def halved(folder: ModelFolder) -> ModelFolder:
    """A model whose weights are float16 numbers, as in the page."""
    with torch.no_grad():
        for parameter in folder.model.parameters():
            parameter.copy_(parameter.half())
    return folder


def random_folder(
    vocabulary: Vocabulary, target: Vocabulary | None = None, **changes: Any
) -> ModelFolder:
    sizes = {"vocab_size": len(vocabulary), "target_vocab_size": len(target) if target else None}
    shape = {"n_layers": 2, "d_model": 22, "d_ff": 37, "n_heads": 2, "dropout": 0.0}
    config = ModelConfig(**{**shape, **sizes, **changes})
    torch.manual_seed(3)
    model = build(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:  # otherwise all norms are equal and all biases zero
                parameter.add_(torch.randn_like(parameter) * 0.2)
            elif "embedding" in name:
                parameter.mul_(2)  # clear decisions
    settings = FolderConfig(
        text=TextConfig(joint=target is None),
        model=config,
        decode=DecodeConfig(max_length=6, beam=3),
    )
    return halved(ModelFolder(settings, model, vocabulary, target or vocabulary))


def write_weights(folder: ModelFolder, path: Path) -> str:
    content = pack_model(folder)
    (path / "weights.safetensors").write_bytes(content)
    return "weights.safetensors"


def assert_same_meta(ours: Any, theirs: Any, where: str = "meta") -> None:
    """Compare values, numbers within 1e-4; of similar tokens only the cosines, as bytes tie."""
    if where.endswith(".near"):
        ours, theirs = ([[cosine for _, cosine in row] for row in each] for each in (ours, theirs))
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys(), where
        for key in ours:
            assert_same_meta(ours[key], theirs[key], f"{where}.{key}")
    elif isinstance(ours, list):
        assert len(ours) == len(theirs), (where, ours, theirs)
        for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            assert_same_meta(a, b, f"{where}.{i}")
    elif isinstance(ours, float) or isinstance(theirs, float):
        assert ours == pytest.approx(theirs, abs=1e-4), where
    else:
        assert ours == theirs, where


def assert_same_trace(python: Trace, told: Any) -> None:
    """The same names, shapes, numbers within 1e-4, and meta."""
    found = {name: to_tensor(each) for name, each in told["tensors"]}
    assert found.keys() == python.tensors.keys()
    for name, tensor in python.tensors.items():
        assert found[name].shape == tensor.shape, name
        torch.testing.assert_close(
            found[name], tensor.float(), atol=1e-4, rtol=1e-5, msg=lambda m, n=name: f"{n}: {m}"
        )
    assert_same_meta(json.loads(json.dumps(python.meta)), told["meta"])


def traces_in_js(
    folder: ModelFolder, path: Path, asked: list[tuple[str, list[dict[str, Any]], int | None]]
) -> Any:
    script = """
    const model = open(input.weights);
    answer(input.asked.map(([text, edits, beam]) => whole(model.trace(text, edits, beam))));
    """
    return run_js(path, script, {"weights": write_weights(folder, path), "asked": asked})


def test_logits_of_the_built_in_model_equal_pytorch_for_fifty_random_pairs(
    tmp_path: Path, translator: Translator
) -> None:
    draw = random.Random(5)
    size = len(translator.source_vocabulary)

    def some() -> list[int]:
        return [draw.randrange(4, size) for _ in range(draw.randrange(0, 24))]

    pairs = [([*some(), EOS], [SOS, *some()]) for _ in range(50)]
    script = """
    const model = open(input.weights);
    answer(input.pairs.map(([source, target]) => tensor(model.logits(source, target))));
    """
    told = run_js(
        tmp_path, script, {"weights": write_weights(translator.folder, tmp_path), "pairs": pairs}
    )
    with torch.inference_mode():
        for (source, target), each in zip(pairs, told, strict=True):
            ids = torch.tensor([source])
            wanted = translator.model(
                ids, torch.ones_like(ids, dtype=torch.bool), torch.tensor([target])
            )[0]
            assert float((to_tensor(each) - wanted).abs().max()) < 1e-4


@pytest.mark.parametrize("beam", [1, 4])
def test_two_hundred_held_out_sentences_are_translated_alike(
    tmp_path: Path, translator: Translator, beam: int
) -> None:
    texts = [pair.source for pair in generate("en-it", 200, seed=23, split="held-out")]
    script = """
    const model = open(input.weights);
    answer(input.texts.map((text) => model.translate(text, input.beam)));
    """
    asked = {"weights": write_weights(translator.folder, tmp_path), "texts": texts, "beam": beam}
    told = run_js(tmp_path, script, asked)
    assert told == [each.text for each in translator.translate(texts, beam=beam)]


def test_a_trace_of_the_built_in_model_is_the_same_in_python_and_javascript(
    tmp_path: Path, translator: Translator
) -> None:
    texts = ["I love you very much", "the cats 🙂 see Maria"]
    asked: list[Any] = [(text, [], beam) for text in texts for beam in (None, 2)]
    for (text, edits, beam), told in zip(
        asked, traces_in_js(translator.folder, tmp_path, asked), strict=True
    ):
        assert_same_trace(trace(translator, text, beam=beam, edits=edits), told)


@pytest.mark.parametrize(
    "edits",
    [
        [
            {"op": "mute", "at": "dec.1.cross", "head": 0},
            {"op": "mute", "at": "enc.0.self", "head": 3},
        ],
        [{"op": "row", "at": "dec.1.cross", "head": 2, "row": 1, "values": [0, 0, 0, 0, 1, 0]}],
        [{"op": "row", "at": "dec.0.self", "head": 1, "row": 1, "values": [0.5, 0.25, 0.25]}],
        [{"op": "row", "at": "enc.1.self", "head": 0, "row": 0, "values": [0, 0, 0, 0, 0, 1]}],
        [{"op": "no_positions"}],
        [{"op": "no_scale"}],
        [{"op": "no_mask"}],
        [{"op": "replace", "word": 1, "with": "see"}],
        [{"op": "force", "step": 1, "piece": 292}],
        [{"op": "force", "step": 1, "piece": 292}, {"op": "force", "step": 3, "piece": 372}],
        [{"op": "force", "step": 2, "piece": EOS}],
        [{"op": "no_mask"}, {"op": "no_positions"}, {"op": "mute", "at": "dec.0.self", "head": 1}],
    ],
    ids=lambda edits: "+".join(edit["op"] for edit in edits),
)
def test_an_edit_changes_the_same_numbers_in_python_and_javascript(
    tmp_path: Path, translator: Translator, edits: list[dict[str, Any]]
) -> None:
    (told,) = traces_in_js(translator.folder, tmp_path, [("I love you very much", edits, None)])
    assert_same_trace(trace(translator, "I love you very much", edits=edits), told)


def test_invalid_edits_give_the_same_message_in_python_and_javascript(
    tmp_path: Path, translator: Translator
) -> None:
    wrong: list[dict[str, Any]] = [
        {"op": "no_such"},
        {"op": "mute", "at": "enc.9.self", "head": 0},
        {"op": "mute", "at": "enc.0.self", "head": 4},
        {"op": "replace", "word": 9, "with": "x"},
        {"op": "force", "step": 40, "piece": 5},
        {"op": "force", "step": 0, "piece": 99999},
        {"op": "row", "at": "dec.1.cross", "head": 2, "row": 1, "values": [1]},
        {"op": "row", "at": "enc.1.self", "head": 2, "row": 9, "values": [1, 0, 0, 0]},
        {"op": "row", "at": "dec.0.self", "head": 0, "row": 0, "values": [0] * 130},
        {"op": "no_mask", "at": "enc.0.self"},
    ]
    script = """
    const model = open(input.weights);
    const messageOf = (edit) => {
      try {
        model.trace("I love you", [edit]);
        return null;
      } catch (error) {
        return error.message;
      }
    };
    answer(input.edits.map(messageOf));
    """
    told = run_js(
        tmp_path, script, {"weights": write_weights(translator.folder, tmp_path), "edits": wrong}
    )
    for edit, said in zip(wrong, told, strict=True):
        with pytest.raises(Exception) as caught:  # noqa: PT011  its text is what matters
            trace(translator, "I love you", edits=[edit])
        assert said == str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm": "pre"},
        {"positions": "learned", "max_positions": 61},
        {"n_layers": 3, "n_heads": 3, "d_k": 7, "d_v": 5},
        {"attention_bias": True, "activation": "swish", "norm_epsilon": 0.01},
        {"attention_bias": True, "activation": "gelu", "norm": "pre", "norm_epsilon": 0.1},
        {"tied_output": False, "logit_bias": True, "embedding_scale": False},
        {"logit_bias": True},
        {"n_layers_decoder": 5, "d_ff_decoder": 19, "n_heads_decoder": 11},
        {"n_layers": 3, "n_layers_decoder": 2, "n_heads": 11, "n_heads_decoder": 2, "norm": "pre"},
        {"n_layers": 4, "norm": "pre", "positions": "learned", "n_heads": 3, "d_k": 3, "d_v": 13},
    ],
    ids=lambda changes: "-".join(map(str, changes)) or "post",
)
@pytest.mark.parametrize("kind", ["joint", "separate", "decoder-only"])
def test_every_kind_of_model_gives_the_same_trace_in_python_and_javascript(
    tmp_path: Path, vocabulary: Vocabulary, italian: Vocabulary, changes: dict[str, Any], kind: str
) -> None:
    own = italian if kind == "separate" else None
    if kind == "decoder-only":
        own_shape = {key: value for key, value in changes.items() if not key.endswith("_decoder")}
        changes = {**own_shape, "kind": "decoder-only"}
    folder = random_folder(vocabulary, own, **changes)
    worker = Generator(folder) if kind == "decoder-only" else Translator(folder)
    edits: list[dict[str, Any]] = [
        {"op": "no_scale"},
        {"op": "mute", "at": "dec.1.self", "head": 1},
    ]
    without: list[dict[str, Any]] = [
        {"op": "no_positions"},
        {"op": "no_mask"},
        {"op": "replace", "word": 0, "with": "we"},
    ]
    asked: list[Any] = [
        ("I love the white cat", [], None),
        ("you see è", edits, None),
        ("they\ud83d see", without, None),
    ]
    for (text, edits, beam), told in zip(asked, traces_in_js(folder, tmp_path, asked), strict=True):
        assert_same_trace(trace(worker, text, beam=beam, edits=edits), told)


@pytest.mark.parametrize("shape", random_shapes(6, seed=13), ids=name_of)
def test_models_of_random_shapes_give_the_same_trace_in_python_and_javascript(
    tmp_path: Path, vocabulary: Vocabulary, italian: Vocabulary, shape: Shape
) -> None:
    has_two = shape["target_vocab_size"] is not None
    changes = {key: value for key, value in shape.items() if not key.endswith("vocab_size")}
    folder = random_folder(vocabulary, italian if has_two else None, **changes)
    last = shape["n_heads_decoder"] - 1
    edits = [{"op": "mute", "at": "dec.0.cross", "head": last}]
    asked: list[Any] = [("I love the white cat", [], None), ("you see", edits, 2)]
    for (text, edits, beam), told in zip(asked, traces_in_js(folder, tmp_path, asked), strict=True):
        assert_same_trace(trace(Translator(folder), text, beam=beam, edits=edits), told)


def test_the_error_function_is_exact_to_the_last_digits(tmp_path: Path) -> None:
    values = [x / 37 for x in range(-300, 301)]
    script = 'import { erf } from "./model.js"; answer(input.map(erf));'
    for x, found in zip(values, run_js(tmp_path, script, values), strict=True):
        assert found == pytest.approx(math.erf(x), abs=1e-14)


def test_the_length_penalty_of_the_paper_ranks_alike(
    tmp_path: Path, translator: Translator
) -> None:
    decode = DecodeConfig(length_penalty="paper", alpha=0.6, beam=5)
    folder = replace(
        translator.folder, config=translator.folder.config.model_copy(update={"decode": decode})
    )
    (told,) = traces_in_js(folder, tmp_path, [("the girl sings", [], None)])
    assert_same_trace(trace(Translator(folder), "the girl sings"), told)


@pytest.mark.parametrize("is_text", [False, True])
@pytest.mark.parametrize("kind", ["unigram", "bpe", "char", "byte"])
def test_texts_encode_and_tokens_decode_as_in_python(
    tmp_path: Path, grammar_lines: list[str], kind: Kind, is_text: bool
) -> None:
    lines = [*grammar_lines, "café naïve über 你好", "  two  spaces"]
    vocabulary = learn_vocabulary(lines, kind, 500, exact=False, is_text=is_text)
    folder = random_folder(vocabulary)
    folder = replace(
        folder, config=folder.config.model_copy(update={"text": TextConfig(kind=kind)})
    )
    texts = [
        *HOSTILE,
        *lines,
        *(pair.source for pair in generate("en-it", 100, seed=9, split="held-out")),
    ]
    draw = random.Random(1)
    ids = [[draw.randrange(len(vocabulary)) for _ in range(draw.randrange(12))] for _ in range(300)]
    script = """
    const model = open(input.weights);
    answer({
      ids: input.texts.map((text) => model.encode(text)),
      texts: input.ids.map((ids) => model.pieces.decode(ids)),
      pieces: input.ids.map((ids) => ids.map((id) => model.pieces.piece(id))),
      clean: input.texts.map((text) => cleanText(text, "nfkc")),
      words: input.texts.map(splitWords),
    });
    """
    told = run_js(
        tmp_path, script, {"weights": write_weights(folder, tmp_path), "texts": texts, "ids": ids}
    )
    assert told["ids"] == [vocabulary.encode(normalize(text, "nfc")) for text in texts]
    assert told["texts"] == [vocabulary.decode(each) for each in ids]
    assert told["pieces"] == [[vocabulary.token(i) for i in each] for each in ids]
    assert told["clean"] == [normalize(text, "nfkc") for text in texts]
    assert told["words"] == [text.split() for text in texts]


def test_an_incomplete_character_becomes_the_replacement_character(
    tmp_path: Path, translator: Translator
) -> None:
    script = 'const model = open(input.weights); answer(model.encode("a\\ud83d b"));'
    told = run_js(tmp_path, script, {"weights": write_weights(translator.folder, tmp_path)})
    assert told == translator.source_vocabulary.encode(translator.clean("a\ud83d b"))
