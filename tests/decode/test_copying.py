"""Masks: words that a model copies are found by trying, once, and kept in the user's cache."""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from transduce.decode import copying
from transduce.decode.copying import (
    MAX_MASKS,
    NUMBERS,
    Masks,
    find_candidates,
    find_masks,
    try_masks,
)
from transduce.model_folder import ModelFolder
from transduce.text.protected import find_protected


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "transduce" / "masks"


@pytest.fixture
def folder(untrained_folder: ModelFolder) -> ModelFolder:
    names = find_candidates(replace(untrained_folder, words=None))
    assert len(names) >= 3, names
    return replace(untrained_folder, words=frozenset(names), fingerprint="0123")


def copy_all(texts: Sequence[str]) -> list[str]:
    return list(texts)


def refuse(texts: Sequence[str]) -> list[str]:
    raise AssertionError("the masks are in the cache")


def silent(message: str) -> None:
    pass


def test_candidates_are_words_of_the_training_text_that_are_only_known_with_a_capital(
    folder: ModelFolder,
) -> None:
    first, second, *rest = find_candidates(folder)
    known = frozenset({first, second, first.lower()})
    assert find_candidates(replace(folder, words=known)) == [second]
    assert find_candidates(replace(folder, words=frozenset())) == []
    assert first[0].isupper()
    assert rest


def test_masks_are_the_words_that_come_out_once_wherever_they_stand(folder: ModelFolder) -> None:
    first, second, *rest = find_candidates(folder)

    def translate(texts: Sequence[str]) -> list[str]:
        """The first is lost after another word, the second is doubled."""
        outputs = []
        for text in texts:
            words = [word for i, word in enumerate(text.split()) if word != first or i == 0]
            outputs.append(" ".join(f"{w} {w}" if w == second else w for w in words))
        return outputs

    found = try_masks(folder, translate)
    assert set(found.names) == set(rest[:MAX_MASKS])
    assert found.numbers == NUMBERS[:MAX_MASKS]
    assert try_masks(folder, lambda texts: [""] * len(texts)) == Masks()


def test_a_word_must_be_copied_in_three_of_four_contexts(
    folder: ModelFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    [name] = find_candidates(folder)[:1]
    one = replace(folder, words=frozenset({name}))
    monkeypatch.setattr(copying, "N_CONTEXTS", 8)
    for n_lost, is_mask in ((2, True), (3, False)):
        lost = [""] * n_lost
        found = try_masks(one, lambda texts, lost=lost: [*lost, *texts[len(lost) :]])
        assert bool(found.names) == is_mask


def test_masks_are_tried_once_and_then_read_from_the_cache(folder: ModelFolder, home: Path) -> None:
    said: list[str] = []
    masks = find_masks([folder], copy_all, said.append)
    assert masks.names
    assert masks.numbers
    assert said == [
        "testing which words the model copies, to mask links and placeholders (once per model)"
    ]
    assert find_masks([folder], refuse, silent) == masks
    assert len(list(home.iterdir())) == 1
    other = replace(folder, fingerprint="4567")
    with pytest.raises(AssertionError, match="in the cache"):
        find_masks([other], refuse, silent)


def test_an_ensemble_has_masks_of_its_own(folder: ModelFolder, home: Path) -> None:
    find_masks([folder], copy_all, silent)
    find_masks([folder, replace(folder, fingerprint="4567")], copy_all, silent)
    assert len(list(home.iterdir())) == 2


def test_a_user_without_a_home_has_no_cache(
    folder: ModelFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", no_home)
    assert find_masks([folder], copy_all, silent).names


def no_home() -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_a_model_that_is_not_saved_has_no_cache(folder: ModelFolder, home: Path) -> None:
    assert find_masks([replace(folder, fingerprint=None)], copy_all, silent)
    assert not home.exists()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"names": "Maria", "numbers": []}',
        '{"names": [1], "numbers": []}',
        '{"names": []}',
        '{"names": ["a b"], "numbers": []}',
        '{"names": [""], "numbers": []}',
        '{"names": ["A", "B", "C", "D", "E"], "numbers": []}',
    ],
)
def test_a_damaged_cache_is_made_again(folder: ModelFolder, home: Path, content: str) -> None:
    masks = find_masks([folder], copy_all, silent)
    [path] = home.iterdir()
    path.write_text(content)
    assert find_masks([folder], copy_all, silent) == masks
    assert tuple(json.loads(path.read_text())["names"]) == masks.names


def test_a_cache_that_others_can_write_is_not_trusted(folder: ModelFolder, home: Path) -> None:
    masks = find_masks([folder], copy_all, silent)
    [path] = home.iterdir()
    path.write_text('{"names": ["Evil"], "numbers": []}')
    path.chmod(0o666)
    assert find_masks([folder], copy_all, silent) == masks


def test_masks_are_found_without_a_cache_folder(
    folder: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert find_masks([folder], copy_all, silent)
    assert os.listdir(tmp_path) == ["file"]


def test_a_number_is_masked_by_a_number_and_anything_else_by_a_name() -> None:
    masks = Masks(("Tom", "Mary"), ("10", "20"))
    for text, expected in (
        ("see {a} and {b}", ("Tom", "Mary")),
        ("see {a} 5", ("Tom",)),  # neighbors are one part
        ("see {a} or 5", ("Tom", "10")),
        ("it costs $5 or 10", ("20",)),  # 10 is there already, and 5 is masked only once
        ("see 5kg", ("Tom",)),
        ("Tom sees {a}", ("Mary",)),
        ("see {a}, {b}, {c}", ()),
    ):
        parts = find_protected(text, with_numbers=True)
        if "10" in text:
            parts = parts[:1]
        assert masks.choose(parts, text) == expected
