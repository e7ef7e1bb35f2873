"""Hugging Face's `generate` and CTranslate2 find what our search finds, with the same weights.

Where two outputs differ it must be a tie: scored in the same way, they differ by at most 1e-4.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conftest import write_grammar
from tests.marian import marian_of
from tests.shapes import Shape, name_of, random_model, random_shapes
from transduce.config import DecodeConfig, TextConfig
from transduce.convert.ctranslate2 import convert
from transduce.data.batch import encode_source, pad
from transduce.decode.engines.base import SearchInput, search_all
from transduce.decode.engines.ctranslate2 import CTranslate2Engine
from transduce.decode.engines.torch import TorchEngine
from transduce.decode.hypotheses import Hypothesis
from transduce.decode.options import TranslateOptions
from transduce.decode.scoring import score_targets
from transduce.decode.search import collect
from transduce.decode.translator import Translator
from transduce.grammar import generate
from transduce.model import Transformer
from transduce.model_folder import BUILTIN, FolderConfig, ModelFolder, load_model, save_model
from transduce.text.vocabulary import EOS, PAD, SOS, UNKNOWN, Vocabulary, learn_vocabulary

Ids = tuple[int, ...]
SHAPE = {"vocab_size": 211, "n_layers": 2, "d_model": 26, "d_ff": 37, "n_heads": 2, "dropout": 0.0}
HELD_OUT = [pair.source for pair in generate("en-it", 150, seed=31, split="held-out")]


def random_ids(n: int, longest: int, n_tokens: int, seed: int) -> list[Ids]:
    chance = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest, (n,), generator=chance).tolist()
    return [
        tuple(torch.randint(4, n_tokens, (length,), generator=chance).tolist())
        for length in lengths
    ]


def teach_to_end(model: Transformer, sources: list[Ids], about: int) -> None:
    """Fit the output vector of [EOS] so that translations end after about `about` tokens.

    With random weights alone they would never end.
    """
    source = pad([encode_source(ids) for ids in sources])
    target = torch.randint(4, len(model.logit_weight), (len(sources), 3 * about))
    target[:, 0] = SOS
    with torch.no_grad():
        hidden, _ = model.decode(target, model.start(source, source != PAD))
        best = model.logits(hidden).max(dim=-1).values.mean()
        logits = torch.where(torch.arange(3 * about) >= about, 2 * best, -best)
        logits = logits.expand(len(sources), -1)
        x, y = hidden.flatten(end_dim=1).double(), logits.flatten().double()
        row = torch.linalg.solve(x.T @ x + 0.1 * torch.eye(x.shape[1]).double(), x.T @ y)
        model.logit_weight[EOS] = row.float()
        if model.logit_bias is not None:
            model.logit_bias[EOS] = 0


def share_ended(model: Transformer, sources: list[Ids]) -> float:
    """Return the share of the greedy translations that end within 25 tokens."""
    source = pad([encode_source(ids) for ids in sources])
    written = torch.full((len(sources), 1), SOS)
    with torch.no_grad():
        cache = model.start(source, source != PAD)
        for _ in range(25):
            hidden, cache = model.decode(written[:, -1:], cache)
            written = torch.cat((written, model.logits(hidden)[:, -1:].argmax(dim=-1)), dim=1)
    return float((written == EOS).any(dim=1).float().mean())


def n_ties(
    model: Transformer, sources: list[Ids], ours: list[Ids], theirs: list[Ids], alpha: float = 1.0
) -> int:
    """Return the number of outputs that differ; assert that each of them is a tie."""
    different = [i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b]
    chosen = [sources[i] for i in different]
    scores = [
        [
            sum(each.log_probs) / len(each.log_probs) ** alpha
            for each in score_targets([model], chosen, [side[i] for i in different])
        ]
        for side in (ours, theirs)
    ]
    for i, a, b in zip(different, *scores, strict=True):
        assert a == pytest.approx(b, abs=1e-4), (i, ours[i], theirs[i])
    return len(different)


def best(found: list[list[Hypothesis]]) -> list[Ids]:
    return [hypotheses[0].ids for hypotheses in found]


def generated(model: Transformer, sources: list[Ids], beam: int, most: int) -> list[Ids]:
    """Return the outputs of Hugging Face's `generate` with the same weights."""
    source = pad([encode_source(ids) for ids in sources])
    made = marian_of(model).generate(
        source,
        attention_mask=(source != PAD).long(),
        num_beams=beam,
        do_sample=False,
        max_new_tokens=most + 1,
        suppress_tokens=[PAD, SOS, UNKNOWN],  # a translation is made of text
        **({"length_penalty": 1.0, "early_stopping": True} if beam > 1 else {}),
    )
    return [tuple(i for i in row[1:] if i not in (PAD, EOS)) for row in made.tolist()]


def search_as_hugging_face(
    engine: TorchEngine, sources: list[Ids], options: TranslateOptions
) -> list[list[Hypothesis]]:
    """Search with Hugging Face's `early_stopping=True`: it ends with `beam` ended hypotheses."""
    plan = engine.plan([SearchInput(ids) for ids in sources], options)
    with torch.inference_mode():
        return collect(replace(plan, n_ends=options.width).explore(), len(sources))


@pytest.mark.parametrize("beam", [1, 4])
def test_search_finds_what_hugging_face_generates_with_random_weights(
    beam: int, vocabulary: Vocabulary
) -> None:
    model = random_model(SHAPE)
    sources = random_ids(40, 19, SHAPE["vocab_size"], seed=5)
    for _ in range(3):
        teach_to_end(model, sources, about=9)
    how = TranslateOptions(DecodeConfig(beam=beam, max_length=39))
    found = search_as_hugging_face(TorchEngine([model], vocabulary), sources, how)
    assert sum(not hypotheses[0].truncated for hypotheses in found) >= 30, "most end with [EOS]"
    assert len({len(ids) for ids in best(found)}) > 2
    assert n_ties(model, sources, best(found), generated(model, sources, beam, 39)) <= 2


@pytest.mark.parametrize("beam", [1, 4])
def test_search_finds_what_hugging_face_generates_with_the_built_in_model(beam: int) -> None:
    translator = Translator(load_model(BUILTIN))
    sources = [tuple(ids) for ids in translator.source_vocabulary.encode_batch(HELD_OUT)]
    how = TranslateOptions(DecodeConfig(beam=beam, max_length=60))
    found = search_as_hugging_face(translator.torch_engine, sources, how)
    assert (
        n_ties(
            translator.model, sources, best(found), generated(translator.model, sources, beam, 60)
        )
        <= 2
    )


@pytest.mark.parametrize("beam", [1, 4])
def test_ctranslate2_finds_what_search_finds_with_the_built_in_model(beam: int) -> None:
    assert compare_engines(load_model(BUILTIN), beam) <= 3


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    """A small model after a few dozen steps: flat distributions, so that near ties are common."""
    from rich.console import Console

    from transduce.training.run import train

    folder = tmp_path_factory.mktemp("peers")
    source, target = write_grammar(folder, 600)
    settings = {
        "model": {"n_layers": 2, "d_model": 32, "d_ff": 46, "n_heads": 2},
        "data": {"batch_tokens": 1024},
        "train": {"steps": 60, "validate_every": 60, "learning_rate": 5e-3, "warmup_steps": 10},
        "text": {"vocab_size": 500},
    }
    train(
        folder / "run",
        [str(source)],
        [str(target)],
        (),
        (),
        "nano",
        [settings],
        Console(quiet=True),
    )
    return load_model(folder / "run")


@pytest.mark.parametrize("beam", [1, 4])
def test_ctranslate2_finds_what_search_finds_with_a_model_just_trained(
    trained: ModelFolder, beam: int
) -> None:
    assert compare_engines(trained, beam) <= 3


@pytest.mark.parametrize("shape", random_shapes(6, seed=11), ids=name_of)
def test_ctranslate2_finds_what_greedy_search_finds_in_random_shapes(
    shape: Shape, vocabulary: Vocabulary, grammar_lines: list[str], tmp_path: Path
) -> None:
    has_two = shape["target_vocab_size"] is not None
    target = learn_vocabulary(grammar_lines, "bpe", 600) if has_two else vocabulary
    n_target = len(target) if has_two else None
    model = random_model({**SHAPE, **shape, "vocab_size": 700, "target_vocab_size": n_target})
    torch.manual_seed(0)
    sources = [tuple(ids) for ids in vocabulary.encode_batch(HELD_OUT)]
    for _ in range(40):  # until most translations end
        teach_to_end(model, sources, about=9)
        if share_ended(model, sources) > 0.8:
            break
    settings = FolderConfig(text=TextConfig(joint=not has_two), model=model.config)
    save_model(tmp_path / "m", ModelFolder(settings, model, vocabulary, target))
    assert compare_engines(load_model(tmp_path / "m"), beam=1) <= 3


def compare_engines(folder: ModelFolder, beam: int) -> int:
    quick = Translator(folder, engine="ctranslate2")
    how = TranslateOptions(DecodeConfig(beam=beam))
    engine, _ = quick.engine(how)
    assert isinstance(engine, CTranslate2Engine)
    sentences = [SearchInput(tuple(ids)) for ids in quick.source_vocabulary.encode_batch(HELD_OUT)]
    ours, theirs = (
        search_all(quick.torch_engine, sentences, how),
        search_all(engine, sentences, how),
    )
    n_whole = sum(not hypotheses[0].truncated for hypotheses in ours)
    assert n_whole > len(ours) / 2, "cut translations come from the torch engine in either case"
    assert isinstance(folder.model, Transformer)
    return n_ties(folder.model, [sentence.ids for sentence in sentences], best(ours), best(theirs))


@pytest.mark.parametrize(
    "shape",
    [
        *random_shapes(6, seed=17, vocab_size=211),
        {},
        {"norm": "pre"},
        {"positions": "learned", "max_positions": 61},
        {"target_vocab_size": 97},
        {"norm_epsilon": 0.1},
        {"tied_output": False},
        {"logit_bias": True, "embedding_scale": False},
        {"tied_output": False, "logit_bias": True, "target_vocab_size": 97},
        {"norm_epsilon": 0.1, "norm": "pre"},
        {"attention_bias": True},
        {"activation": "gelu"},
        {"activation": "swish"},
        {"n_layers": 3, "n_layers_decoder": 1, "d_ff_decoder": 23, "n_heads_decoder": 13},
        {"n_layers_decoder": 5, "n_heads": 13, "n_heads_decoder": 1, "attention_bias": True},
        {
            "norm": "pre",
            "positions": "learned",
            "max_positions": 61,
            "target_vocab_size": 97,
            "n_layers": 3,
        },
    ],
    ids=lambda shape: "-".join(map(str, shape)) or "the paper's",
)
def test_ctranslate2_gives_every_token_the_same_probability(
    shape: dict[str, Any], tmp_path: Path
) -> None:
    import ctranslate2

    model = random_model({**SHAPE, **shape})
    convert(model, tmp_path)
    sources = random_ids(23, 60, 211, seed=1)
    targets = random_ids(23, 60, len(model.target_embedding.weight), seed=2)
    translator = ctranslate2.Translator(str(tmp_path), device="cpu", compute_type="float32")
    theirs = translator.score_batch(
        *([[str(i) for i in ids] for ids in side] for side in (sources, targets))
    )
    for ours, other in zip(score_targets([model], sources, targets), theirs, strict=True):
        assert ours.log_probs == pytest.approx(other.log_probs, abs=1e-4)
