import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands import Run
from transduce.data.prepared import describe_inputs, text_settings
from transduce.errors import DataError
from transduce.grammar import generate
from transduce.text.corpus import Pair, PairList
from transduce.training import plan as planning
from transduce.training.plan import format_duration, make_plan
from transduce.training.tasks import pairs as pairs_task
from transduce.training.tasks.pairs import PairsTask

SHORT_PAIRS = {"data": {"max_length": 4}}
PAIRS = PairList(list(generate("en-it", 400, seed=1)), ("en", "it"))


def test_a_plan_proposes_the_settings_that_training_would_choose(tmp_path: Path) -> None:
    planned = make_plan(PAIRS, None, [{"train": {"seed": 3}}], 0.01, lambda line: None)
    task = PairsTask(PAIRS)
    layers = [task.defaults, {"train": {"seed": 3}}]
    requested = text_settings(layers)
    inputs = describe_inputs(requested, task.fingerprint())
    manifest = task.encode(tmp_path, inputs, requested, lambda line: None)
    prepared = task.set_up(manifest, tmp_path, None, layers, lambda line: None)
    assert planned.settings == prepared.config.model_dump(mode="json")
    assert (planned.pairs, planned.preset, planned.is_estimate) == (400, prepared.preset, False)
    assert planned.tokens_per_second > 0
    assert planned.seconds_per_epoch == pytest.approx(planned.tokens / planned.tokens_per_second)


def test_tokens_of_a_large_corpus_are_extrapolated_from_a_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = make_plan(PAIRS, None, [], 0.01, lambda line: None)
    monkeypatch.setattr(planning, "MAX_PAIRS", 200)
    part = make_plan(PAIRS, None, [], 0.01, lambda line: None)
    assert part.is_estimate
    assert part.pairs == 400
    assert part.tokens == pytest.approx(whole.tokens, rel=0.2)
    assert "about" in part.as_text().split("\n")[1]


def test_the_command_prints_the_plan_and_keeps_nothing(
    transduce: Run,
    write_corpus: Callable[..., tuple[Path, Path]],
    tmp_path: Path,
) -> None:
    source, target = write_corpus()
    before = sorted(tmp_path.iterdir())
    command = ("plan", "--source", source, "--target", target, "--preset", "nano", "--seconds", 1)
    code, out, err = transduce(*command)
    assert code == 0
    for name in (
        "pairs",
        "target tokens",
        "preset",
        "text.vocab_size",
        "data.batch_tokens",
        "train.steps",
        "memory",
    ):
        assert f"\n{name}" in f"\n{out}"
    assert "measuring for about 1 seconds" in err
    code, out, _ = transduce(*command, "--json")
    assert json.loads(out)["preset"] == "nano"
    assert sorted(tmp_path.iterdir()) == before


def test_durations_have_the_largest_suitable_unit() -> None:
    spelt = [format_duration(seconds) for seconds in (1.4, 119.0, 300.0, 10_000.0, 300_000.0)]
    assert spelt == [
        "about 1 seconds",
        "about 119 seconds",
        "about 5 minutes",
        "about 3 hours",
        "about 3 days",
    ]


def test_a_corpus_of_which_no_pair_fits_cannot_be_planned() -> None:
    with pytest.raises(DataError, match="none of the pairs has 4 tokens or fewer"):
        make_plan(
            PairList([Pair(f"{i} a b c d e", "f g h i j") for i in range(50)]),
            None,
            [SHORT_PAIRS],
            1.0,
            lambda line: None,
        )


def test_the_vocabulary_of_a_plan_is_that_of_the_whole_corpus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(
        pairs_task, "choose_vocabulary_size", lambda n_lines: asked.append(n_lines) or 500
    )
    monkeypatch.setattr(planning, "MAX_PAIRS", 200)
    make_plan(PAIRS, None, [], 0.01, lambda line: None)
    assert asked == [800]
