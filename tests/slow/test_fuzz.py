"""`transduce translate` on much text: any line, many lines, early output, bounded memory."""

import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

import pytest

from tests.hostile import HOSTILE, check, fuzz
from transduce.grammar import generate

COMMAND = [sys.executable, "-m", "transduce", "translate"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_10_000_random_lines_come_out_line_for_line(tmp_path: Path) -> None:
    lines, report = [*HOSTILE, *fuzz(10_000, seed=2)], tmp_path / "report.jsonl"
    stdin = b"".join(line + b"\n" for line in lines)
    done = subprocess.run([*COMMAND, "--report", str(report)], input=stdin, capture_output=True)
    assert done.returncode == 0, done.stderr
    check(lines, done.stdout, report)


def resident(process: "subprocess.Popen[bytes]") -> int:
    """Return the resident memory of a process in kilobytes."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
    assert found
    return int(found[1])


def feed(file: IO[bytes], lines: list[bytes], may_go_on: threading.Event) -> None:
    file.write(b"".join(lines[:100]))
    file.flush()
    may_go_on.wait()
    for i in range(100, len(lines), 1000):
        file.write(b"".join(lines[i : i + 1000]))
    file.close()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="no /proc here")
@pytest.mark.parametrize("engine", ["ctranslate2", "torch"])
def test_the_first_line_comes_at_once_and_memory_does_not_grow_over_100_000_lines(
    engine: str,
) -> None:
    """After all lines, memory is less than a tenth above that after a fifth of them."""
    n = 100_000 if engine == "ctranslate2" else 30_000
    different = dict.fromkeys(pair.source for pair in generate("en-it", 2 * n, seed=3))
    lines = [f"{source}\n".encode() for source in different][:n]
    assert len(lines) == n
    may_go_on = threading.Event()
    command = [*COMMAND, "--engine", engine, "--beam", "1"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as filter_:
        assert filter_.stdin is not None
        assert filter_.stdout is not None
        writer = threading.Thread(target=feed, args=(filter_.stdin, lines, may_go_on), daemon=True)
        writer.start()
        assert filter_.stdout.readline().strip(), "before the rest has been written"
        may_go_on.set()
        for _ in range(n // 5):
            filter_.stdout.readline()
        early = resident(filter_)
        for _ in range(n - n // 5 - 2):
            filter_.stdout.readline()
        late = resident(filter_)
        assert filter_.stdout.readline().endswith(b"\n")
        assert filter_.stdout.read() == b""
        writer.join()
        assert filter_.wait() == 0
    assert late < 1.1 * early, (early, late)
