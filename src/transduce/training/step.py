"""One step of training: gradients of some batches, one update of the weights (section 5.3)."""

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from transduce.config import TrainConfig
from transduce.data.batch import Batch
from transduce.model import LanguageModel, Transformer
from transduce.training.distributed import ALONE, Ranks
from transduce.training.loss import batch_loss

BETAS, EPSILON = (0.9, 0.98), 1e-9  # of Adam, section 5.3
OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "not enough memory")

Model = Transformer | LanguageModel


class Stepped(NamedTuple):
    """What a step did."""

    loss: float  # nats a token, with label smoothing; not a number if the step was not made
    n_tokens: int


def make_optimizer(model: nn.Module) -> torch.optim.Adam:
    """Adam with the paper's constants (section 5.3). All parameters in one pass; the rate is set before each step."""
    return torch.optim.Adam(model.parameters(), betas=BETAS, eps=EPSILON, fused=True)


def update(
    model: Model,
    optimizer: torch.optim.Optimizer,
    batches: Sequence[Batch],
    rate: float,
    config: TrainConfig,
    note: Callable[[str], None] = lambda text: None,
    ranks: Ranks = ALONE,
) -> Stepped:
    """One step: gradients of all batches of all ranks, each summed loss divided by the tokens of the whole step.

    If the loss or a gradient is not finite, nothing is changed and the loss is not a number.
    """
    n_tokens = ranks.add(sum(batch.n_tokens for batch in batches))
    total = ranks.add_gradients(model, gradients(model, batches, n_tokens, config, note))
    norm = nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm or math.inf)
    is_finite = math.isfinite(total) and bool(norm.isfinite())
    if is_finite:
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
    optimizer.zero_grad()
    return Stepped(total if is_finite else math.nan, n_tokens)


def gradients(
    model: Model,
    batches: Sequence[Batch],
    n_tokens: int,
    config: TrainConfig,
    note: Callable[[str], None],
) -> float:
    """Add up the gradients of batches, as a part of a step of so many tokens; returns their part of the loss a token.

    If memory runs out, every batch is cut in two and all is made again: the same sums by smaller products, but for dropout, whose
    masks fall otherwise.
    """
    random = torch.get_rng_state()
    try:
        return sum(backward(model, batch, n_tokens, config) for batch in batches)
    except (RuntimeError, MemoryError) as error:
        model.zero_grad()
        torch.set_rng_state(random)  # what follows must not depend on how far this came
        smaller = [half for batch in batches for half in halves(batch)]
        if not is_out_of_memory(error) or len(smaller) == len(batches):
            raise
        largest = max(batch.target_in.numel() for batch in smaller)
        note(
            f"out of memory: the step is made of smaller batches, {largest:,} pieces each (a lower data.batch_tokens avoids this)"
        )
    return gradients(model, smaller, n_tokens, config, note)


def backward(model: Model, batch: Batch, n_tokens: int, config: TrainConfig) -> float:
    """Add the gradient of a batch to those that are there; returns its loss."""
    with autocast(config, model.logit_weight.device):
        loss = batch_loss(model, batch, config.label_smoothing, config.consistency) / n_tokens
    loss.backward()  # type: ignore[no-untyped-call]  # torch's own
    return loss.item()


def seed_step(seed: int, step: int, rank: int) -> None:
    """The random numbers of a step are a function of these three: nothing of them need be saved."""
    torch.manual_seed(int(np.random.SeedSequence([seed, step, rank]).generate_state(1)[0]))


def halves(batch: Batch) -> list[Batch]:
    """A batch as two of half as many rows; one of a single row stays."""
    n_rows = len(batch.target_in)
    if n_rows == 1:
        return [batch]

    parts = slice(0, n_rows // 2), slice(n_rows // 2, n_rows)
    return [batch.each(lambda rows, part=part: rows[part]) for part in parts]  # type: ignore[misc]  # mypy cannot infer it


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error says that memory ran out."""
    return isinstance(error, MemoryError) or any(
        words in str(error).lower() for words in OUT_OF_MEMORY
    )


def autocast(
    config: TrainConfig, device: torch.device
) -> contextlib.AbstractContextManager[object]:
    """Matrix products in bfloat16, if asked; weights and their updates stay float32."""
    if config.precision == "bfloat16":
        return torch.autocast(device.type, torch.bfloat16)
    return contextlib.nullcontext()
