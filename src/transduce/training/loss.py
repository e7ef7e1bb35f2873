"""What training makes small: cross-entropy with label smoothing (section 5.4), taken together with the map to logits."""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from transduce.data.batch import Batch
from transduce.model import LanguageModel, Transformer
from transduce.model.cache import Cache
from transduce.text.vocabulary import PAD

MOST_LOGITS = 1 << 20  # that are in memory at once


def batch_loss(
    model: Transformer | LanguageModel,
    batch: Batch,
    label_smoothing: float = 0.0,
    consistency: float = 0.0,
) -> Float[Tensor, ""]:
    """The summed loss of a batch; divide it by the tokens of the whole step. Padding is never projected to logits.

    Departs: with `consistency` a batch is read twice, under two dropout masks, and the answers drawn together (R-Drop, 2021).
    Half is taken of the two losses and consistency / 2 times the divergence of the answers, both ways: still the loss of one batch.
    """
    if consistency:
        batch = batch.each(lambda rows: torch.cat((rows, rows)))
    hidden, _ = model.decode(batch.target_in, start(model, batch))
    if (
        batch.n_tokens == batch.target_out.numel()
    ):  # no padding: nothing to leave out, nothing to copy
        hidden, target = hidden.flatten(end_dim=1), batch.target_out.flatten()
    else:
        real = batch.target_out != PAD
        hidden, target = hidden[real.to(hidden.device)], batch.target_out[real]
    loss = projected_loss(
        hidden, model.logit_weight, target.to(hidden.device), label_smoothing, consistency
    )
    return loss / 2 if consistency else loss


def start(model: Transformer | LanguageModel, batch: Batch) -> Cache:
    """The cache before the first target piece: a translator has read the source, a language model nothing."""
    if isinstance(model, LanguageModel):
        return model.start()
    assert batch.source is not None, "a translator's batch has a source"
    assert batch.source_mask is not None, "and its mask"
    return model.start(batch.source, batch.source_mask)


def projected_loss(
    hidden: Float[Tensor, "token d_model"],
    weight: Float[Tensor, "vocab d_model"],
    target: Int[Tensor, " token"],
    smoothing: float,
    consistency: float = 0.0,
) -> Float[Tensor, ""]:
    """The cross-entropy of logits = hidden W^T against (1 - eps) * the right piece + eps * the uniform distribution, summed.

    Section 5.4, after Szegedy et al. 2015: the uniform part covers all pieces, the right one too. With `consistency` the second
    half of the rows are the first half once more, and consistency / 2 * (KL(p | q) + KL(q | p)) of each two rows is added.
    """
    if torch.is_grad_enabled():
        return _ProjectedLoss.apply(hidden, weight, target, smoothing, consistency)  # type: ignore[no-untyped-call]  # torch's own
    return loss_and_gradients(
        hidden, weight, target, smoothing, consistency, wants_gradients=False
    )[0]


def loss_and_gradients(
    hidden: Float[Tensor, "token d_model"],
    weight: Float[Tensor, "vocab d_model"],
    target: Int[Tensor, " token"],
    smoothing: float,
    consistency: float,
    *,
    wants_gradients: bool,
) -> tuple[Float[Tensor, ""], Tensor | None, Tensor | None]:
    """The summed loss and its gradients by hidden and weight, some rows at a time: the logits are never there all at once.

    The gradient of a row of logits is softmax - smoothed target, so it can be multiplied out as soon as the row is there. What the
    uniform part adds is the same for every piece: it is added to sums and products, not to each logit.
    """
    sum_of_pieces, uniform = weight.sum(dim=0), smoothing / len(weight)
    loss = torch.zeros(
        (), dtype=torch.promote_types(weight.dtype, torch.float32), device=hidden.device
    )
    d_hidden = torch.empty_like(hidden) if wants_gradients else None
    d_weight = torch.zeros_like(weight) if wants_gradients else None
    for part in parts(len(hidden), max(1, MOST_LOGITS // len(weight)), in_twos=consistency > 0):
        rows, right = hidden[part], target[part, None]
        logits = F.linear(rows, weight)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        p = torch.softmax(logits, dim=-1)
        highest, p_highest = logits.amax(dim=-1, keepdim=True), p.amax(dim=-1, keepdim=True)
        log_denominator = highest - p_highest.log()  # p_highest is never near zero
        log_p_right = logits.gather(1, right) - log_denominator
        sum_of_log_p = (rows @ sum_of_pieces).to(logits.dtype).sum() - len(
            weight
        ) * log_denominator.sum()
        loss -= (1 - smoothing) * log_p_right.sum() + uniform * sum_of_log_p
        if consistency:
            loss += (
                consistency / 2 * draw_together(p, logits.sub_(log_denominator), consistency / 2)
            )
        if d_hidden is not None and d_weight is not None:
            d_logits = p.scatter_add_(1, right, torch.full_like(log_p_right, smoothing - 1))
            d_logits = d_logits.to(weight.dtype)
            d_hidden[part] = (d_logits @ weight).sub_(uniform * sum_of_pieces).to(hidden.dtype)
            d_weight += d_logits.t() @ rows
    if d_weight is not None:
        d_weight -= uniform * hidden.sum(dim=0)
    return loss, d_hidden, d_weight


def parts(n_rows: int, most: int, in_twos: bool) -> Iterator[slice | list[int]]:
    """Rows that are taken together: neighbours, or in twos neighbours of the first half and then their likes of the second."""
    if not in_twos:
        yield from (slice(first, first + most) for first in range(0, n_rows, most))
        return
    half = n_rows // 2
    for first in range(0, half, max(1, most // 2)):
        some = range(first, min(half, first + max(1, most // 2)))
        yield [*some, *(half + i for i in some)]


def draw_together(
    p: Float[Tensor, "rows vocab"], log_p: Float[Tensor, "rows vocab"], strength: float
) -> Float[Tensor, ""]:
    """KL(p | q) + KL(q | p), summed, of the first half of the rows, p, and the second, q.

    So many times its gradient by their logits is added to `p`, and `log_p` is used up: there is one pass over memory for each line.
    """
    (p, q), (log_p, log_q) = p.chunk(2), log_p.chunk(2)
    difference = log_p.sub_(log_q)
    excess = p - q
    forth = (p * difference).sum(dim=-1, keepdim=True)  # KL(p | q)
    back = -(q * difference).sum(dim=-1, keepdim=True)
    torch.add(1 - strength * forth, difference, alpha=strength, out=log_q)
    p.mul_(log_q).add_(excess, alpha=strength)
    torch.add(1 - strength * back, difference, alpha=-strength, out=log_q)
    q.mul_(log_q).sub_(excess, alpha=strength)
    return (forth + back).sum()


class _ProjectedLoss(torch.autograd.Function):
    """`loss_and_gradients` for autograd: the gradients are there before they are asked for."""

    @staticmethod
    def forward(  # the arguments of `projected_loss`
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        target: Tensor,
        smoothing: float,
        consistency: float,
    ) -> Tensor:
        loss, *gradients = loss_and_gradients(
            hidden, weight, target, smoothing, consistency, wants_gradients=True
        )
        ctx.save_for_backward(*gradients)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        d_hidden, d_weight = ctx.saved_tensors
        return d_hidden * gradients[0], d_weight * gradients[0], None, None, None
