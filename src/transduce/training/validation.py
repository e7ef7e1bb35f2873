"""Validate a translator: loss, BLEU, exact match, sentence lengths, worst translations."""

import math
from collections.abc import Sequence

from transduce.data.batch import Example
from transduce.decode.translator import Translator
from transduce.evaluation import likelihood, metrics
from transduce.model_folder import ModelFolder
from transduce.reports.training import N_CLASSES, WORDS_PER_CLASS
from transduce.text.corpus import Pair
from transduce.training.callbacks.base import Validation, WorstSentence
from transduce.training.loop import Validate

N_WORST = 10  # translations that are reported as the worst
MAX_TRANSLATED = 500  # validation pairs that are translated for BLEU; the loss uses all


def make_validate(
    folder: ModelFolder, pairs: Sequence[Pair], examples: Sequence[Example]
) -> Validate:
    """Return a function that validates the model of `folder`.

    The loss is computed on all `examples`; BLEU and exact match on greedy translations of the first
    `MAX_TRANSLATED` of the `pairs`.
    """
    translated = pairs[:MAX_TRANSLATED]
    references = [pair.target for pair in translated]

    def validate() -> Validation:
        loss = likelihood.loss(folder.model, examples).value
        if not math.isfinite(loss):
            return Validation(loss, {}, "", (translated[0].source, ""))
        sources = [pair.source for pair in translated]
        translations = Translator(folder).translate(sources, beam=1, plain=True)
        texts = [translation.text for translation in translations]
        bleu = metrics.bleu(texts, references)
        exact_match = metrics.exact_match(texts, references)
        return Validation(
            loss=loss,
            scores={"BLEU": bleu.value, "exact match": exact_match.value},
            signature=f"{bleu.signature}|beam:1|n:{len(translated)}",
            sample=(translated[0].source, texts[0]),
            hardest=find_worst(translated, texts),
            lengths={"references": count_words(references), "translations": count_words(texts)},
        )

    return validate


def find_worst(pairs: Sequence[Pair], texts: Sequence[str]) -> list[WorstSentence]:
    """Return the worst translations by chrF, worst first; exact matches are not included."""
    found = [
        WorstSentence(metrics.sentence_chrf(text, pair.target), pair.source, text, pair.target)
        for pair, text in zip(pairs, texts, strict=True)
        if text != pair.target
    ]
    return sorted(found)[:N_WORST]


def count_words(texts: Sequence[str]) -> list[int]:
    """Return a histogram: the number of texts for each class of `WORDS_PER_CLASS` word counts."""
    counts = [0] * N_CLASSES
    for text in texts:
        counts[min(len(text.split()) // WORDS_PER_CLASS, N_CLASSES - 1)] += 1
    return counts
