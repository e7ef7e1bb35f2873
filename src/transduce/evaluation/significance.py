"""Score systems on one test set and test whether they differ from the first one, the baseline.

Two paired tests, both two-sided. Each works on the sufficient statistics of single sentences (for
BLEU: lengths and n-gram counts), whose sums give the score of a corpus:

- Bootstrap resampling (Koehn 2004) draws test sets of the same size with replacement. Would the
  difference hold on other sentences like these?
- Approximate randomization (Riezler and Maxwell 2005) exchanges the outputs of the two systems on
  random sentences. How often does that give a difference as large as the observed one?

Samples and seed are those of sacreBLEU. sacreBLEU itself counts only differences *larger* than the
observed one, by which two copies of a system differ significantly. Here equal ones count too.
"""

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from sacrebleu.metrics.base import Metric

from transduce.errors import UsageError
from transduce.evaluation.metrics import METRICS, Score, check_lengths, make_metrics

N_RESAMPLES = 1000  # of the bootstrap
N_TRIALS = 10_000  # of the randomization
SEED_VARIABLE, DEFAULT_SEED = "SACREBLEU_SEED", "12345"
TOLERANCE = 1e-6  # closer scores count as equal, since the order of summation changes digits

Statistics = Float[np.ndarray, "sentences statistics"] | Int[np.ndarray, "sentences statistics"]
Totals = Float[np.ndarray, " statistics"] | Int[np.ndarray, " statistics"]
Scores = Float[np.ndarray, " samples"]


class SystemScore(NamedTuple):
    """A score of one system, and the tests of its difference from the baseline.

    The baseline itself has no difference and no p-values.
    """

    system: str
    score: Score
    interval: float  # half the width of the 95 % confidence interval
    difference: float | None = None  # score minus that of the baseline
    p_bootstrap: float | None = None
    p_randomisation: float | None = None


def score_systems(
    systems: Mapping[str, Sequence[str]],
    *references: Sequence[str],
    tokenize: str = "13a",
    names: Sequence[str] = METRICS,
) -> list[SystemScore]:
    """Return the metrics `names` of every system, each tested against the first system.

    The rows are ordered by metric, then by system.
    """
    seed = read_seed()
    for lines in systems.values():
        check_lengths(lines, *references)
    rows = []
    metrics = make_metrics(tokenize)
    for name in names:
        rows += _score_systems_by(name, metrics[name], systems, references, seed)
    return rows


def _score_systems_by(
    name: str,
    metric: Metric,
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    seed: int | None,
) -> list[SystemScore]:
    statistics = {
        system: sentence_statistics(metric, lines, references) for system, lines in systems.items()
    }
    signature = metric.get_signature()
    signature.update("bs", N_RESAMPLES)
    signature.update("ar", N_TRIALS)
    signature.update("seed", str(seed).lower())
    baseline, *_ = systems
    n_sentences = len(references[0])
    resamples = np.random.default_rng(seed).choice(n_sentences, size=(N_RESAMPLES, n_sentences))
    bootstrapped = {
        system: np.array([corpus_score(metric, each[sample].sum(axis=0)) for sample in resamples])
        for system, each in statistics.items()
    }
    rows: list[SystemScore] = []
    for system, each in statistics.items():
        value = corpus_score(metric, each.sum(axis=0))
        score = Score(name, value, str(signature))
        row = SystemScore(system, score, half_interval(bootstrapped[system]))
        if system != baseline:
            difference = value - rows[0].score.value
            row = row._replace(
                difference=difference,
                p_bootstrap=p_of_bootstrap(
                    bootstrapped[baseline], bootstrapped[system], difference
                ),
                p_randomisation=p_of_randomization(
                    metric, statistics[baseline], each, difference, seed=seed
                ),
            )
        rows.append(row)
    return rows


def sentence_statistics(
    metric: Metric, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> Statistics:
    """Return the sufficient statistics of each sentence, one row each.

    Uses a private method of sacreBLEU: the public scores of a sentence hold these counts for BLEU
    and TER, but not for chrF.
    """
    found = metric._extract_corpus_statistics(list(hypotheses), [list(each) for each in references])
    return np.array(found)


def corpus_score(metric: Metric, totals: Totals) -> float:
    """Return the score of a corpus, given the sums of the statistics of its sentences.

    Uses a private method of sacreBLEU, like `sentence_statistics`.
    """
    return float(metric._compute_score_from_stats(totals.tolist()).score)


def half_interval(scores: Scores) -> float:
    """Return half the width of the interval that holds the middle 95 % of the scores."""
    ordered = np.sort(scores)
    n_outside = len(ordered) // 40  # 2.5 % on each side
    return float(ordered[-1 - n_outside] - ordered[n_outside]) / 2


def p_of_bootstrap(baseline: Scores, system: Scores, observed: float) -> float:
    """Return the p-value of a difference, given the scores of both systems on the same resamples.

    The differences of the resamples are centred on the observed one. Shifted to a mean of zero,
    they show how large a difference is expected by chance (the "shift" method, as in sacreBLEU).
    """
    differences = np.abs(system - baseline)
    return p_value(differences - differences.mean(), abs(observed))


def p_of_randomization(
    metric: Metric, baseline: Statistics, system: Statistics, observed: float, *, seed: int | None
) -> float:
    """Return the p-value of a difference, by exchanging the outputs of random sentences.

    In each trial every sentence is exchanged with probability 1/2.
    """
    shape = (N_TRIALS, len(baseline))
    is_exchanged = np.random.default_rng(seed).integers(2, size=shape, dtype=bool)
    mixed = is_exchanged @ baseline + ~is_exchanged @ system
    opposite = ~is_exchanged @ baseline + is_exchanged @ system
    scores = np.array([corpus_score(metric, totals) for totals in mixed])
    opposite_scores = np.array([corpus_score(metric, totals) for totals in opposite])
    differences = np.abs(scores - opposite_scores)
    return p_value(differences, abs(observed))


def p_value(samples: Scores, observed: float) -> float:
    """Return the share of samples at least as large as the observed value.

    The observed value itself counts as one of the samples.
    """
    n_as_large = int((samples >= observed - TOLERANCE).sum())
    return (n_as_large + 1) / (len(samples) + 1)


def read_seed() -> int | None:
    """Return the seed of the tests: sacreBLEU's default, or its environment variable.

    "none" gives None, which draws different samples each time. Raise UsageError for any other text.
    """
    seed = os.environ.get(SEED_VARIABLE, DEFAULT_SEED)
    if seed.lower() == "none":
        return None
    if not seed.isdecimal():
        raise UsageError(
            f"{SEED_VARIABLE} is {seed!r}; expected a whole number, or none for a random seed"
        )
    return int(seed)
