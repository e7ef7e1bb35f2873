"""Asking a training to stop: SIGINT, SIGTERM, and SIGUSR1, which batch systems send before they end a job."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from transduce.training.loop import Stop, never

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


@contextlib.contextmanager
def listening() -> Iterator[Stop]:
    """While this is open the first signal is remembered for the training to ask for; the second ends the process at once."""
    if (
        threading.current_thread() is not threading.main_thread()
    ):  # only the main thread gets signals
        yield never
        return
    asked: list[int] = []

    def remember(number: int, frame: FrameType | None) -> None:
        if asked:
            os._exit(128 + number)
        asked.append(number)

    before = {number: signal.signal(number, remember) for number in SIGNALS}
    try:
        yield lambda: asked[0] if asked else None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
