"""The Engine seam: a third engine plugs in, and all engines work from several threads at once."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.commands import Run
from transduce.config import DecodeConfig, ModelConfig
from transduce.decode.engines import registry
from transduce.decode.engines.base import (
    MAX_PREFIX_TOKENS,
    Engine,
    EngineSetup,
    SearchInput,
    SearchResult,
    Unsupported,
    max_target_length,
    search_all,
)
from transduce.decode.engines.registry import EngineEntry
from transduce.decode.engines.torch import TorchEngine
from transduce.decode.hypotheses import Hypothesis, add_hypothesis
from transduce.decode.options import TranslateOptions
from transduce.decode.translator import Translator
from transduce.decode.words import Ids
from transduce.errors import UsageError
from transduce.grammar import generate
from transduce.model_folder import BUILTIN, load_model

SOURCES = [pair.source for pair in generate("en-it", 120, seed=5, split="held-out")]


class CopyEngine:
    """Copies the source. The built-in model has one vocabulary for both languages."""

    def __init__(self, setup: EngineSetup) -> None:
        self.setup = setup

    def __str__(self) -> str:
        return "copy"

    def unsupported(self, options: TranslateOptions) -> Unsupported | None:
        if options.attention:
            return Unsupported("copies have no attention")
        return Unsupported("copies have no prefix") if options.prefix else None

    def begin(
        self, inputs: Sequence[SearchInput], options: TranslateOptions
    ) -> Iterator[SearchResult]:
        for i, each in enumerate(inputs):
            yield i, [Hypothesis(each.ids, log_prob=0.0, score=0.0)]

    def score(self, pairs: Sequence[tuple[Ids, Ids]]) -> list[tuple[float, ...]]:
        return [(0.0,) * (len(target) + 1) for _, target in pairs]


@pytest.fixture
def copy_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the engine, before the others in the order of "auto"."""
    entries = {"copy": EngineEntry(CopyEngine, ("float32",)), **registry.ENGINES}
    monkeypatch.setattr(registry, "ENGINES", entries)


@pytest.mark.usefixtures("copy_engine")
def test_a_third_engine_translates_once_it_is_registered() -> None:
    translator = Translator(load_model(BUILTIN), engine="copy")
    assert isinstance(translator.engine(TranslateOptions(DecodeConfig())).engine, Engine)
    [found] = translator.translate(["I love you very much"])
    assert found.text == "I love you very much"
    assert found.flags == ("copied",)


@pytest.mark.usefixtures("copy_engine")
def test_translate_finds_a_third_engine_by_its_name(transduce: Run) -> None:
    code, out, err = transduce("translate", "--engine", "copy", stdin=b"I love you very much\n")
    assert (code, out) == (0, "I love you very much\n"), err
    assert "engine: copy\n" in err
    code, out, err = transduce("translate", "--engine", "fast", stdin=b"I love you\n")
    assert (code, out) == (2, "")
    assert "unknown engine 'fast'; expected auto, copy, ctranslate2, torch" in err


@pytest.mark.usefixtures("copy_engine")
def test_what_a_third_engine_does_not_support_is_refused_or_left_to_the_next() -> None:
    folder = load_model(BUILTIN)
    only = Translator(folder, engine="copy")
    with pytest.raises(UsageError, match="copies have no prefix; omit --engine"):
        only.translate(["I love you"], prefix="Ti")
    engine, declined = Translator(folder, engine="auto").engine(
        TranslateOptions(DecodeConfig(), prefix="Ti")
    )
    assert isinstance(engine, TorchEngine)
    assert declined == Unsupported("copies have no prefix")
    with pytest.raises(UsageError, match="the copy engine does not support int8"):
        Translator(folder, engine="copy", precision="int8")
    with pytest.raises(UsageError, match="unknown engine 'fast'; expected auto, copy, ctranslate2"):
        Translator(folder, engine="fast")


@pytest.mark.parametrize("name", ["torch", "ctranslate2"])
def test_four_threads_at_once_get_what_one_thread_gets(name: str) -> None:
    """Each thread translates single texts, which are one batch, and many, which are several."""
    folder = load_model(BUILTIN)
    requests = [SOURCES, SOURCES[:1], SOURCES[1:2], SOURCES[2:50], SOURCES[50:51], SOURCES] * 2
    serial = Translator(folder, engine=name)
    expected = [[each.text for each in serial.translate(texts)] for texts in requests]
    shared = Translator(folder, engine=name)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(shared.translate, requests))
    assert [[each.text for each in texts] for texts in found] == expected


class FixedEngine(CopyEngine):
    """Beam search finds one hypothesis with a given log-probability, greedy search another."""

    def __init__(self, of_beam: float, of_greedy: float) -> None:
        self.log_probs = {True: of_greedy, False: of_beam}
        self.n_greedy = 0

    def begin(
        self, inputs: Sequence[SearchInput], options: TranslateOptions
    ) -> Iterator[SearchResult]:
        is_greedy = options.width == 1
        log_prob = self.log_probs[is_greedy]
        self.n_greedy += len(inputs) if is_greedy else 0
        for i in range(len(inputs)):
            ids = (8, 9) if is_greedy else (5, 6, 7)
            yield i, [Hypothesis(ids, log_prob, log_prob / (len(ids) + 1))]


@pytest.mark.parametrize(
    ("of_beam", "of_greedy", "expected", "n_greedy"),
    [
        (-1.9, -0.1, (5, 6, 7), 0),  # certain: -0.475 a token
        (-2.1, -0.1, (8, 9), 1),
        (-2.1, -1.6, (5, 6, 7), 1),  # greedy is likelier, but not per token
    ],
)
def test_greedy_search_competes_where_beam_search_is_uncertain(
    of_beam: float, of_greedy: float, expected: tuple[int, ...], n_greedy: int
) -> None:
    engine = FixedEngine(of_beam, of_greedy)
    [found] = search_all(engine, [SearchInput((4,))], TranslateOptions(DecodeConfig()))
    assert found[0].ids == expected
    assert len(found) == 1
    assert engine.n_greedy == n_greedy
    two = TranslateOptions(DecodeConfig(), n_best=2)
    assert len(search_all(engine, [SearchInput((4,))], two)[0]) == 1 + n_greedy


def test_greedy_search_that_finds_the_same_adds_nothing() -> None:
    same = Hypothesis((5,), -2.0, -1.0)
    others = [same, Hypothesis((6,), -3.0, -1.5)]
    assert add_hypothesis(others, same, 2) == others
    assert add_hypothesis(others, Hypothesis((7,), -2.5, -1.25), 2) == [
        same,
        Hypothesis((7,), -2.5, -1.25),
    ]


LOST = {  # a far better hypothesis than the first four that end
    "She never sold the beautiful bicycle": "Non ha mai venduto la bella bicicletta",
    "We don't meet the actor in the hotel every day": (
        "Non incontriamo l'attore nell'albergo ogni giorno"
    ),
}


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_the_command_finds_the_best_hypothesis_though_others_end_before(
    transduce: Run, engine: str
) -> None:
    text = "".join(f"{source}\n" for source in LOST)
    code, out, _ = transduce("translate", "--engine", engine, stdin=text.encode())
    assert (code, out.splitlines()) == (0, list(LOST.values()))


def test_both_engines_agree_and_are_not_worse_than_greedy() -> None:
    """120 held-out sentences: n-best lists too, without empty and repeated translations."""
    folder = load_model(BUILTIN)
    found = {}
    for name in ("torch", "ctranslate2"):
        translator = Translator(folder, engine=name)
        found[name] = translator.translate(SOURCES, n_best=4)
        greedy = translator.translate(SOURCES, beam=1)
        assert sum(a.score < b.score - 1e-4 for a, b in zip(found[name], greedy, strict=True)) == 0
    for ours, theirs in zip(found["torch"], found["ctranslate2"], strict=True):
        texts = [each.text for each in ours.alternatives]
        assert texts == [each.text for each in theirs.alternatives]
        assert [each.score for each in ours.alternatives] == pytest.approx(
            [each.score for each in theirs.alternatives], abs=1e-4
        )
        assert all(text.strip() for text in texts)
        assert len(set(texts)) == len(texts)


def longest(n_source: int, n_prefix: int, model: ModelConfig, **config: int) -> int:
    options = TranslateOptions(DecodeConfig(**config))
    return max_target_length(SearchInput((5,) * n_source, (6,) * n_prefix), options, model)


def test_a_prefix_may_have_as_many_tokens_as_its_limit_and_not_one_more() -> None:
    for limit, config in ((MAX_PREFIX_TOKENS, {}), (7, {"max_length": 7})):
        assert longest(3, limit, ModelConfig(), **config) > limit
        with pytest.raises(UsageError, match=f"more than the {limit} that a translation may begin"):
            longest(3, limit + 1, ModelConfig(), **config)


def test_learned_positions_limit_a_translation_only_where_they_end() -> None:
    """Of a source of 3 tokens: 3 + 50, and [EOS]."""
    assert longest(3, 0, ModelConfig()) == 54
    for n_positions, expected in ((1000, 54), (54, 54), (53, 53)):
        model = ModelConfig(positions="learned", max_positions=n_positions)
        assert longest(3, 0, model) == expected
