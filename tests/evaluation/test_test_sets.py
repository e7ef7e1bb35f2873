"""Test sets are read without holding what is not compared."""

import gzip
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from transduce.errors import DataError
from transduce.evaluation.test_sets import read_test_set
from transduce.text import corpus
from transduce.text.corpus import open_pairs

N_LINES = 300_000
LIMIT = 1 << 20  # bytes, less than the lines take


@pytest.fixture
def long(tmp_path: Path) -> Path:
    path = tmp_path / "long.gz"
    path.write_bytes(gzip.compress(b"a cat\n" * N_LINES))
    return path


@pytest.fixture
def short(tmp_path: Path) -> Path:
    path = tmp_path / "short"
    path.write_text("a\nb\n")
    return path


def peak_of(action: Callable[[], object], message: str) -> int:
    """Return the largest memory that the action allocates before it raises DataError."""
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=message):
            action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_test_set_that_is_much_longer_than_the_other_is_not_kept(long: Path, short: Path) -> None:
    message = "long.gz has 300,000 lines, .*short has 2; expected the same number"
    assert peak_of(lambda: read_test_set([short], [long]), message) < LIMIT
    message = "short has 2 lines, .*long.gz has 300,000; expected the same number"
    assert peak_of(lambda: read_test_set([long], [short]), message) < LIMIT


def test_pairs_of_unequal_files_are_not_kept(
    long: Path, short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "MAX_LINES_FOR_DRIFT", 1000)
    source = open_pairs([long], [short])
    message = "long.gz has 300,000 lines, .*short has 2; line n of one"
    assert peak_of(lambda: list(source.read()), message) < LIMIT


def test_an_empty_reference_is_named_before_lengths_are_compared(
    short: Path, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.write_text("")
    for others in ([short], [empty], []):
        with pytest.raises(DataError, match="empty is empty; expected one reference"):
            read_test_set([empty], others)
