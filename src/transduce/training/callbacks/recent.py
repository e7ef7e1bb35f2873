"""Moving averages over the last training steps, for the progress bar and metrics.jsonl."""

from collections import deque

from transduce.training.callbacks.base import StepMetrics

N_RECENT = 50


class RecentSteps:
    """The last `N_RECENT` steps: mean loss and throughput."""

    def __init__(self) -> None:
        self._steps: deque[StepMetrics] = deque(maxlen=N_RECENT)

    def append(self, metrics: StepMetrics) -> None:
        """Add a step and forget the oldest one."""
        self._steps.append(metrics)

    @property
    def loss(self) -> float:
        """The mean of the losses, each step with the same weight."""
        return sum(step.loss for step in self._steps) / len(self._steps)

    @property
    def tokens_per_second(self) -> float:
        """Target tokens per second; 0 if no time has passed."""
        seconds = sum(step.seconds for step in self._steps)
        return sum(step.n_tokens for step in self._steps) / seconds if seconds else 0.0
