"""Cross-entropy with label smoothing (section 5.4), computed together with the output projection.

The logits of a whole batch take much memory. Here they exist only for a few rows at a time. The
gradients with respect to the hidden states and the weights are computed in the same pass.
"""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional as F

MAX_LOGITS = 1 << 20  # logits in memory at the same time


def projected_loss(
    hidden: Float[Tensor, "token d_model"],
    weight: Float[Tensor, "vocab d_model"],
    target: Int[Tensor, " token"],
    smoothing: float,
    consistency: float = 0.0,
    bias: Float[Tensor, " vocab"] | None = None,
) -> Float[Tensor, ""]:
    """Return the summed cross-entropy of logits = hidden W^T + bias against smoothed targets.

    Section 5.4, after Szegedy et al. 2015: the target distribution is (1 - eps) * one-hot + eps *
    uniform. The uniform part covers the whole vocabulary, including the correct token.

    With `consistency` > 0 the second half of the rows must repeat the first half under another
    dropout mask. consistency / 2 * (KL(p | q) + KL(q | p)) of each pair of rows is added (R-Drop).
    """
    if torch.is_grad_enabled():
        return _ProjectedLoss.apply(  # type: ignore[no-untyped-call]  # torch's own
            hidden, weight, target, smoothing, consistency, bias
        )
    loss, *_ = loss_and_gradients(
        hidden, weight, target, smoothing, consistency, bias, with_gradients=False
    )
    return loss


def loss_and_gradients(
    hidden: Float[Tensor, "token d_model"],
    weight: Float[Tensor, "vocab d_model"],
    target: Int[Tensor, " token"],
    smoothing: float,
    consistency: float,
    bias: Float[Tensor, " vocab"] | None,
    *,
    with_gradients: bool,
) -> tuple[Float[Tensor, ""], Tensor | None, Tensor | None, Tensor | None]:
    """Return the summed loss, and its gradients with respect to `hidden`, `weight` and `bias`.

    The rows are processed in chunks of at most `MAX_LOGITS` logits. The gradient of a row of logits
    is softmax - smoothed target, so it is multiplied out as soon as the row is computed. The
    uniform part of the target is the same for every token: it is added to sums and products, not to
    each logit.

    Without `with_gradients` the gradients are None; that of `bias` also without a bias.
    """
    sum_of_weights, uniform = weight.sum(dim=0), smoothing / len(weight)
    loss = torch.zeros(
        (), dtype=torch.promote_types(weight.dtype, torch.float32), device=hidden.device
    )
    sum_of_bias = 0.0 if bias is None else bias.sum(dtype=loss.dtype)
    d_hidden = torch.empty_like(hidden) if with_gradients else None
    d_weight = torch.zeros_like(weight) if with_gradients else None
    d_bias = torch.zeros_like(bias) if with_gradients and bias is not None else None

    rows_per_chunk = max(1, MAX_LOGITS // len(weight))
    for chunk in chunks(len(hidden), rows_per_chunk, paired=consistency > 0):
        rows, correct = hidden[chunk], target[chunk, None]
        logits = F.linear(rows, weight, bias)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        p = torch.softmax(logits, dim=-1)

        # log of the softmax denominator; p_highest is never near zero, so its logarithm is exact
        highest, p_highest = logits.amax(dim=-1, keepdim=True), p.amax(dim=-1, keepdim=True)
        log_denominator = highest - p_highest.log()

        log_p_correct = logits.gather(1, correct) - log_denominator
        sum_of_logits = (rows @ sum_of_weights).to(logits.dtype).sum() + len(rows) * sum_of_bias
        sum_of_log_p = sum_of_logits - len(weight) * log_denominator.sum()
        loss -= (1 - smoothing) * log_p_correct.sum() + uniform * sum_of_log_p

        if consistency:
            log_p = logits.sub_(log_denominator)
            loss += consistency / 2 * add_symmetric_kl_(p, log_p, consistency / 2)

        if d_hidden is not None and d_weight is not None:
            d_logits = p.scatter_add_(1, correct, torch.full_like(log_p_correct, smoothing - 1))
            if d_bias is not None:
                d_bias += d_logits.sum(dim=0)
            d_logits = d_logits.to(weight.dtype)
            d_hidden[chunk] = (d_logits @ weight).sub_(uniform * sum_of_weights).to(hidden.dtype)
            d_weight += d_logits.t() @ rows

    if d_weight is not None:
        d_weight -= uniform * hidden.sum(dim=0)
    if d_bias is not None:
        d_bias -= uniform * len(hidden)
    return loss, d_hidden, d_weight, d_bias


def chunks(n_rows: int, size: int, *, paired: bool) -> Iterator[slice | list[int]]:
    """Yield the indices of each chunk of about `size` rows.

    With `paired`, a chunk holds neighbouring rows of the first half and then their copies in the
    second half.
    """
    if not paired:
        yield from (slice(first, first + size) for first in range(0, n_rows, size))
        return
    half, pairs_per_chunk = n_rows // 2, max(1, size // 2)
    for first in range(0, half, pairs_per_chunk):
        originals = range(first, min(half, first + pairs_per_chunk))
        yield [*originals, *(half + i for i in originals)]


def add_symmetric_kl_(
    p: Float[Tensor, "rows vocab"], log_p: Float[Tensor, "rows vocab"], strength: float
) -> Float[Tensor, ""]:
    """Return the sum of KL(p | q) + KL(q | p); p is the first half of the rows, q the second.

    Works in place: adds `strength` times the gradient of the logits to `p`, and overwrites `log_p`.
    """
    (p, q), (log_p, log_q) = p.chunk(2), log_p.chunk(2)
    difference = log_p.sub_(log_q)
    excess = p - q
    kl_p_q = (p * difference).sum(dim=-1, keepdim=True)
    kl_q_p = -(q * difference).sum(dim=-1, keepdim=True)
    torch.add(1 - strength * kl_p_q, difference, alpha=strength, out=log_q)
    p.mul_(log_q).add_(excess, alpha=strength)
    torch.add(1 - strength * kl_q_p, difference, alpha=-strength, out=log_q)
    q.mul_(log_q).sub_(excess, alpha=strength)
    return (kl_p_q + kl_q_p).sum()


class _ProjectedLoss(torch.autograd.Function):
    """`loss_and_gradients` as an autograd function: the forward pass computes the gradients."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        hidden: Tensor,
        weight: Tensor,
        target: Tensor,
        smoothing: float,
        consistency: float,
        bias: Tensor | None,
    ) -> Tensor:
        loss, d_hidden, d_weight, d_bias = loss_and_gradients(
            hidden, weight, target, smoothing, consistency, bias, with_gradients=True
        )
        assert d_hidden is not None, "requested"
        assert d_weight is not None, "requested"
        ctx.save_for_backward(d_hidden, d_weight, d_bias)  # type: ignore[arg-type]  # may be None
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_loss: Tensor) -> tuple[Tensor | None, ...]:
        d_hidden, d_weight, d_bias = ctx.saved_tensors  # torch declares a tuple of one element
        d_bias = None if d_bias is None else d_bias * d_loss
        return d_hidden * d_loss, d_weight * d_loss, None, None, None, d_bias
