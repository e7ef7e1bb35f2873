"""What training makes small: cross-entropy with label smoothing (section 5.4)."""

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from transduce.data.batch import Batch
from transduce.model import LanguageModel, Transformer
from transduce.model.cache import Cache
from transduce.text.vocabulary import PAD


def smoothed_cross_entropy(
    logits: Float[Tensor, "token vocab"], target: Int[Tensor, " token"], label_smoothing: float
) -> Float[Tensor, ""]:
    """Summed over tokens: the cross-entropy against (1 - eps) * the right piece + eps * the uniform distribution.

    Section 5.4, after Szegedy et al. 2015: the uniform part covers all pieces, the right one too.
    """
    return F.cross_entropy(logits, target, label_smoothing=label_smoothing, reduction="sum")


def batch_loss(model: Transformer | LanguageModel, batch: Batch, label_smoothing: float = 0.0) -> Float[Tensor, ""]:
    """The summed loss of a batch; divide it by the tokens of the whole step. Padding is never projected to logits."""
    hidden, _ = model.decode(batch.target_in, start(model, batch))
    if batch.n_tokens == batch.target_out.numel():  # no padding: nothing to leave out, nothing to copy
        hidden, target = hidden.flatten(end_dim=1), batch.target_out.flatten()
    else:
        real = batch.target_out != PAD
        hidden, target = hidden[real], batch.target_out[real]
    return smoothed_cross_entropy(model.logits(hidden).float(), target, label_smoothing)


def start(model: Transformer | LanguageModel, batch: Batch) -> Cache:
    """The cache before the first target piece: a translator has read the source, a language model nothing."""
    if isinstance(model, LanguageModel):
        return model.start()
    assert batch.source is not None, "a translator's batch has a source"
    assert batch.source_mask is not None, "and its mask"
    return model.start(batch.source, batch.source_mask)
