"""One training at a time in a run folder."""

import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from transduce.errors import BusyError

LOCK = "lock"


@contextlib.contextmanager
def held(folder: Path) -> Iterator[str]:
    """Hold a folder against other processes; gives the holder before who ended without a word, if there was one.

    The system lets go of the folder when this process ends, however it ends; only a process that ends by itself removes its name.
    """
    with (folder / LOCK).open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise BusyError(f"{folder} is in use by {holder}: wait until it ends, or choose another folder") from None
        file.seek(0)
        before = file.read().strip()
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()} since {time.strftime('%Y-%m-%d %H:%M:%S')}\n")
        file.flush()
        try:
            yield before
        finally:
            file.truncate(0)


def is_held(folder: Path) -> bool:
    """Whether a process holds a folder."""
    try:
        with (folder / LOCK).open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
