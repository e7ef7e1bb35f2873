"""Every verdict can change: without its cause or its control an experiment gives another."""

from typing import Any

import pytest

from transduce.claims import claims
from transduce.claims.claim import IN_PART, INCONCLUSIVE, REFUTED, SHOWN, VERDICTS
from transduce.claims.lab import Lab, is_clearly_lower

# Arguments that make an experiment small; then the verdict as it is, and without cause or control.
FLIPS: dict[str, tuple[dict[str, Any], list[tuple[dict[str, Any], str]]]] = {
    "permutation": (
        {"n_sentences": 3},
        [
            ({}, SHOWN),
            ({"order_counts": True}, REFUTED),
            ({"control_knows_order": False}, INCONCLUSIVE),
        ],
    ),
    "no_parameters": (
        {"n_sentences": 100},
        [
            ({}, SHOWN),
            ({"meaningful": False}, REFUTED),
            ({"control_meaningful": True}, INCONCLUSIVE),
        ],
    ),
    "causal_mask": (
        {},
        [({}, SHOWN), ({"mask": False}, REFUTED), ({"control_mask": True}, INCONCLUSIVE)],
    ),
    "scale": (
        {},
        [({}, SHOWN), ({"scaled": False}, REFUTED), ({"control_scaled": True}, INCONCLUSIVE)],
    ),
    "path_length": (
        {},
        [({}, SHOWN), ({"window": 3}, REFUTED), ({"recurrent": False}, INCONCLUSIVE)],
    ),
    "sequential_steps": (
        {"tries": 1},
        [({}, SHOWN), ({"one_by_one": True}, REFUTED), ({"control_waits": False}, INCONCLUSIVE)],
    ),
    "quadratic_cost": (
        {},
        [({}, SHOWN), ({"window": 16}, REFUTED), ({"control_window": None}, INCONCLUSIVE)],
    ),
    "sinusoids": (
        {},
        [
            ({}, SHOWN),
            ({"table": "random"}, REFUTED),
            ({"control_table": "sinusoids"}, INCONCLUSIVE),
        ],
    ),
    "teacher_forcing": (
        {"n_sentences": 3},
        [({}, SHOWN), ({"mask": False}, REFUTED), ({"control_mask": True}, INCONCLUSIVE)],
    ),
    "temperature": ({"n_sentences": 5}, [({}, SHOWN), ({"applied": False}, REFUTED)]),
    "alignment": ({"n_sentences": 20}, [({}, SHOWN), ({"shift": 1}, REFUTED)]),
    "diagonal": ({"n_sentences": 5}, [({}, REFUTED), ({"trained": False}, SHOWN)]),
    "heads_removed": ({"n_sentences": 12}, [({}, IN_PART), ({"muted": False}, INCONCLUSIVE)]),
    "context": ({}, [({}, SHOWN), ({"attention": False}, REFUTED)]),
    "similar_words": (
        {},
        [({}, IN_PART), ({"meaningful": False}, REFUTED)],
    ),
    "layers": (
        {"n_sentences": 5},
        [({}, SHOWN), ({"early": False}, IN_PART), ({"early": False, "exchanged": False}, REFUTED)],
    ),
    "closest_word": ({"n_sentences": 5}, [({}, SHOWN), ({"shared": False}, REFUTED)]),
}


@pytest.fixture(scope="module")
def lab() -> Lab:
    return Lab()


@pytest.mark.parametrize("name", FLIPS)
def test_a_verdict_changes_with_its_cause_and_with_its_control(name: str, lab: Lab) -> None:
    small, flips = FLIPS[name]
    claim = claims()[name]
    for cause, verdict in flips:
        result = claim.run(lab, **small, **cause)
        assert result.verdict == verdict, f"{cause}: {result.says} {result.control}"
        assert result.verdict in VERDICTS
        assert all(len(row) == len(result.headers) for row in result.rows)
        for plot in result.plots:
            assert {len(series.values) for series in plot.series} == {len(plot.labels)}


def test_a_difference_is_clear_if_every_seed_shows_it() -> None:
    assert is_clearly_lower([1.0, 2.0], [2.5, 3.0])
    assert not is_clearly_lower([1.0, 2.6], [2.5, 3.0])
    assert not is_clearly_lower([1.0], [1.0])
