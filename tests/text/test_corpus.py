from pathlib import Path

import pytest

from transduce.errors import DataError, MissingInputError
from transduce.text.corpus import Pair, read_lines, read_pairs


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    text = "one\u2028still one\r\ntwo\x0b\x0c\x85two\nthree"
    path = write(tmp_path / "a", text.encode())
    assert list(read_lines(path)) == ["one\u2028still one", "two\x0b\x0c\x85two", "three"]


def test_a_byte_order_mark_is_removed_once(tmp_path: Path) -> None:
    path = write(tmp_path / "a", b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n")
    assert list(read_lines(path)) == ["one", "\ufefftwo"]


def test_invalid_utf8_is_named_by_file_line_and_byte(tmp_path: Path) -> None:
    path = write(tmp_path / "bad.en", b"good\nnot g\xf6\xf6d\n")
    with pytest.raises(DataError, match=r"bad\.en, line 2: byte 6 of the line \(0xf6\) is not UTF-8; convert.*iconv"):
        list(read_lines(path))


def test_a_missing_file_a_folder_and_a_closed_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match=r"no file .*gone\.en"):
        list(read_lines(tmp_path / "gone.en"))
    with pytest.raises(MissingInputError, match="is a folder, wanted a text file"):
        list(read_lines(tmp_path))


def test_pairs_are_lines_side_by_side_and_blank_ones_are_left_out_and_counted(tmp_path: Path) -> None:
    source = write(tmp_path / "a", b"one\n\nthree\nfour\n")
    target = write(tmp_path / "b", b"uno\ndue\n \nquattro\n")
    corpus = read_pairs(source, target)
    assert corpus.pairs == [Pair("one", "uno"), Pair("four", "quattro")]
    assert corpus.n_blank == 2


def test_unequal_files_are_refused_with_both_counts(tmp_path: Path) -> None:
    source, target = write(tmp_path / "a.en", b"1\n2\n3\n"), write(tmp_path / "b.it", b"1\n2\n")
    with pytest.raises(DataError, match=r"a\.en has 3 lines, .*b\.it has 2: line n of one must be the translation"):
        read_pairs(source, target)


@pytest.mark.parametrize("content", [b"", b"\n\n"])
def test_an_empty_corpus_is_refused(tmp_path: Path, content: bytes) -> None:
    path = write(tmp_path / "a", content)
    with pytest.raises(DataError, match="hold no pair to learn from"):
        read_pairs(path, path)
