"""`transduce demo`: train a small English -> Italian model, score it, show its time steps.

With `--lm`, train a small language model on Italian sentences and let it generate some.
"""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from transduce.config import Layer
from transduce.decode.generator import Generator
from transduce.decode.options import Sampling
from transduce.decode.translator import Translator
from transduce.evaluation.metrics import Score, bleu, exact_match
from transduce.grammar import generate
from transduce.inspection.steps import TimeStep, time_steps
from transduce.presets import RECIPES
from transduce.text.corpus import Pair, PairList
from transduce.text.running_text import TextList
from transduce.training.run import train_task
from transduce.training.tasks.pairs import PairsTask
from transduce.training.tasks.text import TextTask

SENTENCE, TRANSLATION = "I love you very much", "Ti amo molto"
TRAIN_SEED, VALID_SEED, TEST_SEED = 1, 2, 3
N_TRAIN, N_VALID, N_TEST = 100_000, 500, 1000
N_SENTENCES, N_GENERATED = 40_000, 10
RECIPE = RECIPES["demo"]


def run_demo(run: Path, out: Console, progress: Console) -> None:
    """Train, score and show a translator; results go to `out`, progress to `progress`."""
    progress.print("Training a Transformer on English -> Italian sentence pairs like these:")
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
    """Train the preset nano on `n_pairs` generated English -> Italian pairs."""
    progress.print(f"generating {n_pairs:,} pairs", highlight=False)
    corpus = PairList(list(generate("en-it", n_pairs, seed=TRAIN_SEED)))
    sample = Pair(SENTENCE, TRANSLATION)  # the first validation pair is shown at each validation
    valid = PairList([sample, *generate("en-it", N_VALID, seed=VALID_SEED, split="held-out")])
    folder = train_task(run, PairsTask(corpus, valid), "nano", [recipe], progress)
    return Translator(folder)


def score_held_out(translator: Translator, n: int = N_TEST) -> tuple[Score, Score]:
    """Return exact match and BLEU on `n` sentences with word combinations not seen in training."""
    test = list(generate("en-it", n, seed=TEST_SEED, split="held-out"))
    translations = translator.translate([pair.source for pair in test])
    texts = [translation.text for translation in translations]
    references = [pair.target for pair in test]
    return exact_match(texts, references), bleu(texts, references)


def show_steps(text: str, steps: Sequence[TimeStep], out: Console) -> None:
    """Print a table of time steps: the decoder input, the chosen token, and the candidates."""
    out.print(f'Inference of "{text}", one token per time step:', highlight=False, markup=False)
    inputs = [" ".join(step.read) for step in steps]
    input_width = max(map(len, inputs))
    output_width = max(len(step.written) for step in steps)
    for number, (tokens, step) in enumerate(zip(inputs, steps, strict=True), start=1):
        line = Text(f"  {number}  {tokens:<{input_width}}  ->  ")
        line.append(f"{step.written:<{output_width}}", style="bold green")
        candidates = "  ".join(f"{each.token} {each.probability:.1%}" for each in step.candidates)
        line.append(f"   {candidates}", style="dim")
        out.print(line, highlight=False)


def run_text_demo(run: Path, out: Console, progress: Console) -> None:
    """Train a language model; its text goes to `out`, progress to `progress`."""
    progress.print(
        "Training a language model on Italian sentences: "
        "the layers of the translator's decoder, predicting the next token."
    )
    sentences = [pair.target for pair in generate("en-it", N_SENTENCES, seed=TRAIN_SEED)]
    document = "".join(f"{sentence}\n" for sentence in sentences)
    task = TextTask(TextList([document]))
    generator = Generator(train_task(run, task, "nano", [RECIPES["demo_text"]], progress))
    generated = generator.generate("\n", 40, Sampling(temperature=0.8), N_GENERATED, stop=["\n"])
    out.print(f"{N_GENERATED} sampled sentences:", highlight=False)
    known = set(sentences)
    for generation in generated:
        mark = "  (in the training text)" if generation.text in known else ""
        out.print(f"    {generation.text}{mark}", highlight=False, markup=False)
    n_new = sum(generation.text not in known for generation in generated)
    out.print(f"{n_new} of {N_GENERATED} are not in the training text.", highlight=False)
