"""The Engine seam: a third engine plugs in, and all engines work from several threads at once."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.commands import Run
from transduce.config import DecodeConfig
from transduce.decode.engines import registry
from transduce.decode.engines.base import (
    Engine,
    EngineSetup,
    SearchInput,
    SearchResult,
    Unsupported,
)
from transduce.decode.engines.registry import EngineEntry
from transduce.decode.engines.torch import TorchEngine
from transduce.decode.hypotheses import Hypothesis
from transduce.decode.options import TranslateOptions
from transduce.decode.translator import Translator
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
        return Unsupported("copies have no prefix") if options.prefix else None

    def begin(
        self, inputs: Sequence[SearchInput], options: TranslateOptions
    ) -> Iterator[SearchResult]:
        for i, each in enumerate(inputs):
            yield i, [Hypothesis(each.ids, log_prob=0.0, score=0.0)]


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
