"""One training at a time in a run folder."""

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from transduce.errors import BusyError

LOCK = "lock"


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a folder against other processes. The system lets go of it when this process ends, however it ends."""
    with (folder / LOCK).open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise BusyError(f"{folder} is in use by {holder}: wait until it ends, or choose another folder") from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield
