"""The learning rate: Eq. 3, section 5.3."""

import math

from transduce.config import ModelConfig, TrainConfig


def paper_peak(d_model: int, warmup_steps: int) -> float:
    """The largest rate Eq. 3 reaches: (d_model * warmup_steps)^-0.5, at step warmup_steps."""
    return float((d_model * warmup_steps) ** -0.5)


def inverse_sqrt(step: int, peak: float, warmup_steps: int) -> float:
    """Rise linearly to the peak over the warm-up, then fall with the inverse square root of the step.

    Eq. 3 with the peak made explicit: d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5) is this with `paper_peak`.
    """
    return peak * min(step / warmup_steps, math.sqrt(warmup_steps / step))


def cosine(step: int, peak: float, warmup_steps: int, steps: int) -> float:
    """Rise linearly to the peak over the warm-up, then fall to zero at the last step along a half cosine.

    Departs: not in the paper; a short training ends lower with it (Loshchilov & Hutter 2017).
    """
    if step <= warmup_steps:
        return peak * step / warmup_steps
    done = (step - warmup_steps) / max(1, steps - warmup_steps)
    return peak * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def learning_rate(step: int, train: TrainConfig, model: ModelConfig) -> float:
    """The rate of a step, counted from 1."""
    peak = train.learning_rate or paper_peak(model.d_model, train.warmup_steps)
    if train.schedule == "cosine":
        return cosine(step, peak, train.warmup_steps, train.steps)
    return inverse_sqrt(step, peak, train.warmup_steps)
