"""`train --processes N`: the same command N times on this machine, as ranks of one training, each with its share of the cores."""

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

MOST_RESTARTS = 3
LAST_WORDS = 5.0  # seconds the other ranks have to end by themselves once one has ended
PARENT = "TRANSDUCE_PARENT"  # the environment variable: the number of a pipe that closes when the launcher ends
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)

Processes = Sequence["subprocess.Popen[bytes]"]


def launch(arguments: Sequence[str], n_processes: int, log: Log) -> int:
    """Run `transduce` with these arguments as so many ranks; returns the exit code.

    If a rank is killed or the ranks lose contact, all are ended and started again, from the last checkpoint; a few times.
    """
    for n_left in reversed(range(MOST_RESTARTS + 1)):
        with started(arguments, n_processes) as (ranks, asked):
            codes = wait(ranks)
        if asked and any(code < 0 for code in codes):  # they were not yet listening
            return 128 + asked[0]
        if not is_lost(codes):
            return next((code for code in codes if code not in (0, RankError.exit_code)), 0)
        again = f"all {n_processes} start again from the last checkpoint, if there is one yet (left: {n_left})"
        then = again if n_left else "given up; the same command goes on from the last checkpoint"
        log(f"note: {what_happened(codes)}: {then}")
    return BusyError.exit_code


@contextlib.contextmanager
def started(arguments: Sequence[str], n_processes: int) -> Iterator[tuple[Processes, list[int]]]:
    """The ranks, running, and the signals that asked for the end; those go on to the ranks, which end with this process, however it
    ends."""
    inner, outer = os.pipe()  # nobody writes: the ranks wait for it to close
    environment = {
        **os.environ,
        "WORLD_SIZE": str(n_processes),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "GLOO_SOCKET_IFNAME": "lo" if sys.platform.startswith("linux") else "lo0",
        "OMP_NUM_THREADS": os.environ.get(
            "OMP_NUM_THREADS", str(max(1, count_cores() // n_processes))
        ),
        "TORCH_CPP_LOG_LEVEL": "ERROR",  # what there is to say, the ranks say
        PARENT: str(inner),
    }
    ranks: list[subprocess.Popen[bytes]] = []
    asked: list[int] = []

    def forward(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        for rank in ranks:
            rank.send_signal(number)

    before = {number: signal.signal(number, forward) for number in FORWARDED}
    try:
        for rank in range(n_processes):
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "transduce",
                    *arguments,
                ],  # -P: nothing of the current folder is imported
                env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdin=subprocess.DEVNULL,
                pass_fds=[inner],
                start_new_session=True,  # a terminal's Ctrl-C reaches this process only, and each rank once
            )
            ranks.append(process)
        for number in asked:  # while not all were there
            for process in ranks:
                process.send_signal(number)
        yield ranks, asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for process in ranks:
            process.kill()
            process.wait()
        os.close(inner)
        os.close(outer)


def wait(ranks: Processes) -> list[int]:
    """The exit codes of all ranks; once one has failed the others have a moment to end by themselves."""
    deadline: float | None = None
    while True:
        codes = [rank.poll() for rank in ranks]
        if all(code is not None for code in codes) or (deadline and time.monotonic() > deadline):
            return [code for code in codes if code is not None]
        if deadline is None and any(codes):
            deadline = time.monotonic() + LAST_WORDS
        time.sleep(0.05)


def is_lost(codes: Sequence[int]) -> bool:
    """Whether a rank was killed, or all that went wrong is that ranks lost contact."""
    failed = [code for code in codes if code]
    return any(code < 0 for code in failed) or (
        bool(failed) and all(code == RankError.exit_code for code in failed)
    )


def what_happened(codes: Sequence[int]) -> str:
    """The end of some ranks, in words."""
    killed = [signal.Signals(-code).name for code in codes if code < 0]
    return f"a process was ended by {killed[0]}" if killed else "the processes lost contact"


def free_port() -> int:
    """A port of this machine that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def end_with_parent() -> None:
    """In a rank: end when the launcher does, even if that was killed."""

    def watch(pipe: int) -> None:
        os.read(pipe, 1)  # returns when the other end is closed
        os._exit(1)

    threading.Thread(target=watch, args=(int(os.environ.pop(PARENT)),), daemon=True).start()
