"""The command line, run inside the tests."""

import io
import sys
from collections.abc import Callable

import pytest

from transduce.app.cli import main

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
