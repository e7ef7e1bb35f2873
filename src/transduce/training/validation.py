"""How good a translator is while it trains: loss, BLEU, exact match, the lengths of its translations and the worst of them."""

import math
from collections.abc import Sequence

from transduce.decode.translator import Translator
from transduce.evaluation import likelihood
from transduce.evaluation import metrics as evaluate
from transduce.model_folder import ModelFolder
from transduce.reports.training import N_CLASSES, WORDS_PER_CLASS
from transduce.text.corpus import Pair
from transduce.training.loop import Validate, Validation, WorstSentence
from transduce.training.prepare import Prepared

MOST_HARD = 10  # translations that the page shows as the worst
MOST_VALIDATED = 500  # validation pairs that are translated for BLEU; the loss uses all


def make_validate(folder: ModelFolder, prepared: Prepared) -> Validate:
    """Loss on all validation pairs; BLEU and exact match of greedy translations of some of them."""
    some = prepared.valid_pairs[:MOST_VALIDATED]
    references = [pair.target for pair in some]

    def validate() -> Validation:
        loss = likelihood.loss(folder.model, prepared.valid_examples).value
        if not math.isfinite(loss):
            return Validation(loss, {}, "", (some[0].source, ""))
        found = Translator(folder).translate([pair.source for pair in some], beam=1)
        texts = [translation.text for translation in found]
        bleu = evaluate.bleu(texts, references)
        return Validation(
            loss=loss,
            scores={
                "BLEU": bleu.value,
                "exact match": evaluate.exact_match(texts, references).value,
            },
            signature=f"{bleu.signature}|beam:1|n:{len(some)}",
            sample=(some[0].source, texts[0]),
            hardest=hardest(some, texts),
            lengths={"references": count_words(references), "translations": count_words(texts)},
        )

    return validate


def hardest(pairs: Sequence[Pair], texts: Sequence[str]) -> list[WorstSentence]:
    """The pairs whose translations are worst, worst first; those that are right are left out."""
    found = [
        WorstSentence(evaluate.sentence_chrf(text, pair.target), pair.source, text, pair.target)
        for pair, text in zip(pairs, texts, strict=True)
        if text != pair.target
    ]
    return sorted(found)[:MOST_HARD]


def count_words(texts: Sequence[str]) -> list[int]:
    """How many texts have how many words, by classes."""
    counts = [0] * N_CLASSES
    for text in texts:
        counts[min(len(text.split()) // WORDS_PER_CLASS, N_CLASSES - 1)] += 1
    return counts
