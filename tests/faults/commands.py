"""Run the real command in a process of its own, with a time limit that only a hang reaches."""

import os
import resource
import subprocess
import sys
from pathlib import Path

TIME_LIMIT = 120  # seconds
MEMORY_LIMIT = 6 << 30  # bytes of address space


class Ended:
    """A finished command: exit code and both streams."""

    def __init__(self, done: "subprocess.CompletedProcess[bytes]") -> None:
        self.code = done.returncode
        self.out = done.stdout.decode(errors="replace")
        self.err = done.stderr.decode(errors="replace")

    def failed_with(self, code: int, *texts: str) -> bool:
        """Whether the command ended with this exit code and one clear message."""
        assert self.code == code, (self.code, self.err)
        assert "Traceback" not in self.err, self.err
        for text in texts:
            assert text in self.err, self.err
        return True


def run(*arguments: object, stdin: bytes = b"", **environment: str) -> Ended:
    """Run `transduce ARGUMENTS` and wait for it."""
    done = subprocess.run(
        [sys.executable, "-m", "transduce", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        timeout=TIME_LIMIT,
        env={**os.environ, **environment},
        check=False,
    )
    return Ended(done)


def run_in_shell(script: str, *arguments: Path | str, stdin: bytes = b"") -> Ended:
    """Run a shell script in which `$T` is the command and `$1`, `$2`, ... are the arguments."""
    environment = {**os.environ, "T": f"{sys.executable} -m transduce"}
    done = subprocess.run(
        ["bash", "-c", script, "bash", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        timeout=TIME_LIMIT,
        env=environment,
        check=False,
    )
    return Ended(done)


def peak_memory_of_children() -> int:
    """Return the largest resident size of any finished child process, in bytes."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
