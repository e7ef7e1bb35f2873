"""How good translations are: BLEU with its signature, exact match, loss."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from transduce.config import nearest
from transduce.data.batch import Example
from transduce.data.stream import in_order
from transduce.data.windows import Text, windows_in_order
from transduce.errors import DataError, UsageError
from transduce.model import LanguageModel, Transformer
from transduce.text.vocabulary import Vocabulary
from transduce.training.loss import batch_loss

TOKENIZERS = ("13a", "intl", "char", "zh", "none")  # sacreBLEU's that need nothing else


@dataclass(frozen=True, slots=True)
class Score:
    """A number with its name and how it was computed."""

    name: str
    value: float
    signature: str


def bleu(hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a") -> Score:
    """Corpus BLEU on detokenised text, by sacreBLEU. `tokenize="none"` for text that is tokenised already."""
    check_lengths(hypotheses, references)
    if tokenize not in TOKENIZERS:
        raise UsageError(f"unknown tokenisation {tokenize!r}: {nearest(tokenize, TOKENIZERS)}")
    metric = BLEU(tokenize=tokenize, force=True)
    value = metric.corpus_score(list(hypotheses), [list(references)]).score
    return Score("BLEU", float(value), str(metric.get_signature()))


def sentence_chrf(hypothesis: str, reference: str) -> float:
    """chrF of one sentence: 0 to 100, for finding bad ones."""
    return float(CHRF().sentence_score(hypothesis, [reference]).score)


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Percent of hypotheses that are their reference to the letter."""
    check_lengths(hypotheses, references)
    n_equal = sum(hypothesis == reference for hypothesis, reference in zip(hypotheses, references, strict=True))
    return Score("exact match", 100 * n_equal / len(references), f"n:{len(references)}|case:mixed")


def loss(model: Transformer | LanguageModel, examples: Sequence[Example], batch_tokens: int = 4096) -> Score:
    """Mean negative log-likelihood in nats a target piece, [EOS] counted, without label smoothing."""
    total, n_tokens = 0.0, 0
    with torch.inference_mode():
        for batch in in_order(examples, batch_tokens):
            total += float(batch_loss(model, batch))
            n_tokens += batch.n_tokens
    return Score("loss", total / n_tokens, f"nats|pieces:{n_tokens}")


def text_loss(
    model: LanguageModel, ids: Text, vocabulary: Vocabulary, batch_tokens: int = 4096
) -> tuple[Score, Score, Score]:
    """How well a language model foretells a text: loss in nats a piece, perplexity, and bits a byte of the text.

    The text is cut into full windows side by side; every piece but the first of each window's context is predicted.
    """
    total, n_tokens, n_bytes = 0.0, 0, 0
    with torch.inference_mode():
        for batch in windows_in_order(ids, model.config.window, batch_tokens):
            total += float(batch_loss(model, batch))
            n_tokens += batch.n_tokens
            n_bytes += sum(len(vocabulary.decode(row).encode()) for row in batch.target_out.tolist())
    signature = f"window:{model.config.window}|pieces:{n_tokens}|bytes:{n_bytes}"
    nats = total / n_tokens
    return (
        Score("loss", nats, signature),
        Score("perplexity", math.exp(min(nats, 700)), signature),
        Score("bits per byte", total / math.log(2) / max(1, n_bytes), signature),
    )


def check_lengths(lines: Sequence[str], references: Sequence[str], what: str = "translations") -> None:
    """As many lines as references, and at least one."""
    if len(lines) != len(references):
        raise DataError(f"{len(lines)} {what} but {len(references)} references: line n must belong to line n")
    if not references:
        raise DataError("nothing to evaluate: no line")
