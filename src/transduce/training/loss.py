"""What training makes small: cross-entropy with label smoothing (section 5.4)."""

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from transduce.data.batch import Batch
from transduce.model import Transformer
from transduce.text.vocabulary import PAD


def smoothed_cross_entropy(
    logits: Float[Tensor, "token vocab"], target: Int[Tensor, " token"], label_smoothing: float
) -> Float[Tensor, ""]:
    """Summed over tokens: the cross-entropy against (1 - eps) * the right piece + eps * the uniform distribution.

    Section 5.4, after Szegedy et al. 2015: the uniform part covers all pieces, the right one too.
    """
    return F.cross_entropy(logits, target, label_smoothing=label_smoothing, reduction="sum")


def batch_loss(model: Transformer, batch: Batch, label_smoothing: float = 0.0) -> Float[Tensor, ""]:
    """The summed loss of a batch; divide it by the tokens of the whole step. Padding is never projected to logits."""
    hidden, _ = model.decode(batch.target_in, model.start(batch.source, batch.source_mask))
    real = batch.target_out != PAD
    return smoothed_cross_entropy(model.logits(hidden[real]).float(), batch.target_out[real], label_smoothing)
