"""The CTranslate2 engine: conversion into the cache, parity check, unsupported options."""

import copy
import gc
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tests.faults import commands
from transduce.config import DecodeConfig, ModelConfig
from transduce.convert import cache as model_cache
from transduce.convert.cache import cache_folder
from transduce.convert.ctranslate2 import MAX_POSITIONS, convert
from transduce.decode.engines import ctranslate2 as engine_module
from transduce.decode.engines import torch as torch_module
from transduce.decode.engines.base import SearchInput, SearchResult, Unsupported, search_all
from transduce.decode.engines.ctranslate2 import (
    AVX512_FLAGS,
    CTranslate2Engine,
    _begin_batch,
    _begin_first_rows,
    _read_result,
    unsupported_models,
    unsupported_options,
)
from transduce.decode.engines.torch import TorchEngine
from transduce.decode.hypotheses import ENDS_PER_BEAM
from transduce.decode.options import Sampling, TranslateOptions
from transduce.decode.translator import Translator
from transduce.errors import ModelError, UsageError
from transduce.grammar import generate
from transduce.model import Transformer
from transduce.model_folder import (
    BUILTIN,
    FolderConfig,
    ModelFolder,
    load_model,
    open_model,
    save_model,
)
from transduce.storage import sha256
from transduce.text.vocabulary import EOS, SPECIAL_TOKENS

SOURCES = [pair.source for pair in generate("en-it", 100, seed=77, split="held-out")]
PLAIN = TranslateOptions(DecodeConfig())


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder of the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def small(untrained_folder: ModelFolder, tmp_path: Path) -> Path:
    """A model folder, quick to convert."""
    save_model(tmp_path / "model", untrained_folder)
    return tmp_path / "model"


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path): sha256(path.read_bytes()) for path in sorted(folder.rglob("*")) if path.is_file()
    }


def open_fast(folder: Path, said: list[str], **asked: Any) -> CTranslate2Engine:
    engine, reason = Translator(load_model(folder), engine="auto", log=said.append, **asked).engine(
        PLAIN
    )
    assert isinstance(engine, CTranslate2Engine), reason
    return engine


def test_a_model_is_converted_once_into_the_cache_and_its_folder_stays_as_it_was(
    cache: Path, small: Path, conversions: list[Path]
) -> None:
    before = contents(small)
    said: list[str] = []
    open_fast(small, said)
    [where] = (cache / "transduce" / "ctranslate2").iterdir()
    assert where == cache_folder(load_model(small).fingerprint or "")
    parity = json.loads((where / "parity.json").read_text())
    assert parity["largest_difference"] < 1e-4
    assert len(said) == 1
    assert said[0].startswith(
        f"converted for CTranslate2, once: {where} (largest difference from torch: "
    )
    open_fast(small, said)
    assert (len(said), len(conversions)) == (1, 1)
    assert contents(small) == before


def test_without_xdg_cache_home_the_cache_is_below_the_home_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder("x").parent == tmp_path / ".cache" / "transduce" / "ctranslate2"
    assert cache_folder("x") != cache_folder("y")


def test_other_weights_are_another_folder(
    cache: Path, small: Path, untrained_folder: ModelFolder
) -> None:
    open_fast(small, [])
    with torch.no_grad():
        next(untrained_folder.model.parameters())[5] += 1
    save_model(small.parent / "other", untrained_folder)
    open_fast(small.parent / "other", [])
    assert len(list((cache / "transduce" / "ctranslate2").iterdir())) == 2


@pytest.mark.parametrize("size", [0, 1000])
def test_a_damaged_cache_entry_is_reported_and_converted_again(
    cache: Path, small: Path, conversions: list[Path], size: int
) -> None:
    open_fast(small, [])
    [where] = (cache / "transduce" / "ctranslate2").iterdir()
    whole = contents(where)
    (where / "model.bin").write_bytes((where / "model.bin").read_bytes()[:size])
    said: list[str] = []
    open_fast(small, said)
    assert said[0] == f"{where} cannot be used (model.bin is damaged); converting again"
    assert said[1].startswith("converted for CTranslate2, once: ")
    assert len(conversions) == 2
    assert contents(where) == whole
    assert [path.name for path in where.parent.iterdir()] == [where.name]


def test_a_cache_that_is_emptied_meanwhile_is_filled_again(
    cache: Path, small: Path, conversions: list[Path]
) -> None:
    engine = open_fast(small, [])
    shutil.rmtree(cache)
    assert search_all(engine, [SearchInput((7, 8, 9))], PLAIN)[0]
    assert len(conversions) == 2


def test_a_conversion_that_was_interrupted_is_made_anew(
    cache: Path, small: Path, conversions: list[Path]
) -> None:
    where = cache_folder(load_model(small).fingerprint or "")
    where.mkdir(parents=True)
    (where / "model.bin").write_bytes(b"half")
    open_fast(small, [])
    assert len(conversions) == 1
    assert (where / "parity.json").is_file()


def test_a_cache_that_cannot_be_written_is_reported_and_a_temporary_folder_is_used(
    cache: Path, small: Path, conversions: list[Path]
) -> None:
    cache.write_text("a file where a folder is wanted")
    for n in (1, 2):
        said: list[str] = []
        engine = open_fast(small, said)
        assert said == [
            f"cannot write to {cache / 'transduce' / 'ctranslate2'} (Not a directory); "
            "the model is converted for this run only"
        ]
        assert len(conversions) == n
        assert search_all(engine, [SearchInput((7, 8, 9))], PLAIN)[0]
        del engine
        gc.collect()
        assert not conversions[-1].exists()


def spoil(monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversion that gets one matrix wrong."""

    def wrong(model: Transformer, folder: Path) -> None:
        spoiled = copy.deepcopy(model)
        with torch.no_grad():
            next(spoiled.decoder.layers[0].feed_forward.parameters()).mul_(1.5)
        convert(spoiled, folder)

    monkeypatch.setattr(model_cache, "convert", wrong)


def test_a_conversion_that_fails_the_parity_check_is_not_used_and_reported(
    cache: Path, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(monkeypatch)
    engine, reason = Translator(load_model(small), engine="auto").engine(PLAIN)
    assert isinstance(engine, TorchEngine)
    assert reason is not None
    assert str(reason).startswith("CTranslate2 gives different scores than torch for this model")
    assert list((cache / "transduce" / "ctranslate2").iterdir()) == []
    with pytest.raises(
        UsageError, match=r"CTranslate2 gives different scores than torch .*; omit --engine and"
    ):
        Translator(load_model(small), engine="ctranslate2").engine(PLAIN)


def make_options(**asked: Any) -> TranslateOptions:
    return TranslateOptions(DecodeConfig(**asked.pop("config", {})), **asked)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (
            {"config": {"length_penalty": "paper"}},
            "CTranslate2 does not support the paper's length penalty",
        ),
        ({"sampling": Sampling()}, "CTranslate2 does not support reproducible sampling"),
        ({"alternatives": 2}, "CTranslate2 does not support alternatives at a position"),
        ({"no_repeat": 3}, "CTranslate2 does not support n-gram blocking"),
        ({"forbid": ("gatto",)}, "CTranslate2 does not support forbidden phrases"),
        (
            {"config": {"max_length": MAX_POSITIONS}},
            f"CTranslate2 does not support translations of {MAX_POSITIONS} tokens",
        ),
        ({"prefix": "Il"}, "CTranslate2 does not support forced prefixes"),
    ],
)
def test_unsupported_options_are_left_to_torch_or_refused(
    asked: dict[str, Any], reason: str
) -> None:
    folder = load_model(BUILTIN)
    assert unsupported_options(make_options(**asked)) == Unsupported(reason)
    engine, declined = Translator(folder, engine="auto").engine(make_options(**asked))
    assert isinstance(engine, TorchEngine)
    assert declined == Unsupported(reason)
    with pytest.raises(
        UsageError, match=f"{reason}; omit --engine and --precision to use the torch engine"
    ):
        Translator(folder, engine="ctranslate2").engine(make_options(**asked))


def test_unsupported_models_have_a_reason(
    untrained_folder: ModelFolder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = load_model(BUILTIN)
    assert unsupported_models([folder]) is None
    assert unsupported_models([folder, folder]) == Unsupported(
        "CTranslate2 does not support ensembles"
    )
    assert unsupported_models([untrained_folder]) == Unsupported(
        "the model has not been saved to a folder yet"
    )
    config = ModelConfig(**{**untrained_folder.config.model.model_dump(), "d_k": 7, "d_v": 5})
    odd = replace(
        untrained_folder,
        config=FolderConfig(model=config),
        weights=Transformer(config),
        fingerprint="x",
    )
    reason = (
        "CTranslate2 cannot represent this model: the size of its heads is not d_model / n_heads"
    )
    assert unsupported_models([odd]) == Unsupported(reason)
    with pytest.raises(ModelError, match=reason):
        convert(Transformer(config), tmp_path)
    monkeypatch.setattr(engine_module, "is_installed", lambda: False)
    assert unsupported_models([folder]) == Unsupported(
        "CTranslate2 is not installed: pip install 'transduce[fast]'"
    )


def test_int8_translates_nearly_as_float32_does() -> None:
    """Of 100 held-out sentences, at least 95 have the same translation."""
    folder = load_model(BUILTIN)
    rough = Translator(folder, engine="auto", precision="int8")
    assert str(rough.engine(PLAIN)[0]).startswith("ctranslate2, int8, threads: ")
    exact = Translator(folder).translate(SOURCES)
    found = rough.translate(SOURCES)
    assert [t.score for t in found] != [t.score for t in exact]
    assert sum(a.text == b.text for a, b in zip(found, exact, strict=True)) >= 95


def test_int8_is_never_replaced_by_another_precision() -> None:
    with pytest.raises(
        UsageError, match="the torch engine does not support int8; omit --engine or --precision"
    ):
        Translator(load_model(BUILTIN), engine="torch", precision="int8")
    with pytest.raises(
        UsageError,
        match="CTranslate2 does not support alternatives at a position; omit --engine and",
    ):
        Translator(load_model(BUILTIN), precision="int8", engine="auto").translate(
            ["I love you"], alternatives=2
        )


@pytest.mark.parametrize("beam", [1, 4])
def test_a_translation_cut_at_its_maximum_length_equals_that_of_torch(
    monkeypatch: pytest.MonkeyPatch, beam: int
) -> None:
    folder = load_model(BUILTIN)
    quick, reference = Translator(folder, engine="ctranslate2"), Translator(folder)
    asked: list[int] = []
    begin = TorchEngine.begin

    def counted(
        self: TorchEngine, inputs: list[SearchInput], options: TranslateOptions
    ) -> Iterator[SearchResult]:
        asked.append(len(inputs))
        return begin(self, inputs, options)

    monkeypatch.setattr(TorchEngine, "begin", counted)
    assert [t.flags for t in quick.translate(SOURCES[:30], beam=beam)] == [()] * 30
    assert asked == []
    cut = quick.translate(SOURCES[:30], beam=beam, max_length=4)
    assert sum("truncated" in t.flags for t in cut) > 10
    assert len(asked) == (beam > 1)  # greedily CTranslate2 can do it alone
    wanted = reference.translate(SOURCES[:30], beam=beam, max_length=4)
    assert [(t.text, t.flags) for t in cut] == [(t.text, t.flags) for t in wanted]
    assert [t.score for t in cut] == pytest.approx([t.score for t in wanted], abs=1e-4)


def test_ctranslate2_works_without_importing_torch(tmp_path: Path) -> None:
    program = (
        "import sys, transduce; text = transduce.load().translate(['I love you'])[0].text;"
        "print(text, 'torch' in sys.modules)"
    )
    first, second = (
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    )
    assert (first, second) == (
        "Ti amo True\n",
        "Ti amo False\n",
    )  # the first time the model is converted


def test_opening_a_model_does_not_load_torchs_compiler() -> None:
    """Loading it takes seconds, and random numbers on the meta device would load it."""
    program = (
        "import sys, transduce; transduce.load(engine='torch').translate(['I love you']);"
        "print('torch' in sys.modules, 'torch._dynamo' in sys.modules)"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert said == "True False\n"


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_both_engines_rank_by_the_same_penalty(alpha: float) -> None:
    """Within 1e-4 nats per token; scores without a penalty are sums."""
    folder = load_model(BUILTIN)
    found = [
        Translator(folder, engine=name).translate(SOURCES[:40], alpha=alpha)
        for name in ("torch", "ctranslate2")
    ]
    for ours, theirs in zip(*found, strict=True):
        assert ours.text == theirs.text
        n_pieces = len(folder.target_vocabulary.encode(ours.text)) + 1
        assert ours.score == pytest.approx(theirs.score, abs=1e-4 * n_pieces ** (1 - alpha))


@pytest.mark.parametrize(
    ("flags", "before", "asked"),
    [
        ("fpu avx2", None, None),
        (" ".join(sorted(AVX512_FLAGS - {"avx512_bf16"})), None, None),
        (" ".join(sorted(AVX512_FLAGS)), None, "AVX512"),
        (" ".join(sorted(AVX512_FLAGS)), "GENERIC", "GENERIC"),
        (None, None, None),
    ],
)
def test_avx512_is_enabled_where_it_is_faster_and_never_against_the_user(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    flags: str | None,
    before: str | None,
    asked: str | None,
) -> None:
    monkeypatch.setenv("CT2_FORCE_CPU_ISA", before or "")
    if before is None:
        monkeypatch.delenv("CT2_FORCE_CPU_ISA")
    if flags is not None:
        (tmp_path / "cpuinfo").write_text(f"processor\t: 0\nflags\t\t: {flags}\n")
    engine_module.enable_avx512(tmp_path / "cpuinfo")
    assert os.environ.get("CT2_FORCE_CPU_ISA") == asked


def test_ctranslate2_uses_the_kernels_that_were_chosen() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "CT2_FORCE_CPU_ISA"}
    environment["CT2_VERBOSE"] = "1"
    program = (
        "import transduce, os; transduce.load(engine='ctranslate2').translate(['I sleep']);"
        "print(os.environ.get('CT2_FORCE_CPU_ISA'))"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert ("Selected ISA: AVX512" in done.stderr) == (done.stdout.strip() == "AVX512")


@pytest.mark.parametrize("beam", [1, 4])
def test_sentences_of_one_batch_have_limits_of_their_own(
    monkeypatch: pytest.MonkeyPatch, beam: int
) -> None:
    """A batch is searched to its largest limit; each sentence is cut at its own, as by torch."""

    def limit(search_input: SearchInput, *_: Any) -> int:
        return 3 + len(search_input.ids) % 7

    for module in (engine_module, torch_module):
        monkeypatch.setattr(module, "max_target_length", limit)
    folder = load_model(BUILTIN)
    quick = Translator(folder, engine="ctranslate2")
    options = TranslateOptions(DecodeConfig(beam=beam))
    inputs = [SearchInput(tuple(quick.source_vocabulary.encode(text))) for text in SOURCES[:40]]
    theirs = search_all(quick.engine(options).engine, inputs, options)
    ours = search_all(quick.torch_engine, inputs, options)
    assert 5 < sum(each[0].truncated for each in ours) < 40
    for each, a, b in zip(inputs, ours, theirs, strict=True):
        assert len(b[0].ids) < limit(each)
        assert (a[0].ids, a[0].truncated) == (b[0].ids, b[0].truncated)
        assert a[0].score == pytest.approx(b[0].score, abs=1e-4)


def result(*tokens: int) -> SimpleNamespace:
    return SimpleNamespace(hypotheses=[list(map(str, tokens))], scores=[-1.0], attention=[])


def test_a_result_is_cut_at_the_limit_of_its_own_sentence() -> None:
    greedy = TranslateOptions(DecodeConfig(beam=1))
    [whole] = _read_result(result(5, 6, EOS), 3, greedy)
    assert (whole.ids, whole.truncated) == ((5, 6), False)
    [cut] = _read_result(result(5, 6, 7, EOS), 3, greedy)  # ended after its limit
    assert (cut.ids, cut.truncated) == ((5, 6), True)
    [running] = _read_result(result(5, 6, 7, 8), 4, greedy)
    assert (running.ids, running.truncated) == ((5, 6, 7), True)
    assert _read_result(result(5, 6, 7, EOS), 3, PLAIN) == []  # in a beam: torch searches again


@pytest.mark.parametrize("beam", [1, 4])
def test_a_result_with_a_special_token_is_left_to_torch(beam: int) -> None:
    options = TranslateOptions(DecodeConfig(beam=beam))
    for token in range(len(SPECIAL_TOKENS)):
        assert _read_result(result(5, token, 6, EOS), 9, options) == []


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_ctranslate2_never_gets_a_penalty_of_zero(alpha: float) -> None:
    """It would end a sentence by another rule, even after many more hypotheses have ended."""
    asked: dict[str, Any] = {}
    recorder = SimpleNamespace(translate_batch=lambda sources, **given: asked.update(given) or [])
    _begin_batch(recorder, [["5"]], 9, TranslateOptions(DecodeConfig(alpha=alpha)))
    assert asked["length_penalty"] > 0
    assert asked["length_penalty"] == pytest.approx(alpha, abs=1e-6)
    assert asked["patience"] == ENDS_PER_BEAM


def test_no_length_penalty_leaves_the_same_n_best_as_torch() -> None:
    """With penalty 0 CTranslate2 would end a sentence by another rule."""
    folder = load_model(BUILTIN)
    found = [
        Translator(folder, engine=name).translate(SOURCES[:60], alpha=0.0, beam=4, n_best=4)
        for name in ("torch", "ctranslate2")
    ]
    for ours, theirs in zip(*found, strict=True):
        assert [each.text for each in ours.alternatives] == [
            each.text for each in theirs.alternatives
        ]


@pytest.mark.parametrize(("beam", "n_best"), [(1, 1), (4, 1), (4, 4)])
def test_attention_is_that_of_torch_whatever_else_is_in_the_batch(beam: int, n_best: int) -> None:
    options = TranslateOptions(DecodeConfig(beam=beam), n_best=n_best, attention=True)
    quick = Translator(load_model(BUILTIN), engine="ctranslate2")
    engine = quick.engine(options).engine
    inputs = [SearchInput(tuple(quick.source_vocabulary.encode(text))) for text in SOURCES[:40]]
    assert len({len(each.ids) for each in inputs}) > 5
    batch = search_all(engine, inputs, options)
    turned = search_all(engine, inputs[::-1], options)[::-1]
    alone = [search_all(engine, [each], options)[0] for each in inputs]
    wanted = search_all(quick.torch_engine, inputs, options)
    for of_source in zip(wanted, batch, turned, alone, strict=True):
        best = (hypotheses[:n_best] for hypotheses in of_source)
        for ours, *theirs in zip(*best, strict=True):
            assert [each.ids for each in theirs] == [ours.ids] * 3
            for each in theirs:
                np.testing.assert_allclose(each.attention, ours.attention, rtol=0, atol=1e-4)


def count_searches(beam: int, n_sources: int, *, attention: bool) -> int:
    """Return how often a batch is searched."""
    asked: list[int] = []
    recorder = SimpleNamespace(
        translate_batch=lambda sources, **given: asked.append(given["beam_size"]) or [None]
    )
    options = TranslateOptions(DecodeConfig(beam=beam), attention=attention)
    sources = [["5"]] * n_sources
    _begin_first_rows(recorder, sources, options)
    _begin_batch(recorder, sources, 9, options)
    return len(asked)


def test_only_attention_of_a_batch_in_a_beam_takes_another_search() -> None:
    assert count_searches(4, 3, attention=True) == 2
    assert count_searches(4, 3, attention=False) == 1
    assert count_searches(4, 1, attention=True) == 1
    assert count_searches(1, 3, attention=True) == 1


@pytest.mark.parametrize("n_threads", [1, 2])
def test_translating_leaves_torchs_number_of_threads_as_it_was(
    tmp_path: Path, untrained_folder: ModelFolder, n_threads: int
) -> None:
    """Torch's results depend on it, so a training afterwards would end in other weights."""
    save_model(tmp_path / "m", untrained_folder)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        translator = Translator(
            open_model(tmp_path / "m"), engine="ctranslate2", n_threads=n_threads
        )
        translator.translate(["We sleep", "I love you"], beam=2)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("CT2_FORCE_CPU_ISA", "fast", "CTranslate2 cannot run: Invalid CPU ISA: fast"),
        ("CT2_VERBOSE", "99", "CTranslate2 cannot run: Invalid log level 99"),
    ],
)
def test_a_wrong_environment_variable_of_ctranslate2_is_named(
    small: Path, tmp_path: Path, name: str, value: str, message: str
) -> None:
    converted = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    commands.run("translate", "-m", small, stdin=b"I love you\n", **converted)
    for environment in (converted, {"XDG_CACHE_HOME": str(tmp_path / "other")}):
        ended = commands.run(
            "translate", "-m", small, stdin=b"I love you\n", **environment, **{name: value}
        )
        assert ended.failed_with(78, message, "(CT2_...), or choose --engine torch")
