"""The training objective: cross-entropy with label smoothing (section 5.4) and R-Drop."""

import torch
from jaxtyping import Float
from torch import Tensor

from transduce.data.batch import Batch
from transduce.evaluation.likelihood import run_batch
from transduce.model import LanguageModel, Transformer
from transduce.model.cross_entropy import projected_loss


def batch_loss(
    model: Transformer | LanguageModel,
    batch: Batch,
    label_smoothing: float = 0.0,
    consistency: float = 0.0,
) -> Float[Tensor, ""]:
    """Return the loss of a batch, summed over its target tokens.

    The caller divides it by the number of tokens of the whole step. Padding is never projected to
    logits.

    Departs: with `consistency` > 0 the batch is run twice, under two dropout masks, and the
    divergence of the two distributions is penalised (R-Drop, Wu et al. 2021). The result is the
    mean of the two losses plus consistency / 2 times the symmetric divergence, so it is on the
    scale of one batch.
    """
    if consistency:
        batch = batch.map_tensors(lambda rows: torch.cat((rows, rows)))
    hidden, target = run_batch(model, batch)
    loss = projected_loss(
        hidden, model.logit_weight, target, label_smoothing, consistency, model.logit_bias
    )
    return loss / 2 if consistency else loss
