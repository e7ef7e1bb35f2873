"""Train the built-in model: `make builtin`, or `python -m transduce.training.builtin`.

It is the preset nano on the whole English -> Italian grammar, trained longer than the demo and
stored in float16.
"""

import tempfile
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from transduce.decode.load import load
from transduce.model_folder import BUILTIN, save_model
from transduce.presets import RECIPES
from transduce.training.demo import TRAIN_SEED, score_held_out, train_grammar

N_PAIRS = 400_000
RECIPE = RECIPES["builtin"]


def main() -> None:
    """Train and save the model, score the saved model, and add the scores to its card."""
    console = Console(stderr=True, soft_wrap=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = train_grammar(Path(temporary) / "run", RECIPE, console, N_PAIRS).folder
    corpus = f"generate('en-it', {N_PAIRS}, seed={TRAIN_SEED})"
    card = {
        **folder.card,
        "made_by": "make builtin",
        "corpus": f"transduce.grammar: {corpus}, the whole grammar",
        "weights": "float16",
    }
    save_model(BUILTIN, replace(folder, card=card), "float16")
    scores = {
        f"held_out_{score.name}".replace(" ", "_"): score.value for score in score_held_out(load())
    }
    save_model(BUILTIN, replace(folder, card={**card, **scores}), "float16")
    console.print(f"{BUILTIN}: {scores}")


if __name__ == "__main__":
    main()
