"""The cache of converted models: an entry is used only if intact and of this model and user."""

import json
import os
import shutil
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.commands import Run
from transduce.convert import cache as model_cache
from transduce.convert.cache import cache_folder, find_converted
from transduce.convert.ctranslate2 import convert
from transduce.decode.translator import Translator
from transduce.model import Transformer
from transduce.model_folder import ModelFolder, open_model, save_model
from transduce.storage import sha256

is_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
NOBODY = 65_534


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder of the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "transduce" / "ctranslate2"


@pytest.fixture
def folder(untrained_folder: ModelFolder, tmp_path: Path) -> ModelFolder:
    save_model(tmp_path / "model", untrained_folder)
    return open_model(tmp_path / "model")


def place_of(folder: ModelFolder) -> Path:
    return cache_folder(folder.fingerprint or "")


def write_record(converted: Path, **changes: object) -> None:
    record = json.loads((converted / "parity.json").read_text())
    (converted / "parity.json").write_text(json.dumps({**record, **changes}))


def test_a_folder_converted_from_another_model_is_never_used(
    transduce: Run, home: Path, folder: ModelFolder, untrained_folder: ModelFolder, tmp_path: Path
) -> None:
    with torch.no_grad():
        for weight in untrained_folder.model.parameters():
            weight.copy_(torch.randn_like(weight))
    save_model(tmp_path / "other", untrained_folder)
    other = find_converted(open_model(tmp_path / "other"), lambda message: None)
    shutil.copytree(other, place_of(folder))
    said = []
    for engine in ("torch", "ctranslate2"):
        command = ("translate", "--engine", engine, "-m", tmp_path / "model", "--beam", 1)
        code, out, err = transduce(*command, stdin=b"I love you\n")
        assert code == 0, err
        said.append(out)
    assert said[0] == said[1]
    assert f"{place_of(folder)} cannot be used (it was converted from another model)" in err


def add_a_file(converted: Path) -> None:
    (converted / "shared_vocabulary.txt").write_text("x")


def replace_by_a_pipe(converted: Path) -> None:
    (converted / "model.bin").unlink()
    os.mkfifo(converted / "model.bin", 0o600)


def list_no_files(converted: Path) -> None:
    write_record(converted, files=[])


def nest(converted: Path) -> None:
    (converted / "parity.json").write_text("[" * 100_000)


def open_to_all(converted: Path) -> None:
    (converted / "model.bin").chmod(0o666)


def give_away(converted: Path) -> None:
    os.chown(converted / "model.bin", NOBODY, NOBODY)


def become_a_file(converted: Path) -> None:
    shutil.rmtree(converted)
    converted.write_text("x")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (add_a_file, "parity.json lists other files"),
        (replace_by_a_pipe, "is a named pipe, expected a regular file"),
        (list_no_files, "parity.json lists other files"),
        (nest, "not valid JSON: it is nested too deeply"),
        (open_to_all, "other users can write to "),
        pytest.param(give_away, "belongs to another user", marks=is_root),
        (become_a_file, "Not a directory"),
    ],
)
def test_an_entry_that_cannot_be_trusted_is_replaced(
    home: Path,
    folder: ModelFolder,
    conversions: list[Path],
    damage: Callable[[Path], None],
    reason: str,
) -> None:
    converted = find_converted(folder, lambda message: None)
    damage(converted)
    said: list[str] = []
    assert find_converted(folder, said.append) == converted
    assert said[0].startswith(f"{converted} cannot be used (")
    assert reason in said[0]
    assert len(conversions) == 2
    assert find_converted(folder, said.append) == converted
    assert len(conversions) == 2


def test_a_converted_model_that_does_not_load_is_converted_again(
    home: Path, folder: ModelFolder, conversions: list[Path]
) -> None:
    converted = find_converted(folder, lambda message: None)
    (converted / "model.bin").write_bytes(b"x" * 100)
    files = json.loads((converted / "parity.json").read_text())["files"]
    write_record(converted, files={**files, "model.bin": sha256(b"x" * 100)})
    translator = Translator(folder, engine="ctranslate2")
    assert len(translator.translate(["I love you"], beam=1)) == 1
    assert len(conversions) == 2


def test_the_cache_is_for_this_user_alone_whatever_the_umask(
    home: Path, folder: ModelFolder
) -> None:
    before = os.umask(0)
    try:
        converted = find_converted(folder, lambda message: None)
    finally:
        os.umask(before)
    for path in (home.parent.parent, home.parent, home, converted):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in converted.iterdir()} == {0o600}


def open_folder(path: Path) -> None:
    path.chmod(0o777)


def open_to_group(path: Path) -> None:
    path.chmod(0o770)


def give_folder_away(path: Path) -> None:
    os.chown(path, NOBODY, NOBODY)


@pytest.mark.parametrize("level", ["cache", "transduce", "ctranslate2"])
@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (open_folder, "other users can write to {path} (chmod go-w forbids it)"),
        (open_to_group, "other users can write to {path} (chmod go-w forbids it)"),
        pytest.param(give_folder_away, "{path} belongs to another user", marks=is_root),
    ],
)
def test_a_cache_below_a_folder_of_others_is_not_used(
    home: Path,
    folder: ModelFolder,
    conversions: list[Path],
    level: str,
    damage: Callable[[Path], None],
    reason: str,
) -> None:
    converted = find_converted(folder, lambda message: None)
    [path] = [each for each in (home, *home.parents) if each.name == level][:1]
    damage(path)
    said: list[str] = []
    used = find_converted(folder, said.append)
    assert said == [f"{reason.format(path=path)}; the model is converted for this run only"]
    assert not used.is_relative_to(home)
    assert used == conversions[-1] != converted


def test_a_sticky_folder_above_the_cache_is_safe(
    home: Path, folder: ModelFolder, conversions: list[Path]
) -> None:
    converted = find_converted(folder, lambda message: None)
    (home.parent.parent).chmod(0o1777)
    assert find_converted(folder, lambda message: None) == converted
    home.chmod(0o1777)  # whoever can create entries here can create this one
    assert find_converted(folder, lambda message: None) != converted


def test_what_killed_conversions_left_is_removed_at_the_next_one(
    home: Path, folder: ModelFolder, tmp_path: Path
) -> None:
    left = home / f"{'0' * 32}.abcdef12" / "model"
    left.mkdir(parents=True, mode=0o700)
    for path in (home.parent.parent, home.parent, home):
        path.chmod(0o700)
    (left / "model.bin").write_bytes(b"half")
    (home / "mine.txt").write_text("x")
    converted = find_converted(folder, lambda message: None)
    assert {path.name for path in home.iterdir()} == {converted.name, "mine.txt"}


def test_two_that_need_the_same_model_convert_it_once(
    home: Path, folder: ModelFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, said = [], []
    both_have_begun = threading.Event()

    def slow(model: Transformer, target: Path) -> None:
        made.append(target)
        assert both_have_begun.wait(timeout=60)
        convert(model, target)

    def log(message: str) -> None:
        said.append(message)
        if message.startswith("waiting for another process"):
            both_have_begun.set()

    monkeypatch.setattr(model_cache, "convert", slow)
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(find_converted(folder, log))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert found == [place_of(folder)] * 2
    assert len(made) == 1
    assert sorted(message.split(" ")[0] for message in said) == ["converted", "waiting"]
