"""How probable a model finds given text: loss, perplexity, bits per byte."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transduce.data.batch import Batch, Example
from transduce.data.order import in_order
from transduce.data.windows import Text, encode_text, windows_in_order
from transduce.decode.load import load_generator
from transduce.errors import DataError
from transduce.evaluation.metrics import Score
from transduce.model import LanguageModel, Transformer
from transduce.model.cache import Cache
from transduce.model.cross_entropy import projected_loss
from transduce.text.normalize import normalize
from transduce.text.running_text import read_document
from transduce.text.vocabulary import PAD, Vocabulary

BATCH_TOKENS = 4096  # token budget of a batch, including padding


def run_batch(
    model: Transformer | LanguageModel, batch: Batch
) -> tuple[Float[Tensor, "token d_model"], Int[Tensor, " token"]]:
    """Run a model over a batch (teacher forcing) and drop the padding.

    Return the hidden states before the output projection, and the target token of each state.
    """
    hidden, _ = model.decode(batch.target_in, _start_cache(model, batch))
    if batch.n_tokens == batch.target_out.numel():  # no padding: avoid a copy
        hidden, target = hidden.flatten(end_dim=1), batch.target_out.flatten()
    else:
        is_token = batch.target_out != PAD
        hidden, target = hidden[is_token.to(hidden.device)], batch.target_out[is_token]
    return hidden, target.to(hidden.device)


def _start_cache(model: Transformer | LanguageModel, batch: Batch) -> Cache:
    """Return the cache before the first target token; a Transformer encodes the source."""
    if isinstance(model, LanguageModel):
        return model.start()
    assert batch.source is not None, "a batch for a Transformer has a source"
    assert batch.source_mask is not None, "a batch for a Transformer has a source mask"
    return model.start(batch.source, batch.source_mask)


def batch_negative_log_likelihood(model: Transformer | LanguageModel, batch: Batch) -> float:
    """Return the negative log-likelihood of the targets of a batch in nats, summed."""
    hidden, target = run_batch(model, batch)
    weight, bias = model.logit_weight, model.logit_bias
    return float(projected_loss(hidden, weight, target, smoothing=0.0, bias=bias))


def loss(
    model: Transformer | LanguageModel,
    examples: Sequence[Example],
    batch_tokens: int = BATCH_TOKENS,
) -> Score:
    """Return the mean negative log-likelihood in nats per target token.

    [EOS] counts as a token. There is no label smoothing.
    """
    total, n_tokens = 0.0, 0
    with torch.inference_mode():
        for batch in in_order(examples, batch_tokens):
            total += batch_negative_log_likelihood(model, batch)
            n_tokens += batch.n_tokens
    return Score("loss", total / n_tokens, f"nats|pieces:{n_tokens}")


def perplexity(loss: Score) -> Score:
    """Return exp(loss): the number of equally likely tokens the model is undecided among."""
    return Score("perplexity", math.exp(min(loss.value, 700)), loss.signature)


def text_loss(
    model: LanguageModel, ids: Text, vocabulary: Vocabulary
) -> tuple[Score, Score, Score]:
    """Return how well a language model predicts a text: loss per token, perplexity, bits per byte.

    The text is cut into full windows without overlap. Every token of a window is predicted from the
    tokens of the same window before it, so the first token of the text is not scored.
    """
    total, n_tokens, n_bytes = 0.0, 0, 0
    with torch.inference_mode():
        for batch in windows_in_order(ids, model.config.window, BATCH_TOKENS):
            total += batch_negative_log_likelihood(model, batch)
            n_tokens += batch.n_tokens
            n_bytes += sum(
                len(vocabulary.decode(row).encode()) for row in batch.target_out.tolist()
            )
    signature = f"window:{model.config.window}|pieces:{n_tokens}|bytes:{n_bytes}"
    nats = Score("loss", total / n_tokens, signature)
    bits_per_byte = Score("bits per byte", total / math.log(2) / max(1, n_bytes), signature)
    return nats, perplexity(nats), bits_per_byte


def score_text(model: Path, file: Path) -> tuple[Sequence[Score], Mapping[str, Any]]:
    """Score a text file by a language model: return loss, perplexity, bits per byte, and the seed.

    The seed is the one the model was trained with, for the report. Raise DataError if the text is
    not longer than the window of the model.
    """
    generator = load_generator(model)
    text = normalize("\n".join(read_document(file)), generator.folder.config.text.normalization)
    ids = encode_text([text], generator.vocabulary)
    if len(ids) <= generator.window:
        raise DataError(
            f"{file} has {len(ids):,} tokens; "
            f"expected more than the window of the model, {generator.window}; "
            "give a longer text"
        )
    seed = {"seed": generator.folder.trained_with("train", "seed")}
    return text_loss(generator.model, ids, generator.vocabulary), seed
