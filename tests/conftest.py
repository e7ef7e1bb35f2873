"""Small models and texts that several tests share.

The dimensions are different primes, so that swapped axes cannot pass by chance.
"""

import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

# Set before torch is imported, as the command line does; see docs/decisions.md.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")
if "PYTEST_XDIST_WORKER" in os.environ:  # one process for each core: more threads would collide
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from hypothesis import settings

from tests.commands import Run
from tests.trainings import Straight, finish, start, weights
from transduce.cli.main import main
from transduce.config import ModelConfig, TextConfig
from transduce.convert import cache as model_cache
from transduce.convert.ctranslate2 import convert
from transduce.grammar import generate
from transduce.model import Transformer
from transduce.model_folder import FolderConfig, ModelFolder
from transduce.text.vocabulary import Vocabulary, learn_vocabulary

# An example takes longer while the machine is busy; pytest limits the time of a whole test.
settings.register_profile("transduce", deadline=None)
settings.load_profile("transduce")


@pytest.fixture(scope="session", autouse=True)
def _temporary_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep models that are converted for another engine out of the user's cache folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def model_config() -> ModelConfig:
    return ModelConfig(
        vocab_size=41, n_layers=2, d_model=22, d_ff=37, n_heads=3, d_k=7, d_v=5, dropout=0.0
    )


@pytest.fixture
def model(model_config: ModelConfig) -> Transformer:
    torch.manual_seed(0)
    return Transformer(model_config).eval()


@pytest.fixture(scope="session")
def grammar_lines() -> list[str]:
    return [text for pair in generate("en-it", 400, seed=11) for text in (pair.source, pair.target)]


@pytest.fixture(scope="session")
def vocabulary(grammar_lines: list[str]) -> Vocabulary:
    return learn_vocabulary(grammar_lines, "bpe", 700)


@pytest.fixture
def untrained_folder(vocabulary: Vocabulary) -> ModelFolder:
    torch.manual_seed(0)
    config = ModelConfig(vocab_size=len(vocabulary), n_layers=1, d_model=16, d_ff=23, n_heads=2)
    folder_config = FolderConfig(text=TextConfig(vocab_size=len(vocabulary)), model=config)
    return ModelFolder(
        folder_config,
        Transformer(config).eval(),
        vocabulary,
        vocabulary,
        frozenset({"I", "love", "you"}),
    )


def write_grammar(folder: Path, n: int = 200, task: str = "en-it") -> tuple[Path, Path]:
    """Write two parallel files of generated sentences and return their paths."""
    pairs = list(generate(task, n, seed=5))
    source, target = folder / "train.en", folder / "train.it"
    source.write_text("".join(f"{pair.source}\n" for pair in pairs), encoding="utf-8")
    target.write_text("".join(f"{pair.target}\n" for pair in pairs), encoding="utf-8")
    return source, target


@pytest.fixture
def write_corpus(tmp_path: Path) -> Callable[..., tuple[Path, Path]]:
    """Return a function that writes generated sentences into the folder of the test."""
    return partial(write_grammar, tmp_path)


@pytest.fixture(autouse=True)
def _restore_signal_handlers() -> Iterator[None]:
    """Restore the signal handlers, which the command line sets for the whole process."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.fixture
def transduce(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Return a function that runs a command in this process.

    It returns exit code, stdout and stderr.
    """

    def run(*arguments: object, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["transduce", *map(str, arguments)])
        monkeypatch.setattr(sys, "stderr", sys.stderr)  # `prepare_streams` replaces it
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfdbinary.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capfdbinary.readouterr()
        return int(end.value.code or 0), out.decode(), err.decode()

    return run


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Where models were converted to, one each time."""
    made: list[Path] = []

    def counted(model: Transformer, target: Path) -> None:
        made.append(target)
        convert(model, target)

    monkeypatch.setattr(model_cache, "convert", counted)
    return made


@pytest.fixture(scope="session")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Straight:
    """Return a corpus, and the SHA-256 of the weights of an uninterrupted training on it."""
    folder = tmp_path_factory.mktemp("straight")
    corpus = write_grammar(folder, 300)
    code, err = finish(start(folder / "run", corpus))
    assert code == 0, err
    return corpus, weights(folder / "run")
