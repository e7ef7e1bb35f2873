import itertools
import json
import math
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.data.test_order import random_examples
from transduce.config import ModelConfig
from transduce.errors import DataError, UsageError
from transduce.evaluation.likelihood import loss, perplexity
from transduce.evaluation.metrics import (
    Score,
    bleu,
    compare,
    corpus_scores,
    exact_match,
)
from transduce.grammar import generate
from transduce.model import Transformer


def test_bleu_carries_its_signature_and_is_100_for_the_reference() -> None:
    texts = ["Il gatto nero dorme molto bene.", "Ti amo molto, amico mio."]
    score = bleu(texts, texts)
    assert score.value == pytest.approx(100)
    assert "tok:13a" in score.signature
    assert "version:" in score.signature


def test_bleu_depends_on_the_tokenisation_and_says_so() -> None:
    found, references = ["Ti amo molto, amico mio caro."], ["Ti amo molto , amico mio caro ."]
    assert (
        bleu(found, references, tokenize="13a").value
        > bleu(found, references, tokenize="none").value
    )
    assert "tok:none" in bleu(found, references, tokenize="none").signature


def test_an_unknown_tokenisation_names_the_known_ones() -> None:
    with pytest.raises(
        UsageError, match="unknown tokenisation 'moses': known: 13a, intl, char, zh, none"
    ):
        bleu(["a"], ["a"], tokenize="moses")


def test_exact_match_is_the_percentage_of_equal_lines() -> None:
    assert exact_match(["a", "b", "c", "d"], ["a", "x", "c", "D"]).value == 50


@pytest.mark.parametrize("score", [bleu, exact_match, corpus_scores])
def test_unequal_and_empty_lists_are_refused(score) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DataError, match="2 translations but 1 references"):
        score(["a", "b"], ["a"])
    with pytest.raises(DataError, match="nothing to evaluate"):
        score([], [])


def test_the_loss_of_a_model_that_knows_nothing_is_the_logarithm_of_the_vocabulary() -> None:
    model = Transformer(
        ModelConfig(vocab_size=300, n_layers=1, d_model=22, d_ff=37, n_heads=2)
    ).eval()
    with torch.no_grad():
        model.source_embedding.weight.zero_()
    for batch_tokens in (64, 4096):
        value = loss(model, random_examples(50), batch_tokens).value
        assert value == pytest.approx(torch.tensor(300.0).log().item(), abs=1e-4)


def test_perplexity_is_the_exponential_of_the_loss() -> None:
    found = perplexity(Score("loss", math.log(17), "nats"))
    assert (found.name, found.signature) == ("perplexity", "nats")
    assert found.value == pytest.approx(17)


def test_a_match_with_any_reference_is_exact() -> None:
    assert exact_match(["a", "b", "c", "d"], ["a", "x", "x", "x"], ["y", "b", "y", "y"]).value == 50


def spoil(texts: list[str], share: float, seed: int) -> list[str]:
    """Texts in which a share of the words is another word."""
    draw = random.Random(seed)
    words = [word for text in texts for word in text.split()]
    return [
        " ".join(draw.choice(words) if draw.random() < share else w for w in text.split())
        for text in texts
    ]


TARGETS = [pair.target for pair in generate("en-it", 150, seed=4)]


@pytest.mark.parametrize("tokenize", ["13a", "none"])
@pytest.mark.parametrize("n_references", [1, 3])
def test_scores_and_signatures_are_those_of_the_sacrebleu_command(
    tokenize: str, n_references: int, tmp_path: Path
) -> None:
    texts = [f"{text}, e \u201cpoi\u201d (non) dorme." for text in TARGETS]
    found, references = (
        spoil(texts, 0.3, 0),
        [spoil(texts, 0.1, seed) for seed in range(1, 1 + n_references)],
    )
    for name, lines in (
        ("found", found),
        *((f"right{i}", lines) for i, lines in enumerate(references)),
    ):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "sacrebleu",
        *(f"right{i}" for i in range(n_references)),
        "-i",
        "found",
    ]
    command += ["-m", "bleu", "chrf", "ter", "-tok", tokenize, "-w", "9", "--format", "json"]
    told = json.loads(
        subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    )
    ours = corpus_scores(found, *references, tokenize=tokenize)
    assert [score.name for score in ours] == ["BLEU", "chrF2", "TER"]
    for score, theirs in zip(ours, told, strict=True):
        assert (score.name, score.signature) == (theirs["name"], theirs["signature"])
        assert score.value == pytest.approx(theirs["score"], abs=1e-8)


def test_a_planted_better_system_is_found_and_a_copy_is_not() -> None:
    first, better = spoil(TARGETS, 0.3, 1), spoil(TARGETS, 0.1, 2)
    rows = compare({"first": first, "better": better, "copy": list(first)}, TARGETS)
    assert [(row.system, row.score.name) for row in rows] == [
        (system, name)
        for name in ("BLEU", "chrF2", "TER")
        for system in ("first", "better", "copy")
    ]
    for base, good, copy in (rows[:3], rows[3:6], rows[6:]):
        assert (base.difference, base.p_bootstrap, base.p_randomisation) == (None, None, None)
        assert (copy.difference, copy.p_bootstrap, copy.p_randomisation) == (0, 1, 1)
        assert good.difference == pytest.approx(good.score.value - base.score.value)
        assert (good.difference < 0) == (good.score.name == "TER")
        assert good.p_bootstrap is not None
        assert good.p_randomisation is not None
        assert max(good.p_bootstrap, good.p_randomisation) < 0.01
        assert good.interval > 0
        assert "bs:1000|ar:10000|seed:12345" in good.score.signature
    for row, score in zip(rows[1::3], corpus_scores(better, TARGETS), strict=True):
        assert row.score.value == pytest.approx(score.value)


@pytest.mark.parametrize(
    ("n_better", "n_worse"), [(1, 0), (2, 0), (5, 0), (8, 0), (7, 1), (6, 2), (3, 3)]
)
def test_p_of_randomisation_is_that_of_trying_all_exchanges(n_better: int, n_worse: int) -> None:
    """Where few sentences differ all exchanges can be tried. At 10,000 trials four standard errors are at most 0.02.

    A wrong word in a line, so that many exchanges are as far apart as what was observed.
    """
    right, wrong = TARGETS[:30], [f"{line.rsplit(' ', 1)[0]} x" for line in TARGETS[:30]]
    first, other = (
        [*wrong[:n_better], *right[n_better:]],
        [*right[:-n_worse], *wrong[-n_worse:]] if n_worse else right,
    )
    places = [i for i in range(30) if first[i] != other[i]]
    found = {
        row.score.name: row
        for row in compare({"first": first, "other": other}, right)
        if row.difference
    }
    for name, row in found.items():
        larger = 0
        for flips in itertools.product((False, True), repeat=len(places)):
            one, two = list(first), list(other)
            for i in itertools.compress(places, flips):
                one[i], two[i] = two[i], one[i]
            scores = [
                {s.name: s.value for s in corpus_scores(lines, right)}[name] for lines in (one, two)
            ]
            larger += abs(scores[0] - scores[1]) >= abs(row.difference or 0) - 1e-9
        assert row.p_randomisation == pytest.approx(larger / 2 ** len(places), abs=0.02)


def test_two_systems_that_are_equally_bad_are_not_told_apart() -> None:
    first, second = spoil(TARGETS, 0.2, 1), spoil(TARGETS, 0.2, 2)
    for row in compare({"first": first, "second": second}, TARGETS)[1::2]:
        assert min(row.p_bootstrap or 1, row.p_randomisation or 1) > 0.05
