"""`transduce demo`: a Transformer learns English -> Italian here and now, is scored, and shows its time steps.

With `--lm` a language model learns Italian sentences, and writes some of its own.
"""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from transduce.config import Layer
from transduce.decode.options import Sampling
from transduce.decode.translator import Translator
from transduce.evaluation import metrics as evaluate
from transduce.grammar import generate
from transduce.inspection.steps import TimeStep, time_steps
from transduce.presets import RECIPES
from transduce.text.corpus import Pair, PairList
from transduce.text.running_text import TextList
from transduce.training.run import train_pairs
from transduce.training.run_text import train_documents

SENTENCE, TRANSLATION = "I love you very much", "Ti amo molto"
TRAIN_SEED, VALID_SEED, TEST_SEED = 1, 2, 3
N_TRAIN, N_VALID, N_TEST = 100_000, 500, 1000
N_SENTENCES, N_WRITTEN = 40_000, 10
RECIPE = RECIPES["demo"]


def run_demo(run: Path, out: Console, progress: Console) -> None:
    """Train, score and show; results on `out`, progress on `progress`."""
    progress.print(
        "A Transformer learns Italian. It knows nothing yet, and will see sentence pairs like these:"
    )
    for pair in generate("en-it", 4, seed=TRAIN_SEED):
        progress.print(f"    {pair.source}  ->  {pair.target}", highlight=False, markup=False)
    translator = train_grammar(run, RECIPE, progress)
    for score in score_held_out(translator):
        out.print(
            f"held-out {score.name}: {score.value:.1f}   ({score.signature})", highlight=False
        )
    out.print()
    show_steps(SENTENCE, time_steps(translator, SENTENCE), out)
    out.print()
    out.print(f"{SENTENCE}  ->  {translator.translate([SENTENCE])[0].text}", highlight=False)


def train_grammar(
    run: Path, recipe: Layer, progress: Console, n_pairs: int = N_TRAIN
) -> Translator:
    """Train the nano model on the generated English -> Italian corpus."""
    progress.print(f"making {n_pairs:,} of them", highlight=False)
    corpus = PairList(list(generate("en-it", n_pairs, seed=TRAIN_SEED)))
    watched = Pair(SENTENCE, TRANSLATION)  # shown at each validation
    valid = PairList([watched, *generate("en-it", N_VALID, seed=VALID_SEED, split="held-out")])
    return train_pairs(run, corpus, valid, "nano", [recipe], progress)


def score_held_out(
    translator: Translator, n: int = N_TEST
) -> tuple[evaluate.Score, evaluate.Score]:
    """Exact match and BLEU on sentences whose words were never seen together in training."""
    test = list(generate("en-it", n, seed=TEST_SEED, split="held-out"))
    found = [
        translation.text for translation in translator.translate([pair.source for pair in test])
    ]
    references = [pair.target for pair in test]
    return evaluate.exact_match(found, references), evaluate.bleu(found, references)


def show_steps(text: str, steps: Sequence[TimeStep], out: Console) -> None:
    """Time step by time step: what was read, what was written, and what else was thought of."""
    out.print(f'Inference of "{text}", one piece each time step:', highlight=False, markup=False)
    read = [" ".join(step.read) for step in steps]
    wide_read, wide_written = max(map(len, read)), max(len(step.written) for step in steps)
    for number, step in enumerate(steps, start=1):
        line = Text(f"  {number}  {read[number - 1]:<{wide_read}}  ->  ")
        line.append(f"{step.written:<{wide_written}}", style="bold green")
        line.append(
            "   " + "  ".join(f"{c.piece} {c.probability:.1%}" for c in step.candidates),
            style="dim",
        )
        out.print(line, highlight=False)


def run_text_demo(run: Path, out: Console, progress: Console) -> None:
    """Train and write; what the model wrote goes to `out`, progress to `progress`."""
    progress.print(
        "A language model learns to write Italian: the same layers as the translator's decoder, predicting the next word."
    )
    sentences = [pair.target for pair in generate("en-it", N_SENTENCES, seed=TRAIN_SEED)]
    document = "".join(f"{sentence}\n" for sentence in sentences)
    generator = train_documents(run, TextList([document]), "nano", [RECIPES["demo_text"]], progress)
    written = generator.generate("\n", 40, Sampling(temperature=0.8), N_WRITTEN, stop=["\n"])
    out.print(
        "It writes, one sentence after the other from its own random numbers:", highlight=False
    )
    known = set(sentences)
    for generation in written:
        mark = "  (in its training text)" if generation.text in known else ""
        out.print(f"    {generation.text}{mark}", highlight=False, markup=False)
    n_new = sum(generation.text not in known for generation in written)
    out.print(f"{n_new} of {N_WRITTEN} are new: it never read them.", highlight=False)
