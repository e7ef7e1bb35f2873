import gzip
import io
import lzma
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.errors import DataError, MissingInputError, UsageError
from transduce.text import files
from transduce.text.files import content_suffix, find_files, read_lines, sha256_of_file, zstd

TEXT = "uno\ndue è\r\n\ntre\u2028tre\n"
LINES = ["uno", "due è", "", "tre\u2028tre"]
COMPRESSORS = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstd.compress, "": bytes}


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    text = "one\u2028still one\r\ntwo\x0b\x0c\x85\rtwo\nthree"
    path = write(tmp_path / "a", text.encode())
    assert list(read_lines(path)) == ["one\u2028still one", "two\x0b\x0c\x85\rtwo", "three"]


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=12),
        max_size=6,
    )
)
def test_any_text_without_line_feeds_is_one_line(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    path = tmp_path_factory.mktemp("lines") / "a"
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    expected = [line.removesuffix("\r") for line in lines]
    if expected:
        expected[0] = expected[0].removeprefix("\ufeff")
    assert list(read_lines(path)) == expected


@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_compressed_files_are_decompressed_by_their_suffix(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"train.it{suffix}", COMPRESSORS[suffix](TEXT.encode()))
    assert list(read_lines(path)) == LINES
    assert content_suffix(path) == ".it"


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_a_truncated_compressed_file_is_named(tmp_path: Path, suffix: str) -> None:
    compressed = COMPRESSORS[suffix](os.urandom(1 << 16).hex().encode())
    path = write(tmp_path / f"a{suffix}", compressed[: len(compressed) // 2])
    with pytest.raises(
        DataError, match=rf"a\{suffix} is truncated: the compressed data ends early; copy it again"
    ):
        list(read_lines(path))


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_a_file_that_is_not_compressed_as_its_suffix_says_is_named(
    tmp_path: Path, suffix: str
) -> None:
    with pytest.raises(DataError, match=rf"a\{suffix} cannot be decompressed as \{suffix}: "):
        list(read_lines(write(tmp_path / f"a{suffix}", b"plain text, not compressed\n")))


def test_a_compressed_file_of_endless_zeros_does_not_fill_the_memory(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb") as file:
        for _ in range(64):
            file.write(bytes(1 << 20))
    path = write(tmp_path / "bomb.gz", buffer.getvalue())
    assert path.stat().st_size < 100_000
    with pytest.raises(
        DataError,
        match=r"bomb\.gz, line 1: longer than 16 MB without a line feed; if this is text",
    ):
        list(read_lines(path))


def test_a_line_may_be_a_megabyte_long(tmp_path: Path) -> None:
    assert [len(line) for line in read_lines(write(tmp_path / "a", b"x" * (1 << 20) + b"\ny"))] == [
        1 << 20,
        1,
    ]


def test_a_byte_order_mark_is_removed_once(tmp_path: Path) -> None:
    path = write(tmp_path / "a", b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n")
    assert list(read_lines(path)) == ["one", "\ufefftwo"]


def test_invalid_utf8_is_named_by_file_line_and_byte_or_replaced(tmp_path: Path) -> None:
    path = write(tmp_path / "bad.en", b"good\nnot g\xf6\xf6d\nend\n")
    with pytest.raises(
        DataError,
        match=r"bad\.en, line 2: byte 6 of the line \(0xf6\) is not UTF-8; convert.*iconv",
    ):
        list(read_lines(path))
    assert list(read_lines(path, errors="replace")) == ["good", "not g\ufffd\ufffdd", "end"]


def test_utf16_is_recognised(tmp_path: Path) -> None:
    with pytest.raises(
        DataError,
        match=r"a looks like UTF-16; expected UTF-8: convert it with iconv -f utf-16 -t utf-8",
    ):
        list(read_lines(write(tmp_path / "a", "text".encode("utf-16"))))


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    for read in (lambda path: list(read_lines(path)), sha256_of_file):
        with pytest.raises(MissingInputError, match=r"no file .*gone\.en"):
            read(tmp_path / "gone.en")
        with pytest.raises(MissingInputError, match="is a folder; expected a text file"):
            read(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_read_permission_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a", b"text")
    path.chmod(0)
    for read in (lambda path: list(read_lines(path)), sha256_of_file):
        with pytest.raises(MissingInputError, match=r"cannot read .*a: permission denied"):
            read(path)


def test_patterns_are_expanded_in_the_order_of_names(tmp_path: Path) -> None:
    for name in ("part-2.en", "part-1.en", "part-1.de"):
        write(tmp_path / name, b"")
    assert [path.name for path in find_files([str(tmp_path / "part-*.en")])] == [
        "part-1.en",
        "part-2.en",
    ]
    with pytest.raises(MissingInputError, match=r"no file matches .*none-\*\.en"):
        find_files([tmp_path / "none-*.en"])
    odd = write(tmp_path / "odd[1].en", b"")
    assert find_files([odd]) == (odd,)


def test_standard_input_can_be_read_twice_and_leaves_nothing_behind(tmp_path: Path) -> None:
    script = (
        "from transduce.text.files import find_files, read_lines\n"
        "[path] = find_files(['-'])\n"
        "print(path, list(read_lines(path)) == list(read_lines(path)) == ['uno', 'due'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], input=b"uno\ndue\n", capture_output=True, check=True
    )
    path, same = done.stdout.decode().split()
    assert same == "True"
    assert not Path(path).exists()


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_line_may_be_as_long_as_the_longest_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: bytes
) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE", 1000)
    longest = b"x" * (1000 - len(end)) + end
    assert len(next(read_lines(write(tmp_path / "a", longest + end)))) >= 999
    with pytest.raises(DataError, match="line 1: longer than 0 MB without a line feed"):
        list(read_lines(write(tmp_path / "b", b"x" * 1001)))


def test_half_of_the_bytes_being_zero_is_not_utf16_and_more_than_half_is() -> None:
    assert files.detect_binary(b"a\0bccd") is None
    assert files.detect_binary(b"a\0b\0cd") is not None
    assert files.detect_binary(b"a\0bc") is None, "one of two"
    assert files.detect_binary(b"\0a") is None, "too short to tell"


def test_two_options_cannot_both_read_standard_input() -> None:
    files.check_stdin_used_once(["-"], ["a", Path("b")])
    with pytest.raises(UsageError, match="can be read only once; give files for the others"):
        files.check_stdin_used_once(["-"], ["a", Path("-")])
