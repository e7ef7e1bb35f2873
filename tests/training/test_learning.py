"""Learning to a stated score: the whole pipeline from pairs to a translator."""

from pathlib import Path

import pytest
from rich.console import Console

from transduce.decode.translator import Translator
from transduce.evaluation.metrics import exact_match
from transduce.grammar import generate
from transduce.text.corpus import PairList
from transduce.training.run import train_task
from transduce.training.tasks.pairs import PairsTask

RECIPE = {
    "model": {"n_layers": 1, "d_model": 64, "d_ff": 128, "n_heads": 4},
    "data": {"batch_tokens": 1024},
    "train": {
        "steps": 1000,
        "warmup_steps": 100,
        "learning_rate": 7e-3,
        "schedule": "cosine",
        "validate_every": 500,
        "save_every": 500,
        "average_last": 1,
    },
}


@pytest.mark.timeout(600)  # it trains for 20 seconds on an idle core
def test_reversing_a_sequence_is_learned_to_more_than_99_percent(tmp_path: Path) -> None:
    held_out = list(generate("reverse", 300, seed=2, split="held-out"))
    corpus = PairList(list(generate("reverse", 20_000, seed=1)))
    task = PairsTask(corpus, PairList(held_out[:50]))
    translator = Translator(
        train_task(tmp_path / "run", task, "nano", [RECIPE], Console(quiet=True))
    )
    found = [
        translation.text
        for translation in translator.translate([pair.source for pair in held_out], beam=1)
    ]
    assert exact_match(found, [pair.target for pair in held_out]).value > 99
