"""Make the model that ships inside the package: `make builtin`, or `python -m transduce.training.builtin`.

The nano shape on the whole English -> Italian grammar, trained longer than the demo and stored as float16 to stay small.
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
    """Train, store, load what was stored, score that, and write the scores on its card."""
    console = Console(stderr=True, soft_wrap=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = train_grammar(Path(temporary) / "run", RECIPE, console, N_PAIRS).folder
    card = {
        **folder.card,
        "made_by": "make builtin",
        "corpus": f"transduce.grammar: generate('en-it', {N_PAIRS}, seed={TRAIN_SEED}), the whole grammar",
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
