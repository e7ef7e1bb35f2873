"""`transduce demo --lm`: a language model learns Italian sentences here and now, and writes some of its own."""

from pathlib import Path

from rich.console import Console

from transduce.app.demo import TRAIN_SEED
from transduce.app.run_text import train_documents
from transduce.decode.how import Sampling
from transduce.presets import RECIPES
from transduce.text.documents import TextList
from transduce.text.grammar import generate

N_SENTENCES, N_WRITTEN = 40_000, 10
RECIPE = RECIPES["demo_text"]


def run_text_demo(run: Path, out: Console, progress: Console) -> None:
    """Train and write; what the model wrote goes to `out`, progress to `progress`."""
    progress.print(
        "A language model learns to write Italian: the same layers as the translator's decoder, predicting the next word."
    )
    sentences = [pair.target for pair in generate("en-it", N_SENTENCES, seed=TRAIN_SEED)]
    document = "".join(f"{sentence}\n" for sentence in sentences)
    generator = train_documents(run, TextList([document]), "nano", [RECIPE], progress)
    written = generator.generate("\n", 40, Sampling(temperature=0.8), N_WRITTEN, stop=["\n"])
    out.print("It writes, one sentence after the other from its own random numbers:", highlight=False)
    known = set(sentences)
    for generation in written:
        mark = "  (in its training text)" if generation.text in known else ""
        out.print(f"    {generation.text}{mark}", highlight=False, markup=False)
    n_new = sum(generation.text not in known for generation in written)
    out.print(f"{n_new} of {N_WRITTEN} are new: it never read them.", highlight=False)
