"""Matrix products in bfloat16 do not make a trained model measurably worse."""

from pathlib import Path

import pytest
from rich.console import Console

from transduce.config import Layer
from transduce.decode.translator import Translator
from transduce.grammar import generate
from transduce.model_folder import BUILTIN, load_model
from transduce.text.corpus import PairList
from transduce.training.demo import score_held_out
from transduce.training.run import train_task
from transduce.training.tasks.pairs import PairsTask

N_TEST = 300


@pytest.mark.slow
@pytest.mark.timeout(900)  # a processor without bfloat16 imitates it slowly
def test_fine_tuning_in_bfloat16_is_as_good_as_in_float32(
    tmp_path: Path,
) -> None:
    corpus = PairList(list(generate("en-it", 3000, seed=21)))
    recipe: Layer = {
        "data": {"batch_tokens": 256},
        "train": {"steps": 40, "learning_rate": 1e-3, "warmup_steps": 10},
    }
    found = {}
    for precision in ("float32", "bfloat16"):
        settings = [recipe, {"train": {"precision": precision, "validate_every": 40}}]
        run = tmp_path / precision
        folder = train_task(
            run, PairsTask(corpus), None, settings, Console(quiet=True), start=BUILTIN
        )
        match, bleu = score_held_out(Translator(folder), N_TEST)
        found[precision] = (match.value, bleu.value, load_model(run).card["valid_loss"])
    exact, rough = found["float32"], found["bfloat16"]
    assert exact != rough, "they are two computations"
    assert rough[0] >= exact[0] - 1.0, found
    assert rough[1] >= exact[1] - 0.5, found
    assert rough[2] == pytest.approx(exact[2], abs=0.01), found
