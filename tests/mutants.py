"""Mutants: does a test fail if one line of the source is wrong?

    python -m tests.mutants [--only TEXT] [--workers 2]

tests/mutants.toml lists the mutants: a file, a text that it contains exactly once, the wrong text,
and the tests that should notice. Each mutant is applied to a copy of the tree, never to the tree
itself. First the named tests must pass without a mutant. Prints a JSON line per mutant and one per
bar. `--only` takes the mutants whose file contains TEXT. All of them take about an hour.
"""

import argparse
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "tests" / "mutants.toml"
NOT_COPIED = shutil.ignore_patterns(".git", ".venv", ".*_cache", ".hypothesis", "__pycache__")
TIMEOUT = 600  # seconds; tests that take longer have noticed
TARGET = 0.9
KINDS = ("boundary", "other")
FAILED_TEST = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
# Exit codes of pytest.
PASSED, FAILED, INTERRUPTED = 0, 1, 2


@dataclass(frozen=True)
class Mutant:
    """One wrong line."""

    file: str
    old: str
    new: str
    tests: tuple[str, ...]  # files or single tests, those that should notice first
    kind: str  # "boundary": of a comparison, a range, an empty or first or last element; "other"
    note: str = ""  # why it may survive

    def apply(self, root: Path) -> str:
        """Write the wrong line into a tree; return the file as it was."""
        path = root / self.file
        before = path.read_text(encoding="utf-8")
        path.write_text(before.replace(self.old, self.new), encoding="utf-8")
        return before


@dataclass(frozen=True)
class Verdict:
    """What the tests said about a tree."""

    killed: bool
    by: str  # the test that failed, or "timeout"; "" if all passed
    seconds: float
    output: str


def read_mutants(path: Path, root: Path) -> list[Mutant]:
    """Return the mutants of a list; end the program if one does not fit the tree any more."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]
    mutants = [Mutant(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]
    faults = [fault for mutant in mutants for fault in find_faults(mutant, root)]
    if faults:
        raise SystemExit("\n".join(faults))
    return mutants


def find_faults(mutant: Mutant, root: Path) -> Iterator[str]:
    """Yield what is wrong with an entry of the list, and what to do."""
    path = root / mutant.file
    if not path.is_file():
        yield f"{mutant.file} does not exist; move or delete its mutants"
        return
    n_found = path.read_text(encoding="utf-8").count(mutant.old)
    if n_found != 1:
        yield f"{mutant.file} contains {mutant.old!r} {n_found} times, expected once; update it"
    if mutant.new == mutant.old:
        yield f"{mutant.file}: {mutant.old!r} is not changed; give another text"
    if mutant.kind not in KINDS:
        yield f"{mutant.file}: kind is {mutant.kind!r}; expected one of {', '.join(KINDS)}"
    if not mutant.tests:
        yield f"{mutant.file}: {mutant.old!r} names no tests; name those that should notice"
    for test in mutant.tests:
        file, _, function = test.partition("::")
        exists = (root / file).is_file() and f"def {function}" in (root / file).read_text("utf-8")
        if not exists:
            yield f"{mutant.file}: {test} does not exist; name another test"


def run_tests(
    root: Path, tests: Sequence[str], n_processes: int = 0, timeout: float | None = TIMEOUT
) -> Verdict:
    """Run tests in a tree until one fails."""
    how = ["-x", "-q", "-m", "not slow", "-n", str(n_processes)]
    command = [sys.executable, "-m", "pytest", *how, *tests]
    started = time.perf_counter()
    process = subprocess.Popen(
        command,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # with the trainings that tests have started
        process.communicate()
        return Verdict(killed=True, by="timeout", seconds=time.perf_counter() - started, output="")
    seconds = time.perf_counter() - started
    if process.returncode not in (PASSED, FAILED, INTERRUPTED):
        raise SystemExit(f"pytest cannot run {' '.join(tests)}:\n{output}")
    failed = FAILED_TEST.findall(output)
    by = failed[0] if failed else ""
    return Verdict(process.returncode != PASSED, by, seconds, output)


@contextmanager
def copies(root: Path, n: int) -> Iterator[list[Path]]:
    """Make copies of a tree and remove them at the end."""
    with tempfile.TemporaryDirectory() as temporary:
        trees = [Path(temporary) / str(number) for number in range(n)]
        for tree in trees:
            shutil.copytree(root, tree, ignore=NOT_COPIED)
        yield trees


def check_tests(mutants: Sequence[Mutant], tree: Path, n_processes: int) -> None:
    """End the program if a test fails without a mutant."""
    every_test = sorted({test for mutant in mutants for test in mutant.tests})
    plain = run_tests(tree, every_test, n_processes, timeout=None)
    if plain.killed:
        raise SystemExit(f"a test fails without a mutant; repair it first:\n{plain.output}")


def judge(mutants: Sequence[Mutant], trees: Sequence[Path]) -> list[Verdict]:
    """Apply each mutant to a tree, run its tests there, restore the tree; print a line for each."""
    free: queue.SimpleQueue[Path] = queue.SimpleQueue()
    for tree in trees:
        free.put(tree)

    def work(mutant: Mutant) -> Verdict:
        tree = free.get()
        before = mutant.apply(tree)
        try:
            verdict = run_tests(tree, mutant.tests)
        finally:
            (tree / mutant.file).write_text(before, encoding="utf-8")
            free.put(tree)
        show(mutant, verdict)
        return verdict

    with ThreadPoolExecutor(len(trees)) as pool:
        return list(pool.map(work, mutants))


def show(mutant: Mutant, verdict: Verdict) -> None:
    row = {
        "file": mutant.file,
        "old": mutant.old,
        "new": mutant.new,
        "kind": mutant.kind,
        "killed": verdict.killed,
        "by": verdict.by,
        "seconds": round(verdict.seconds, 1),
    }
    note = {"note": mutant.note} if mutant.note else {}
    print(json.dumps({**row, **note}), flush=True)


def bar(name: str, value: float, target: float) -> None:
    print(
        json.dumps(
            {"bar": name, "value": round(value, 3), "target": target, "holds": value >= target}
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    mutants = [each for each in read_mutants(LIST, ROOT) if arguments.only in each.file]
    if not mutants:
        raise SystemExit(f"no mutant of a file with {arguments.only!r}; see tests/mutants.toml")
    with copies(ROOT, arguments.workers) as trees:
        check_tests(mutants, trees[0], arguments.workers)
        verdicts = judge(mutants, trees)
    for kind in KINDS:
        killed = [
            verdict.killed
            for mutant, verdict in zip(mutants, verdicts, strict=True)
            if mutant.kind == kind
        ]
        if killed:
            bar(f"mutants killed, {kind}", sum(killed) / len(killed), TARGET)
    bar("mutants killed", sum(verdict.killed for verdict in verdicts) / len(verdicts), TARGET)


if __name__ == "__main__":
    main()
