"""`train --processes N`: run the command N times on this machine, as the ranks of one training."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from types import FrameType

from transduce.errors import BusyError, RankError
from transduce.hardware import count_cores
from transduce.log import Log

MAX_RESTARTS = 3
GRACE_SECONDS = 5.0  # for the other ranks to end by themselves after one has failed
# Environment variable with the number of a pipe that is closed when the launcher ends.
PARENT = "TRANSDUCE_PARENT"
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)

Processes = Sequence["subprocess.Popen[bytes]"]


def launch(arguments: Sequence[str], n_processes: int, log: Log) -> int:
    """Run `transduce` with these arguments in `n_processes` ranks; return the exit code.

    If a rank is killed or the ranks lose contact, all are ended and restarted from the last
    checkpoint, at most `MAX_RESTARTS` times.
    """
    for n_left in reversed(range(MAX_RESTARTS + 1)):
        with start_ranks(arguments, n_processes) as (ranks, received):
            codes = wait(ranks)
        if received and any(code < 0 for code in codes):
            return 128 + received[0]  # the signal came before the ranks could catch it
        if not can_restart(codes):
            return next((code for code in codes if code not in (0, RankError.exit_code)), 0)
        if n_left:
            then = f"restarting all {n_processes} from the last checkpoint ({n_left} restarts left)"
        else:
            then = "no restarts left; run the same command to resume from the last checkpoint"
        log(f"note: {describe_failure(codes)}; {then}")
    return BusyError.exit_code


@contextlib.contextmanager
def start_ranks(
    arguments: Sequence[str], n_processes: int
) -> Iterator[tuple[Processes, list[int]]]:
    """Start the ranks; yield them and the list of stop signals received so far.

    Signals are forwarded to the ranks. The ranks end when this process ends for any reason. Each
    rank gets an equal share of the cores unless OMP_NUM_THREADS is set.
    """
    inner, outer = os.pipe()  # nothing is written: the ranks wait for it to be closed
    n_threads = str(max(1, count_cores() // n_processes))
    environment = {
        **os.environ,
        "WORLD_SIZE": str(n_processes),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "GLOO_SOCKET_IFNAME": "lo" if sys.platform.startswith("linux") else "lo0",
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", n_threads),
        "TORCH_CPP_LOG_LEVEL": "ERROR",  # the ranks report problems themselves
        PARENT: str(inner),
    }
    ranks: list[subprocess.Popen[bytes]] = []
    received: list[int] = []

    def forward(number: int, frame: FrameType | None) -> None:
        received.append(number)
        for rank in ranks:
            rank.send_signal(number)

    previous = {number: signal.signal(number, forward) for number in FORWARDED}
    try:
        for rank in range(n_processes):
            process = subprocess.Popen(
                # -P: import nothing from the current folder.
                [sys.executable, "-P", "-m", "transduce", *arguments],
                env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdin=subprocess.DEVNULL,
                pass_fds=[inner],
                start_new_session=True,  # Ctrl-C reaches the ranks only through `forward`
            )
            ranks.append(process)
        for number in received:  # signals that came before all ranks were started
            for process in ranks:
                process.send_signal(number)
        yield ranks, received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        for process in ranks:
            process.kill()
            process.wait()
        os.close(inner)
        os.close(outer)


def wait(ranks: Processes) -> list[int]:
    """Wait for the ranks and return their exit codes.

    After one has failed, the others have `GRACE_SECONDS`; those still running have no code.
    """
    deadline: float | None = None
    while True:
        codes = [rank.poll() for rank in ranks]
        if all(code is not None for code in codes) or (deadline and time.monotonic() > deadline):
            return [code for code in codes if code is not None]
        if deadline is None and any(codes):
            deadline = time.monotonic() + GRACE_SECONDS
        time.sleep(0.05)


def can_restart(codes: Sequence[int]) -> bool:
    """Return whether a restart may help: a rank was killed, or the ranks only lost contact."""
    failed = [code for code in codes if code]
    return any(code < 0 for code in failed) or (
        bool(failed) and all(code == RankError.exit_code for code in failed)
    )


def describe_failure(codes: Sequence[int]) -> str:
    """Describe why the ranks ended."""
    killed = [signal.Signals(-code).name for code in codes if code < 0]
    return f"a process was killed by {killed[0]}" if killed else "the processes lost contact"


def free_port() -> int:
    """Return a free TCP port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def end_with_parent() -> None:
    """In a rank: exit when the launcher ends, even if it was killed."""

    def watch(pipe: int) -> None:
        os.read(pipe, 1)  # returns when the other end is closed
        os._exit(1)

    threading.Thread(target=watch, args=(int(os.environ.pop(PARENT)),), daemon=True).start()
