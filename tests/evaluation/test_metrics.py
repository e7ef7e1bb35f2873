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
        UsageError, match="unknown tokenizer 'moses'; known: 13a, intl, char, zh, none"
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


def test_the_loss_of_a_uniform_model_is_the_logarithm_of_the_vocabulary_size() -> None:
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
    """Replace a share of the words of each text by random words."""
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
    expected = json.loads(
        subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    )
    ours = corpus_scores(found, *references, tokenize=tokenize)
    assert [score.name for score in ours] == ["BLEU", "chrF2", "TER"]
    for score, theirs in zip(ours, expected, strict=True):
        assert (score.name, score.signature) == (theirs["name"], theirs["signature"])
        assert score.value == pytest.approx(theirs["score"], abs=1e-8)
