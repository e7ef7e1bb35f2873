"""The command line, run inside the tests."""

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from transduce.app.cli import main
from transduce.text.grammar import generate

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def transduce(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Run a command in this process: its exit code, stdout and stderr."""

    def run(*arguments: object, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["transduce", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfdbinary.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capfdbinary.readouterr()
        return int(end.value.code or 0), out.decode(), err.decode()

    return run


def write_grammar(folder: Path) -> tuple[Path, Path]:
    """A small generated corpus as two files."""
    pairs = list(generate("en-it", 300, seed=5))
    files = folder / "train.en", folder / "train.it"
    files[0].write_text("".join(f"{pair.source}\n" for pair in pairs), encoding="utf-8")
    files[1].write_text("".join(f"{pair.target}\n" for pair in pairs), encoding="utf-8")
    return files


@pytest.fixture
def grammar_files(tmp_path: Path) -> tuple[Path, Path]:
    """A small generated corpus as two files, alone in their folder."""
    return write_grammar(tmp_path)
