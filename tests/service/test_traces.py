"""The cache of traces: which are kept, and which are dropped first."""

import pytest
import torch

from transduce.decode.translator import Translator
from transduce.errors import MissingInputError
from transduce.inspection.trace import Trace
from transduce.model_folder import ModelFolder
from transduce.service import traces
from transduce.service.traces import MAX_TRACES, TraceCache, parse_request, select_tensors


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were traced, without tracing them."""
    texts: list[str] = []

    def fake(worker: Translator, text: str, **request: object) -> Trace:
        texts.append(text)
        return Trace({"text": text}, {})

    monkeypatch.setattr(traces, "trace", fake)
    return texts


def request(text: str) -> dict[str, object]:
    return parse_request(f'{{"text": "{text}"}}'.encode())


def test_as_many_traces_as_the_limit_are_kept_and_the_one_used_longest_ago_goes_first(
    untrained_folder: ModelFolder, made: list[str]
) -> None:
    cache = TraceCache(Translator(untrained_folder))
    texts = [str(i) for i in range(MAX_TRACES)]
    for text in [*texts, *texts]:
        cache.make(request(text))
    assert made == texts, "each is made once"
    cache.make(request("0"))  # now "1" was used longest ago
    cache.make(request("new"))
    made.clear()
    for text in ("0", "new", *texts[2:]):
        cache.make(request(text))
    assert made == []
    assert cache.get(cache.id_of(request("1"))).meta["text"] == "1"
    assert made == ["1"], "it is made again from its request"
    with pytest.raises(MissingInputError, match="no trace 'unknown'; request it by POST"):
        cache.get("unknown")


def test_patterns_select_tensors_and_without_a_pattern_all_are_selected() -> None:
    whole = Trace({}, {name: torch.zeros(1) for name in ("enc.0.q", "enc.1.q", "dec.0.q")})
    assert list(select_tensors(whole, "").tensors) == list(whole.tensors)
    assert list(select_tensors(whole, "enc.*,").tensors) == ["enc.0.q", "enc.1.q"]
    with pytest.raises(MissingInputError, match="no tensor 'x'; known: enc"):
        select_tensors(whole, "x")
