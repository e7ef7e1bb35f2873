"""Running text: what is counted, and what a blank file is."""

from pathlib import Path

import pytest

from transduce.errors import DataError
from transduce.text import running_text
from transduce.text.running_text import TextFiles, TextList, survey_text

DOCUMENTS = ("one\ntwo\n", "three", "four\n\nfive")


def test_documents_characters_and_lines_are_those_of_the_text() -> None:
    found = survey_text(TextList(DOCUMENTS), "nfc")
    assert found.n_documents == len(DOCUMENTS)
    assert found.n_characters == sum(map(len, DOCUMENTS))
    assert found.n_lines == sum(len(text.split("\n")) for text in DOCUMENTS)
    assert list(found.sample) == [line for text in DOCUMENTS for line in text.split("\n")]


def test_a_sample_is_spread_evenly_over_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of it from either half, within five standard deviations; the seed is fixed."""
    monkeypatch.setattr(running_text, "SAMPLE_SIZE", 1000)
    text = "\n".join(map(str, range(4000)))
    sample = survey_text(TextList([text]), "nfc").sample
    assert len(set(sample)) == 1000
    assert abs(sum(int(line) < 2000 for line in sample) - 500) < 70


def test_a_file_of_blank_lines_is_refused_and_one_word_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("\n \n")
    with pytest.raises(DataError, match="has no text to learn from"):
        survey_text(TextFiles((path,)), "nfc")
    path.write_text("\n \nword\n\n")
    assert survey_text(TextFiles((path,)), "nfc").n_documents == 1
