"""The command line, run inside the tests."""

import io
import sys
from collections.abc import Callable

import pytest

from tests.app.trainings import Straight, finish, start, weights
from tests.conftest import write_grammar
from transduce.app.cli import main

Run = Callable[..., tuple[int, str, str]]


def doubts(err: str) -> list[str]:
    """What `translate` said about lines, without what it says of itself: its engine, and how many lines there were."""
    lines = [line.removeprefix("transduce: ") for line in err.splitlines()]
    while lines and lines[0].startswith("converted for CTranslate2, once: "):
        del lines[0]
    engine, *between, summary = lines
    assert engine.startswith("engine: "), err
    assert summary.partition(" ")[2].startswith("line"), err
    return between


@pytest.fixture
def transduce(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Run a command in this process: its exit code, stdout and stderr."""

    def run(*arguments: object, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["transduce", *map(str, arguments)])
        monkeypatch.setattr(sys, "stderr", sys.stderr)  # a training puts its own there
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfdbinary.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capfdbinary.readouterr()
        return int(end.value.code or 0), out.decode(), err.decode()

    return run


@pytest.fixture(scope="session")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Straight:
    """A corpus and the weights of a training on it that nobody disturbed."""
    folder = tmp_path_factory.mktemp("straight")
    corpus = write_grammar(folder, 300)
    code, err = finish(start(folder / "run", corpus))
    assert code == 0, err
    return corpus, weights(folder / "run")
