"""Scores of translations: BLEU, chrF and TER with their sacreBLEU signatures, and exact match."""

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from transduce.config import nearest
from transduce.errors import DataError, UsageError
from transduce.log import Log

TOKENIZERS = ("13a", "intl", "char", "zh", "none")  # those of sacreBLEU without dependencies
METRICS = ("BLEU", "chrF2", "TER")  # the names sacreBLEU gives them
MAX_TER_WORDS = 500  # TER of a longer line can take minutes: its time grows with the square


@dataclass(frozen=True, slots=True)
class Score:
    """A number, the name of its metric, and a signature that says how it was computed."""

    name: str
    value: float
    signature: str


def make_metrics(tokenize: str = "13a") -> dict[str, Metric]:
    """Return BLEU, chrF and TER by name, configured like the `sacrebleu` command.

    Raise UsageError for an unknown tokenizer.
    """
    if tokenize not in TOKENIZERS:
        raise UsageError(f"unknown tokenizer {tokenize!r}; {nearest(tokenize, TOKENIZERS)}")
    # force=True suppresses sacreBLEU's warning about tokenized text; test_sets has its own.
    return {"BLEU": BLEU(tokenize=tokenize, force=True), "chrF2": CHRF(), "TER": TER()}


def choose_metrics(texts: Sequence[tuple[str, Sequence[str]]], warn: Log) -> tuple[str, ...]:
    """Return the names of the metrics to compute for hypotheses and references, given by name.

    All of them, but TER only if no line has more than MAX_TER_WORDS words. Otherwise warn.
    """
    for name, lines in texts:
        for number, line in enumerate(lines, start=1):
            n_words = len(line.split())
            if n_words > MAX_TER_WORDS:
                warn(
                    f"TER is not computed: {name}, line {number:,} has {n_words:,} words, more "
                    f"than {MAX_TER_WORDS}; split long lines into sentences in every file"
                )
                return tuple(metric for metric in METRICS if metric != "TER")
    return METRICS


def corpus_scores(
    hypotheses: Sequence[str],
    *references: Sequence[str],
    tokenize: str = "13a",
    names: Sequence[str] = METRICS,
) -> list[Score]:
    """Score a corpus against one or several references.

    `tokenize="none"` is for text that is already tokenized. Raise DataError if there are no lines,
    or if the numbers of lines differ.
    """
    check_lengths(hypotheses, *references)
    metrics = make_metrics(tokenize)
    reference_lists = [list(each) for each in references]
    scores = []
    for name in names:
        value = float(metrics[name].corpus_score(list(hypotheses), reference_lists).score)
        scores.append(Score(name, value, str(metrics[name].get_signature())))
    return scores


def bleu(hypotheses: Sequence[str], *references: Sequence[str], tokenize: str = "13a") -> Score:
    """Return corpus BLEU."""
    return corpus_scores(hypotheses, *references, tokenize=tokenize, names=["BLEU"])[0]


def sentence_chrf(hypothesis: str, *references: str) -> float:
    """Return the chrF of one sentence, from 0 to 100. Use it to rank sentences."""
    return float(CHRF().sentence_score(hypothesis, list(references)).score)


def exact_match(hypotheses: Sequence[str], *references: Sequence[str]) -> Score:
    """Return the percentage of hypotheses that equal one of their references."""
    check_lengths(hypotheses, *references)
    n_equal = sum(
        hypothesis in right for hypothesis, *right in zip(hypotheses, *references, strict=True)
    )
    n_references = f"nrefs:{len(references)}|" if len(references) > 1 else ""
    signature = f"n:{len(hypotheses)}|{n_references}case:mixed"
    return Score("exact match", 100 * n_equal / len(hypotheses), signature)


def check_lengths(hypotheses: Sequence[str], *references: Sequence[str]) -> None:
    """Raise DataError unless every hypothesis has its references, and there is at least one."""
    for each in references:
        if len(hypotheses) != len(each):
            raise DataError(
                f"{len(hypotheses)} translations but {len(each)} references; "
                "expected one reference per translation, in the same order"
            )
    if not hypotheses or not references:
        raise DataError("nothing to evaluate; give at least one translation and its reference")
