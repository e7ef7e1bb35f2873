"""The learning rate: Eq. 3, section 5.3."""

import math

from transduce.config import ModelConfig, TrainConfig


def paper_peak(d_model: int, warmup_steps: int) -> float:
    """Return the highest rate of Eq. 3: (d_model * warmup_steps)^-0.5, at step warmup_steps."""
    return float((d_model * warmup_steps) ** -0.5)


def inverse_sqrt(step: int, peak: float, warmup_steps: int) -> float:
    """Return the rate: linear warm-up to the peak, then decay with the inverse square root.

    This is Eq. 3 with the peak as a parameter. With `paper_peak` as the peak it equals the paper's
    d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5).
    """
    return peak * min(step / warmup_steps, math.sqrt(warmup_steps / step))


def cosine(step: int, peak: float, warmup_steps: int, steps: int) -> float:
    """Return the rate: linear warm-up to the peak, then half a cosine to zero at the last step.

    Departs: not in the paper; short trainings reach a lower loss with it (Loshchilov & Hutter
    2017).
    """
    if step <= warmup_steps:
        return peak * step / warmup_steps
    progress = (step - warmup_steps) / max(1, steps - warmup_steps)
    return peak * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


def learning_rate(step: int, train: TrainConfig, model: ModelConfig) -> float:
    """Return the learning rate of a step; steps count from 1."""
    peak = train.learning_rate or paper_peak(model.d_model, train.warmup_steps)
    if train.schedule == "cosine":
        return cosine(step, peak, train.warmup_steps, train.steps)
    return inverse_sqrt(step, peak, train.warmup_steps)


def peak_learning_rate(train: TrainConfig, model: ModelConfig) -> float:
    """Return the highest learning rate of a training, reached at the end of the warm-up."""
    return learning_rate(train.warmup_steps, train, model)
