"""The arithmetic of the page agrees with Python's: sampling, penalties, entropy, percentages."""

import random
from pathlib import Path

import pytest
import torch

from tests.inspection.node import needs_node, run_js
from transduce.config import DecodeConfig
from transduce.decode.hypotheses import make_penalty
from transduce.decode.quality import has_repetition
from transduce.decode.sampling import reshape_distribution
from transduce.inspection.terminal import percent

pytestmark = needs_node


def test_temperature_top_k_and_top_p_leave_the_same_probabilities(tmp_path: Path) -> None:
    draw = random.Random(4)
    asked = [
        {
            "logits": [draw.gauss(0, 2) for _ in range(10)],
            "temperature": temperature,
            "topK": top_k,
            "topP": top_p,
        }
        for temperature in (0.3, 1.0, 2.5)
        for top_k in (1, 2, 5, 9, 10, 11)
        for top_p in (0.05, 0.3, 0.6, 0.9, 1.0)
    ]
    script = """
    import { shapeProbs } from "./math.js";
    answer(input.map(({ logits, temperature, topK, topP }) =>
      [...shapeProbs(logits, temperature, topK, topP)]));
    """
    for each, found in zip(asked, run_js(tmp_path, script, asked), strict=True):
        logits = torch.tensor(each["logits"], dtype=torch.float64)
        expected = reshape_distribution(logits, each["temperature"], each["topK"], each["topP"])
        assert found == pytest.approx(expected.exp().tolist(), abs=1e-9), each


def test_tokens_that_reach_top_p_exactly_are_enough_in_the_page_too(tmp_path: Path) -> None:
    script = """
    import { shapeProbs } from "./math.js";
    const probsOf = (topP) => [...shapeProbs([0, 0, 0, 0], 1, 4, topP)];
    answer([1, 2, 3].map((n) => probsOf(n / 4).filter((p) => p > 0).length));
    """
    assert run_js(tmp_path, script, None) == [1, 2, 3]


def test_length_penalties_are_the_same(tmp_path: Path) -> None:
    asked = [
        (kind, length, alpha)
        for kind in ("paper", "power")
        for length in (1, 2, 7, 60)
        for alpha in (0.0, 0.6, 1.0, 1.7)
    ]
    script = """
    import { lengthPenalty } from "./math.js";
    answer(input.map((each) => lengthPenalty(...each)));
    """
    for (kind, length, alpha), told in zip(asked, run_js(tmp_path, script, asked), strict=True):
        penalty = make_penalty(DecodeConfig(length_penalty=kind, alpha=alpha))
        assert told == pytest.approx(penalty(length)), (kind, length, alpha)


def test_spread_entropy_and_the_largest_are_pytorchs(tmp_path: Path) -> None:
    draw = random.Random(5)
    rows = [[draw.gauss(1, 3) for _ in range(n)] for n in (1, 2, 7, 22)]
    rows.append([2.0, 5.0, -7.0, 5.0])  # of equals the first
    script = """
    import { softmaxOf } from "./data.js";
    import { argmax, deviationOf, entropyOf, maxAbsOf } from "./math.js";
    import { meanOf, normOf, topIndices } from "./math.js";
    answer(input.map((row) => ({
      mean: meanOf(row),
      spread: deviationOf(row),
      length: normOf(row),
      largest: argmax(row),
      top: topIndices(row, 3),
      reach: maxAbsOf([...row, Infinity, NaN]),
      bits: entropyOf([...softmaxOf(row), 0]),
    })));
    """
    for row, told in zip(rows, run_js(tmp_path, script, rows), strict=True):
        x = torch.tensor(row, dtype=torch.float64)
        probs = torch.softmax(x, dim=0)
        order = torch.sort(x, descending=True, stable=True).indices
        assert told["mean"] == pytest.approx(float(x.mean()))
        assert told["spread"] == pytest.approx(float(x.std(correction=0)))
        assert told["length"] == pytest.approx(float(x.norm()))
        assert told["largest"] == int(x.argmax()) == told["top"][0]
        assert told["top"] == order[:3].tolist()
        assert told["reach"] == float(x.abs().max())
        assert told["bits"] == pytest.approx(float(-(probs * probs.log2()).sum()), abs=1e-9)


def test_a_probability_has_the_same_percentage_on_the_page_and_in_the_terminal(
    tmp_path: Path,
) -> None:
    """At the borders of the number of digits, and between them."""
    borders = [0.0, 9.9e-5, 1e-4, 0.0099, 0.01, 0.099, 0.1, 0.994, 0.9994, 0.9996, 1.0]
    shares = [*borders, *(10**-x for x in (0.1, 0.7, 1.3, 2.2, 3.4, 4.4, 7.0))]
    script = 'import { percent } from "./math.js"; answer(input.map(percent));'
    assert run_js(tmp_path, script, shares) == [percent(p) for p in shares]


def test_a_repetition_is_found_in_the_page_where_python_finds_it(tmp_path: Path) -> None:
    draw = random.Random(6)
    texts = [[draw.randrange(3) for _ in range(draw.randrange(40))] for _ in range(300)]
    texts += [
        [*range(90, 90 + before), *[*range(period)] * times, *range(period)[:rest], *range(60, 63)]
        for before in (0, 2)
        for period in (1, 2, 3, 11, 12, 13)
        for times in (3, 4, 7, 8)
        for rest in {0, period - 1}
    ]
    told = run_js(
        tmp_path,
        'import { hasRepetition } from "./model.js"; answer(input.map(hasRepetition));',
        texts,
    )
    assert told == [has_repetition(text) for text in texts]
    assert 50 < sum(told) < len(told) - 50
