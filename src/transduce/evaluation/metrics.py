"""How good translations are: BLEU, chrF and TER with their signatures, exact match, loss; and whether a difference is one."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sacrebleu import significance
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest

from transduce.config import nearest
from transduce.errors import DataError, UsageError

TOKENIZERS = ("13a", "intl", "char", "zh", "none")  # sacreBLEU's that need nothing else
METRICS = ("BLEU", "chrF2", "TER")  # as sacreBLEU calls them
EQUAL = 1e-6  # scores that are nearer are equal: sums of float32 differ by the order of their terms
TESTS = (
    ("bs", 1000),
    ("ar", 10000),
)  # bootstrap and randomisation as sacreBLEU calls them, and its numbers of samples


@dataclass(frozen=True, slots=True)
class Score:
    """A number with its name and how it was computed."""

    name: str
    value: float
    signature: str


class Compared(NamedTuple):
    """A score of one system and how sure its difference from the first system's is; the first has no difference."""

    system: str
    score: Score
    interval: float  # half of the 95 % confidence interval
    difference: float | None = None
    p_bootstrap: float | None = None
    p_randomisation: float | None = None


def make_metrics(tokenize: str = "13a") -> dict[str, Metric]:
    """BLEU, chrF and TER as the `sacrebleu` command makes them."""
    if tokenize not in TOKENIZERS:
        raise UsageError(f"unknown tokenisation {tokenize!r}: {nearest(tokenize, TOKENIZERS)}")
    return dict(zip(METRICS, (BLEU(tokenize=tokenize, force=True), CHRF(), TER()), strict=True))


def corpus_scores(
    hypotheses: Sequence[str],
    *references: Sequence[str],
    tokenize: str = "13a",
    names: Sequence[str] = METRICS,
) -> list[Score]:
    """Scores against one or several references. `tokenize="none"` for text that is tokenised already."""
    check_lengths(hypotheses, *references)
    metrics, right = make_metrics(tokenize), [list(each) for each in references]
    values = {
        name: float(metrics[name].corpus_score(list(hypotheses), right).score) for name in names
    }
    return [
        Score(name, value, str(metrics[name].get_signature())) for name, value in values.items()
    ]


def bleu(hypotheses: Sequence[str], *references: Sequence[str], tokenize: str = "13a") -> Score:
    """Corpus BLEU alone."""
    return corpus_scores(hypotheses, *references, tokenize=tokenize, names=["BLEU"])[0]


def sentence_chrf(hypothesis: str, *references: str) -> float:
    """chrF of one sentence: 0 to 100, for finding bad ones."""
    return float(CHRF().sentence_score(hypothesis, list(references)).score)


def compare(
    systems: Mapping[str, Sequence[str]], *references: Sequence[str], tokenize: str = "13a"
) -> list[Compared]:
    """Every metric of every system, and two paired tests of each system against the first, both sacreBLEU's.

    Both tests are two-sided: bootstrap resampling asks whether the difference would hold on other sentences like these,
    approximate randomisation how often exchanging the outputs at random makes as large a one.
    """
    check_seed()
    for lines in systems.values():
        check_lengths(lines, *references)
    named = [(system, list(lines)) for system, lines in systems.items()]
    right = [list(each) for each in references]
    found = []
    for name, metric in make_metrics(tokenize).items():
        with ties_counted():
            tests: Any = [PairedTest(list(named), {name: metric}, right, *how)() for how in TESTS]
        (signatures, bootstrap), (_, randomisation) = tests
        signatures[name].update("ar", TESTS[1][1])
        for number, system in enumerate(systems):
            score = Score(name, float(bootstrap[name][number].score), str(signatures[name]))
            row = Compared(system, score, float(bootstrap[name][number].ci))
            if number:
                p_values = (each[name][number].p_value for each in (bootstrap, randomisation))
                row = Compared(*row[:3], score.value - float(bootstrap[name][0].score), *p_values)
            found.append(row)
    return found


def check_seed() -> None:
    """The seed of the tests is sacreBLEU's: 12345, or what the environment says."""
    seed = os.environ.get("SACREBLEU_SEED", "12345")
    if not seed.isdecimal() and seed.lower() != "none":
        raise UsageError(
            f"SACREBLEU_SEED is {seed!r}: wanted a whole number, or none for another one each time"
        )


@contextlib.contextmanager
def ties_counted() -> Iterator[None]:
    """Let sacreBLEU count samples that are as far apart as what was observed, not only those that are further.

    What was observed is one of them. Without it two copies of a system are significantly different, and so are systems of which one
    wins by few whole edits (docs/decisions.md).
    """
    theirs = significance._compute_p_value
    significance._compute_p_value = _p_value  # type: ignore[assignment]  # the same but for the names of its arguments
    try:
        yield
    finally:
        significance._compute_p_value = theirs


def _p_value(samples: Any, observed: float) -> float:
    return (int((samples >= observed - EQUAL).sum()) + 1) / (len(samples) + 1)


def exact_match(hypotheses: Sequence[str], *references: Sequence[str]) -> Score:
    """Percent of hypotheses that are a reference to the letter."""
    check_lengths(hypotheses, *references)
    n_equal = sum(line in rights for line, *rights in zip(hypotheses, *references, strict=True))
    several = f"nrefs:{len(references)}|" if len(references) > 1 else ""
    return Score(
        "exact match", 100 * n_equal / len(hypotheses), f"n:{len(hypotheses)}|{several}case:mixed"
    )


def check_lengths(lines: Sequence[str], *references: Sequence[str]) -> None:
    """As many lines as references, and at least one."""
    for each in references:
        if len(lines) != len(each):
            raise DataError(
                f"{len(lines)} translations but {len(each)} references: line n must belong to line n"
            )
    if not lines or not references:
        raise DataError("nothing to evaluate: no line")
