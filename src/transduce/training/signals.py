"""Stop signals: SIGINT, SIGTERM, and SIGUSR1, which batch systems send before they end a job."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from transduce.training.loop import Stop, never_stop

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


@contextlib.contextmanager
def catch_stop_signals() -> Iterator[Stop]:
    """Catch stop signals and yield a function that returns the first one received, or None.

    A second signal ends the process immediately. Outside the main thread nothing is caught, because
    Python delivers signals to the main thread only.
    """
    if threading.current_thread() is not threading.main_thread():
        yield never_stop
        return
    received: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if received:
            os._exit(128 + number)
        received.append(number)

    previous = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield lambda: received[0] if received else None
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
