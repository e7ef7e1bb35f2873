"""What the stop rule of beam search (docs/translating.md) finds and costs, in both engines.

    python bench/stop_rule.py [--data DIR] [--only grammar|multi30k] [--rounds 3] [--sentences N]

Translates 7,000 held-out sentences of the grammar with the built-in model. With DIR
(Multi30k: test_2016_flickr and val, *.lc.norm.tok.*.gz) also 2,000 sentences with
results/multi30k-en-de/model. Compared are rules that end beam search with 1, 2 or 3 times the beam
of hypotheses, without or with greedy search of uncertain results. Times are CPU seconds, and their
ratio to the first rule: medians over interleaved rounds. Prints a JSON line per measurement, per
line that differs, and per bar.
"""

import argparse
import gzip
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transduce.config import DecodeConfig
from transduce.decode.engines import base
from transduce.decode.engines import ctranslate2 as ctranslate2_engine
from transduce.decode.engines.base import Engine, SearchInput, search_all
from transduce.decode.engines.torch import SearchPlan
from transduce.decode.hypotheses import Hypothesis, needs_greedy
from transduce.decode.load import load_translator
from transduce.decode.options import TranslateOptions
from transduce.decode.search import collect
from transduce.decode.translator import Translator

BEAM = 4
TOLERANCE = 1e-4
SEED = 2026
MOST_OF_THOUSAND = 2.0
MULTI30K = Path(__file__).parent.parent / "results" / "multi30k-en-de" / "model"


@dataclass(frozen=True)
class Rule:
    """A stop rule."""

    ends_per_beam: int
    has_greedy: bool

    def __str__(self) -> str:
        return f"{self.ends_per_beam} x beam" + (" and greedy" if self.has_greedy else "")


OLD, NEW = Rule(1, False), Rule(2, True)
RULES = {  # what a rule finds is the same in both engines
    "torch": (OLD, NEW),
    "ctranslate2": (OLD, Rule(1, True), Rule(2, False), NEW, Rule(3, False)),
}


class Corpus:
    """Sentences, their references, and the model that translates them."""

    def __init__(self, name: str, model: Path | None, pairs: Sequence[tuple[str, str]]) -> None:
        self.name = name
        self.sources = [source for source, _ in pairs]
        self.references = [target for _, target in pairs]
        self.engines: dict[str, Engine] = {}
        for engine in ("torch", "ctranslate2"):
            self.translator: Translator = load_translator(model, engine=engine)
            options = TranslateOptions(DecodeConfig(beam=BEAM))
            self.engines[engine] = self.translator.engine(options).engine
        ids = self.translator.source_vocabulary.encode_batch(self.sources)
        self.inputs = [SearchInput(tuple(each)) for each in ids]

    def texts(self, found: Sequence[Hypothesis]) -> list[str]:
        return [self.translator.target_vocabulary.decode(each.ids) for each in found]


def show(**row: Any) -> None:
    print(json.dumps(row, ensure_ascii=False), flush=True)


def bar(name: str, value: float, target: float) -> None:
    show(bar=name, value=round(value, 3), target=target, holds=value <= target)


def read_corpora(data: Path | None, only: str | None, most: int | None) -> Iterator[Corpus]:
    from transduce.grammar import generate

    if only != "multi30k":
        pairs = generate("en-it", 7000, seed=SEED, split="held-out")
        yield Corpus("grammar", None, [(pair.source, pair.target) for pair in pairs][:most])
    if data is not None and only != "grammar":
        sides = []
        for side in ("en", "de"):
            parts = [data / f"{name}.lc.norm.tok.{side}.gz" for name in ("test_2016_flickr", "val")]
            texts = [gzip.decompress(part.read_bytes()).decode() for part in parts]
            sides.append([line for text in texts for line in text.split("\n")[:-1]][:2000])
        yield Corpus("multi30k", MULTI30K, list(zip(*sides, strict=True))[:most])


def set_rule(rule: Rule) -> None:
    """Make both engines search under a rule."""

    def search(plan: SearchPlan) -> list[list[Hypothesis]]:
        limited = replace(plan, n_ends=1 if plan.width == 1 else rule.ends_per_beam * plan.width)
        # The rule before this one never ended a search early.
        n_best = None if rule == OLD else plan.n_best
        return collect(limited.explore(n_best), len(plan.max_lengths))

    SearchPlan.search = search  # type: ignore[method-assign]
    ctranslate2_engine.ENDS_PER_BEAM = rule.ends_per_beam  # type: ignore[misc]
    base.needs_greedy = needs_greedy if rule.has_greedy else lambda hypotheses: False  # type: ignore[attr-defined]


def timed(engine: Engine, corpus: Corpus, beam: int) -> tuple[float, list[Hypothesis]]:
    """Return the CPU seconds of a search and the best hypotheses."""
    started = time.process_time()
    found = search_all(engine, corpus.inputs, TranslateOptions(DecodeConfig(beam=beam)))
    return time.process_time() - started, [hypotheses[0] for hypotheses in found]


def bleu(texts: Sequence[str], references: Sequence[str]) -> float:
    from sacrebleu.metrics import BLEU

    return float(BLEU(tokenize="none", force=True).corpus_score(texts, [references]).score)


def n_better(ours: Sequence[Hypothesis], theirs: Sequence[Hypothesis]) -> int:
    """Return how many of `ours` have the higher score."""
    return sum(a.score > b.score + TOLERANCE for a, b in zip(ours, theirs, strict=True))


def compare(corpus: Corpus, rounds: int) -> None:
    n = len(corpus.inputs)
    found: dict[tuple[str, Rule], list[Hypothesis]] = {}
    seconds: dict[tuple[str, Rule], list[float]] = {}
    greedy = {name: timed(engine, corpus, 1)[1] for name, engine in corpus.engines.items()}
    for _ in range(rounds):
        for name, engine in corpus.engines.items():
            for rule in RULES[name]:
                set_rule(rule)
                elapsed, found[name, rule] = timed(engine, corpus, BEAM)
                seconds.setdefault((name, rule), []).append(elapsed)
    for (name, rule), best in found.items():
        ratios = [a / b for a, b in zip(seconds[name, rule], seconds[name, OLD], strict=True)]
        show(
            corpus=corpus.name,
            sentences=n,
            engine=name,
            rule=str(rule),
            mean_score=round(statistics.fmean(each.score for each in best), 5),
            bleu=round(bleu(corpus.texts(best), corpus.references), 2),
            greedy_is_better=n_better(greedy[name], best),
            cpu_seconds=round(statistics.median(seconds[name, rule]), 2),
            time_ratio=round(statistics.median(ratios), 3),
        )
    ours, theirs = found["torch", NEW], found["ctranslate2", NEW]
    pairs = zip(corpus.sources, ours, theirs, strict=True)
    different = [each for each in pairs if abs(each[1].score - each[2].score) > TOLERANCE]
    for source, a, b in different:
        show(source=source, torch=corpus.texts([a])[0], ctranslate2=corpus.texts([b])[0],
             scores=[round(a.score, 5), round(b.score, 5)])  # fmt: skip
    name = f"{corpus.name}, of 1,000 lines"
    bar(f"engines differ in score, {name}", 1000 * len(different) / n, MOST_OF_THOUSAND)
    for engine in corpus.engines:
        worse = 1000 * n_better(greedy[engine], found[engine, NEW]) / n
        bar(f"greedy is better, {engine}, {name}", worse, MOST_OF_THOUSAND)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", choices=["grammar", "multi30k"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sentences", type=int, help="of each corpus; left out: all")
    arguments = parser.parse_args()
    for corpus in read_corpora(arguments.data, arguments.only, arguments.sentences):
        compare(corpus, arguments.rounds)


if __name__ == "__main__":
    main()
