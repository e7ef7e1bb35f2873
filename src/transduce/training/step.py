"""One optimizer step: the gradients of some batches, one update of the weights (section 5.3)."""

import contextlib
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from transduce.config import TrainConfig
from transduce.data.batch import Batch
from transduce.log import Log
from transduce.model import LanguageModel, Transformer
from transduce.training.distributed import ALONE, Ranks
from transduce.training.loss import batch_loss

BETAS, EPSILON = (0.9, 0.98), 1e-9  # of Adam, section 5.3
OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "not enough memory")

Model = Transformer | LanguageModel


class StepResult(NamedTuple):
    """The loss of a step and its number of target tokens."""

    loss: float  # nats per token, with label smoothing; NaN if the weights were not updated
    n_tokens: int


def make_optimizer(model: nn.Module) -> torch.optim.Adam:
    """Return Adam with the paper's constants (section 5.3). `update` sets the learning rate."""
    return torch.optim.Adam(model.parameters(), betas=BETAS, eps=EPSILON, fused=True)


def update(
    model: Model,
    optimizer: torch.optim.Optimizer,
    batches: Sequence[Batch],
    rate: float,
    config: TrainConfig,
    note: Log = lambda text: None,
    ranks: Ranks = ALONE,
) -> StepResult:
    """Make one optimizer step on the batches of all ranks.

    Each summed loss is divided by the number of tokens of the whole step. If the loss or a gradient
    is not finite, the weights stay unchanged and the returned loss is NaN.
    """
    n_tokens = ranks.add(sum(batch.n_tokens for batch in batches))
    loss = add_gradients(model, batches, n_tokens, config, note)
    total = ranks.add_gradients(model, loss)
    norm = nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm or math.inf)
    is_finite = math.isfinite(total) and bool(norm.isfinite())
    if is_finite:
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
    optimizer.zero_grad()
    return StepResult(total if is_finite else math.nan, n_tokens)


def add_gradients(
    model: Model, batches: Sequence[Batch], n_tokens: int, config: TrainConfig, note: Log
) -> float:
    """Accumulate the gradients of batches; return their share of the loss per token.

    `n_tokens` is the number of tokens of the whole step. If memory runs out, every batch is split
    in two and all gradients are computed again. The sums are the same, except that dropout masks
    differ.
    """
    random_state = torch.get_rng_state()
    try:
        return sum(backward(model, batch, n_tokens, config) for batch in batches)
    except (RuntimeError, MemoryError) as error:
        model.zero_grad()
        torch.set_rng_state(random_state)  # the result must not depend on where memory ran out
        smaller = [half for batch in batches for half in halves(batch)]
        if not is_out_of_memory(error) or len(smaller) == len(batches):
            raise
        largest = max(batch.target_in.numel() for batch in smaller)
        note(
            f"out of memory: split the batches of this step, now {largest:,} tokens each; "
            "set a lower data.batch_tokens to avoid this"
        )
    return add_gradients(model, smaller, n_tokens, config, note)


def backward(model: Model, batch: Batch, n_tokens: int, config: TrainConfig) -> float:
    """Accumulate the gradient of one batch; return its share of the loss per token."""
    with autocast(config, model.logit_weight.device):
        loss = batch_loss(model, batch, config.label_smoothing, config.consistency) / n_tokens
    loss.backward()  # type: ignore[no-untyped-call]  # not typed in torch
    return loss.item()


def seed_step(seed: int, step: int, rank: int) -> None:
    """Seed the random numbers of a step.

    They depend on these values only, so checkpoints need not save a random state.
    """
    torch.manual_seed(int(np.random.SeedSequence([seed, step, rank]).generate_state(1)[0]))


def halves(batch: Batch) -> list[Batch]:
    """Split a batch into two of half as many rows; a batch of one row is returned unchanged."""
    n_rows = len(batch.target_in)
    if n_rows == 1:
        return [batch]
    middle = n_rows // 2
    return [
        batch.map_tensors(lambda rows: rows[:middle]),
        batch.map_tensors(lambda rows: rows[middle:]),
    ]


def is_out_of_memory(error: Exception) -> bool:
    """Return whether an error of torch or Python means that memory ran out."""
    return isinstance(error, MemoryError) or any(
        words in str(error).lower() for words in OUT_OF_MEMORY
    )


def autocast(
    config: TrainConfig, device: torch.device
) -> contextlib.AbstractContextManager[object]:
    """Return the context of the forward pass: bfloat16 matrix products if configured.

    The weights and their updates stay in float32.
    """
    if config.precision == "bfloat16":
        return torch.autocast(device.type, torch.bfloat16)
    return contextlib.nullcontext()
