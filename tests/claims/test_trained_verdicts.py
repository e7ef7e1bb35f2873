"""The verdicts of experiments that train: each follows from the numbers and needs its cause."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import pytest

from transduce.claims import claims
from transduce.claims.claim import IN_PART, INCONCLUSIVE, REFUTED, SHOWN, Result
from transduce.claims.lab import Evaluation, Lab

UNTRAINED = 0.02  # share of the steps after which models have learned nothing yet
TRAINED = [name for name, claim in claims().items() if not claim.is_fast]


@pytest.fixture(scope="module")
def untrained() -> Lab:
    return Lab(effort=UNTRAINED)


@pytest.fixture(scope="module")
def lab() -> Lab:
    return Lab()


@pytest.mark.parametrize(
    "name",
    ["positions", "heads", "key_size", "depth_width", "regularisation", "warmup", "residuals"],
)
def test_comparisons_of_untrained_models_are_inconclusive(name: str, untrained: Lab) -> None:
    result = claims()[name].run(untrained, seeds=(1,))
    assert result.verdict == INCONCLUSIVE
    assert all(len(row) == len(result.headers) for row in result.rows)


def test_an_untrained_lstm_and_transformer_are_inconclusive(
    untrained: Lab,
) -> None:
    assert claims()["recall"].run(untrained, lengths=(2, 3)).verdict == INCONCLUSIVE


def test_untrained_heads_are_inconclusive(untrained: Lab) -> None:
    assert claims()["resolution"].run(untrained).verdict == INCONCLUSIVE


def test_a_beam_of_one_finds_nothing_better(untrained: Lab) -> None:
    assert claims()["beam"].run(untrained, widths=(1, 1), n_sentences=5).verdict == REFUTED
    assert claims()["beam"].run(untrained, widths=(1, 4), n_sentences=5).verdict == IN_PART


@pytest.mark.parametrize(
    ("gained", "lost", "verdict"),
    [(5, 0, SHOWN), (4, 0, IN_PART), (8, 2, IN_PART), (9, 2, SHOWN), (0, 5, IN_PART)],
)
def test_beam_search_is_shown_in_full_only_if_the_sign_test_is_significant(
    gained: int, lost: int, verdict: str, untrained: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = {1: [False] * gained + [True] * lost, 8: [True] * gained + [False] * lost}

    def search_with(
        translator: object, pairs: object, beam: int
    ) -> tuple[float, float, float, list[bool]]:
        return 0.1 * (beam > 1), 0.5, 0.5, exact[beam]

    monkeypatch.setattr(import_module("transduce.claims.beam"), "search_with", search_with)
    assert claims()["beam"].run(untrained, widths=(1, 8)).verdict == verdict


@pytest.mark.parametrize(
    ("near", "far", "far_in_the_end", "verdict"),
    [
        (1.0, 0.1, 0.1, SHOWN),
        (1.0, 0.1, 0.7, IN_PART),
        (1.0, 1.0, 1.0, REFUTED),
        (0.5, 0.1, 0.1, INCONCLUSIVE),
    ],
)
def test_recall_is_shown_in_full_only_if_more_training_does_not_help(
    near: float,
    far: float,
    far_in_the_end: float,
    verdict: str,
    lab: Lab,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def train_to_repeat(model: object, n: int, steps: int, rate: float) -> float:
        is_lstm = type(model).__name__ == "Seq2Seq"
        return 1.0 if not is_lstm else near if n == 2 else far if steps == 500 else far_in_the_end

    monkeypatch.setattr(
        import_module("transduce.claims.recall"), "train_to_repeat", train_to_repeat
    )
    assert claims()["recall"].run(lab, lengths=(2, 16)).verdict == verdict


def test_a_control_that_has_not_learned_is_reported(
    untrained: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    warmup = import_module("transduce.claims.warmup")
    evaluations = [
        [Evaluation(0.1, 1.0, 1.0)],
        [Evaluation(3.0, 0.2, 0.0)],
        [Evaluation(1.0, 0.5, 0.02)],
    ]
    monkeypatch.setattr(
        warmup,
        "train_each",
        lambda lab, variants, seeds: dict(zip(variants, evaluations, strict=True)),
    )
    result = claims()["warmup"].run(untrained)
    assert result.verdict == IN_PART
    assert result.control.endswith(
        "(2% exact): it has not learned, so the rate itself may be too high."
    )


def test_without_averaging_the_claim_is_inconclusive() -> None:
    lab = Lab(effort=0.25)
    assert claims()["averaging"].run(lab, seeds=(1,), averaged=False).verdict == INCONCLUSIVE


def feed(
    monkeypatch: pytest.MonkeyPatch,
    lab: Lab,
    name: str,
    losses: Sequence[Sequence[float]],
    **exact: Sequence[float],
) -> Result:
    """Run an experiment with these losses in place of training.

    `losses` has a row for each variant and a number for each seed. `exact` are the shares of exact
    sentences of some variants, by name.
    """

    def train_each(
        lab: Lab, variants: Mapping[str, Any], seeds: Sequence[int], **common: Any
    ) -> dict[str, list[Evaluation]]:
        found = {}
        for variant, row in zip(variants, losses, strict=True):
            right = exact.get(variant.replace(" ", "_").replace(".", ""), [0.5] * len(row))
            found[variant] = [
                Evaluation(loss, 1.0, share) for loss, share in zip(row, right, strict=True)
            ]
        return found

    monkeypatch.setattr(import_module(f"transduce.claims.{name}"), "train_each", train_each)
    return claims()[name].run(lab)


LOW, MIDDLE, HIGH = [0.1, 0.2, 0.3], [0.25, 0.35, 0.45], [0.5, 0.6, 0.7]


@pytest.mark.parametrize(
    ("name", "losses", "verdict"),
    [
        ("heads", [HIGH, LOW, LOW, HIGH], SHOWN),
        ("heads", [MIDDLE, LOW, LOW, HIGH], IN_PART),
        ("heads", [LOW, MIDDLE, LOW, MIDDLE], INCONCLUSIVE),
        ("heads", [LOW, HIGH, HIGH, HIGH], REFUTED),
        ("key_size", [LOW, HIGH, HIGH, HIGH], SHOWN),
        ("key_size", [LOW, MIDDLE, HIGH, HIGH], IN_PART),
        ("key_size", [LOW, MIDDLE, LOW, MIDDLE], INCONCLUSIVE),
        ("key_size", [HIGH, MIDDLE, LOW, HIGH], REFUTED),
        ("depth_width", [MIDDLE, HIGH, HIGH, HIGH, [0.1], [0.1], [0.1]], SHOWN),
        ("depth_width", [MIDDLE, HIGH, HIGH, LOW, LOW, LOW, LOW], IN_PART),
        ("depth_width", [MIDDLE, LOW, LOW, LOW, LOW, LOW, LOW], INCONCLUSIVE),
        ("depth_width", [MIDDLE, [0.1], LOW, LOW, LOW, LOW, LOW], REFUTED),
    ],
)
def test_a_verdict_follows_from_what_every_seed_shows(
    name: str, losses: list[list[float]], verdict: str, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert feed(monkeypatch, lab, name, losses).verdict == verdict


@pytest.mark.parametrize(
    ("name", "losses", "verdict"),
    [
        ("warmup", [LOW, [0.9], LOW], SHOWN),
        ("warmup", [LOW, HIGH, HIGH], IN_PART),
        ("warmup", [LOW, MIDDLE, LOW], INCONCLUSIVE),
        ("warmup", [HIGH, LOW, LOW], REFUTED),
        ("residuals", [LOW, HIGH, HIGH], SHOWN),
        ("residuals", [LOW, MIDDLE, HIGH], IN_PART),
        ("residuals", [LOW, MIDDLE, MIDDLE], INCONCLUSIVE),
        ("residuals", [HIGH, LOW, HIGH], REFUTED),
    ],
)
def test_the_verdict_on_a_part_of_training_follows_from_the_losses(
    name: str,
    losses: list[list[float]],
    verdict: str,
    untrained: Lab,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert feed(monkeypatch, untrained, name, losses).verdict == verdict


def test_dropout_and_smoothing_are_judged_apart(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    more, less = {"smoothing_01": [0.8, 0.8, 0.9]}, {"smoothing_01": [0.1, 0.2, 0.2]}
    name = "regularisation"
    assert feed(monkeypatch, lab, name, [MIDDLE, [0.1] * 3, LOW, HIGH], **more).verdict == SHOWN
    assert feed(monkeypatch, lab, name, [MIDDLE, [0.1] * 3, LOW, HIGH]).verdict == IN_PART
    assert feed(monkeypatch, lab, name, [MIDDLE, MIDDLE, MIDDLE, MIDDLE]).verdict == INCONCLUSIVE
    assert (
        feed(monkeypatch, lab, name, [MIDDLE, HIGH, HIGH, LOW[:2] + LOW[:1]], **less).verdict
        == REFUTED
    )


SLOW: dict[str, tuple[dict[str, Any], str]] = {  # arguments that remove the cause, and the verdict
    "resolution": ({"offsets": (1,)}, REFUTED),
    "positions": ({"sinusoidal": False, "seeds": (1, 2)}, REFUTED),
    "key_size": ({"sizes": (8,), "seeds": (1, 2)}, INCONCLUSIVE),
    "depth_width": ({"is_size_changed": False, "seeds": (1, 2)}, INCONCLUSIVE),
    "regularisation": ({"is_changed": False, "seeds": (1, 2)}, INCONCLUSIVE),
    "residuals": ({"removed": False, "seeds": (1,)}, INCONCLUSIVE),
    "averaging": ({"averaged": False}, INCONCLUSIVE),
    "recall": ({"both_attend": True, "lengths": (2, 8)}, REFUTED),
}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_at_a_low_rate_a_warm_up_is_not_needed(lab: Lab) -> None:
    assert claims()["warmup"].run(lab, peak=0.001).verdict != SHOWN


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", SLOW)
def test_without_its_cause_a_trained_claim_is_not_shown(name: str, lab: Lab) -> None:
    cause, verdict = SLOW[name]
    result = claims()[name].run(lab, **cause)
    assert result.verdict == verdict, f"{result.says} {result.control}"


def test_every_claim_has_a_test_that_changes_its_verdict() -> None:
    from tests.claims.test_verdicts import FLIPS

    fed = {"heads", "key_size", "depth_width", "regularisation"}
    small = {"recall", "resolution", "beam", "averaging"}
    assert {*FLIPS, *SLOW, *fed, *small, "warmup"} == set(claims())
    assert all(len({verdict for _, verdict in flips}) > 1 for _, flips in FLIPS.values())
