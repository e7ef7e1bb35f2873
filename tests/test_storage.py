"""What reaches the disk, and in which order: the calls to the operating system are recorded."""

import hashlib
import os
import stat
from pathlib import Path

import pytest

from transduce import storage
from transduce.errors import StorageError
from transduce.storage import parse_json, remove, replace_file, write_folder

Calls = list[tuple[str, str, int | str]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Record flushes, with name and size at that time, and renamings."""
    made: Calls = []
    fsync, rename = os.fsync, os.rename

    def record_fsync(handle: int) -> None:
        fsync(handle)
        name, found = Path(os.readlink(f"/proc/self/fd/{handle}")).name, os.fstat(handle)
        is_folder = stat.S_ISDIR(found.st_mode)
        made.append(("flush", name, "folder" if is_folder else found.st_size))

    def record_rename(source: Path, target: Path) -> None:
        rename(source, target)
        made.append(("rename", source.name, target.name))

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "rename", record_rename)
    return made


def test_a_folder_appears_after_its_files_and_its_names_are_on_disk(
    tmp_path: Path, calls: Calls
) -> None:
    write_folder(tmp_path / "m", {"a": b"12345", "b": b"123"})
    assert calls == [
        ("flush", "a", 5),
        ("flush", "b", 3),
        ("flush", "m.partial", "folder"),
        ("rename", "m.partial", "m"),
        ("flush", tmp_path.name, "folder"),
    ]


def test_a_file_is_replaced_after_its_content_is_on_disk_and_its_name_is_flushed_too(
    tmp_path: Path, calls: Calls
) -> None:
    (tmp_path / "a").write_bytes(b"before")
    with (tmp_path / "a").open("rb") as reader:
        replace_file(tmp_path / "a", b"1234567")
        assert reader.read() == b"before"  # whoever reads keeps the old content
    assert (tmp_path / "a").read_bytes() == b"1234567"
    assert calls == [
        ("flush", "a.partial", 7),
        ("rename", "a.partial", "a"),
        ("flush", tmp_path.name, "folder"),
    ]


@pytest.mark.parametrize("kind", ["file", "link", "pipe", "folder"])
def test_what_is_left_at_the_temporary_name_is_removed_and_never_written_to(
    tmp_path: Path, kind: str
) -> None:
    left, other = tmp_path / "a.partial", tmp_path / "other"
    other.write_bytes(b"mine")
    match kind:
        case "file":
            left.write_bytes(b"half")
        case "link":
            left.symlink_to(other)
        case "pipe":
            os.mkfifo(left)
        case _:
            left.mkdir()
    replace_file(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert other.read_bytes() == b"mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "other"]


def test_removing_a_link_leaves_what_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    remove(tmp_path / "link")
    remove(tmp_path / "gone")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
    remove(tmp_path / "folder")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "it is nested too deeply"),
        ("9" * 5_000, "a number has too many digits"),
        ("{", "Expecting property name"),
        (b"\xff", "can't decode byte"),
    ],
)
def test_json_that_cannot_be_parsed_is_one_kind_of_error(text: str | bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_json(text)


def test_a_hash_is_that_of_the_whole_content() -> None:
    for content in (b"", b"a", b"ab", bytes(range(256))):
        assert storage.sha256(content) == hashlib.sha256(content).hexdigest()


def test_a_folder_is_replaced_whole_and_what_was_in_it_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    storage.write_folder(folder, {"a": b"1", "b": b"2"})
    storage.write_folder(folder, {"b": b"3"})
    assert [(path.name, path.read_bytes()) for path in folder.iterdir()] == [("b", b"3")]
    assert list(tmp_path.iterdir()) == [folder]


def test_a_full_disk_says_how_much_all_files_need_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(storage, "write_file", full)
    with pytest.raises(StorageError, match=r"No space left on device \(3\.0 MB needed\)"):
        storage.write_folder(tmp_path / "model", {"a": b"x" * 1_000_000, "b": b"x" * 2_000_000})
    assert list(tmp_path.iterdir()) == []
