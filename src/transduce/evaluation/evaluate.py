"""Evaluate a model, or given translations, on a test set."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from transduce.data.batch import encode_pairs
from transduce.data.order import length
from transduce.decode.load import load_translator
from transduce.decode.translator import Translator
from transduce.evaluation.likelihood import loss, perplexity
from transduce.evaluation.metrics import (
    Score,
    choose_metrics,
    corpus_scores,
    exact_match,
    make_metrics,
)
from transduce.evaluation.test_sets import find_problems, read_test_set
from transduce.log import Log, silent
from transduce.text.corpus import Pair
from transduce.text.files import display_name
from transduce.text.sentences import has_several_sentences


class SearchOptions(NamedTuple):
    """Options of the search; None means the model's own setting."""

    beam: int | None = None
    alpha: float | None = None
    length_penalty: str | None = None


MODEL_SETTINGS = SearchOptions()


class EvaluatedScore(NamedTuple):
    """A score, and the settings of the model it was measured with."""

    score: Score
    settings: Mapping[str, Any]


def evaluate_model(
    model: Path | None,
    source: Path,
    references: Sequence[Path],
    *,
    tokenize: str = "13a",
    search: SearchOptions = MODEL_SETTINGS,
    warn: Log,
    note: Log = silent,
) -> Iterator[EvaluatedScore]:
    """Translate a test set and yield the scores, then the loss of the references.

    The settings of a score are those of the search and the seed of the training. The loss has the
    seed only, since it needs no search. It is omitted if all pairs are too long for the model.
    """
    make_metrics(tokenize)  # raises an error before anything is translated
    reference_texts, [source_lines] = read_test_set(references, [source])
    translator = load_translator(model, engine="torch")
    hypotheses = translate(translator, source_lines, search=search, warn=warn, note=note)
    named = [
        ("the translation", hypotheses),
        *zip(map(display_name, references), reference_texts, strict=True),
    ]
    for problem in find_problems(named, tokenize):
        warn(problem)
    settings = search_settings(translator, search)
    names = choose_metrics(named, warn)
    for score in corpus_scores(hypotheses, *reference_texts, tokenize=tokenize, names=names):
        yield EvaluatedScore(score, settings)
    yield EvaluatedScore(exact_match(hypotheses, *reference_texts), settings)
    loss_score = reference_loss(translator, source_lines, reference_texts, warn=warn)
    if loss_score is not None:
        seed = {"seed": settings["seed"]}
        yield EvaluatedScore(loss_score, seed)
        yield EvaluatedScore(perplexity(loss_score), seed)


def evaluate_hypotheses(
    hypothesis: Path, references: Sequence[Path], *, tokenize: str = "13a", warn: Log
) -> Iterator[EvaluatedScore]:
    """Yield the scores of a file of translations."""
    make_metrics(tokenize)  # raises an error before anything is read
    reference_texts, [hypotheses] = read_test_set(references, [hypothesis])
    names = [display_name(path) for path in (hypothesis, *references)]
    named = list(zip(names, [hypotheses, *reference_texts], strict=True))
    for problem in find_problems(named, tokenize):
        warn(problem)
    metric_names = choose_metrics(named, warn)
    for score in corpus_scores(hypotheses, *reference_texts, tokenize=tokenize, names=metric_names):
        yield EvaluatedScore(score, {})
    yield EvaluatedScore(exact_match(hypotheses, *reference_texts), {})


def translate(
    translator: Translator,
    texts: Sequence[str],
    *,
    search: SearchOptions = MODEL_SETTINGS,
    warn: Log,
    note: Log = silent,
    name: str = "",
) -> list[str]:
    """Translate a test set, and warn once with the counts of all quality flags.

    Each line is one segment, as in published scores: it is not split into sentences, and nothing in
    it is protected. `note` is told if that matters. `name` is the name of the system in messages.
    """
    n_several = sum(has_several_sentences(text, translator.language) for text in texts)
    if n_several:
        note(
            f"{n_several:,} of {len(texts):,} lines have several sentences; lines are translated "
            "whole here, so that scores are comparable (transduce translate splits them)"
        )
    translations = translator.translate(texts, **search._asdict(), plain=True)
    counts = Counter(flag for translation in translations for flag in translation.flags)
    if counts:
        n_flagged = sum(bool(translation.flags) for translation in translations)
        flags = ", ".join(f"{flag} {count:,}" for flag, count in sorted(counts.items()))
        prefix = f"{name}: " if name else ""
        warn(
            f"{prefix}{n_flagged:,} of {len(translations):,} translations are flagged ({flags}); "
            "translate --report lists the lines"
        )
    return [translation.text for translation in translations]


def search_settings(
    translator: Translator, search: SearchOptions = MODEL_SETTINGS
) -> dict[str, Any]:
    """Return the settings of the search and the seed of the training (None if unknown)."""
    settings = translator.settings(search.beam, search.alpha, search.length_penalty)
    return {**settings.model_dump(), "seed": translator.folder.trained_with("train", "seed")}


def reference_loss(
    translator: Translator,
    source: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    warn: Log,
) -> Score | None:
    """Return the loss of the references given the source, averaged over all references.

    Pairs that are too long for the model are omitted, with a warning. Return None if all are.
    """
    pairs = [
        Pair(translator.clean(text), translator.clean(line))
        for lines in references
        for text, line in zip(source, lines, strict=True)
    ]
    examples = encode_pairs(pairs, translator.source_vocabulary, translator.target_vocabulary)
    limit = translator.max_source_tokens()
    # `length` counts [EOS], the limit does not.
    short = [example for example in examples if length(example) <= limit + 1]
    n_omitted = len(examples) - len(short)
    if n_omitted:
        warn(
            f"the loss omits {n_omitted:,} of {len(examples):,} pairs, "
            f"which have more than {limit} tokens"
        )
    return loss(translator.model, short) if short else None
