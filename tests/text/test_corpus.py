import json
from pathlib import Path

import pytest

from transduce.errors import DataError, UsageError
from transduce.text.corpus import (
    Pair,
    PairFiles,
    PairList,
    PairTables,
    describe_changes,
    open_pairs,
)


def write(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


def test_pairs_are_lines_side_by_side_file_after_file(tmp_path: Path) -> None:
    first = write(tmp_path / "a.en", "one\n\nthree\n"), write(tmp_path / "a.it", "uno\ndue\n \n")
    second = write(tmp_path / "b.en", "four\n"), write(tmp_path / "b.it", "quattro\n")
    pairs = open_pairs([first[0], second[0]], [first[1], second[1]])
    read = [(pair.source, pair.target) for pair in pairs.read()]
    assert read == [("one", "uno"), ("", "due"), ("three", " "), ("four", "quattro")]
    assert [pair.is_blank for pair in pairs.read()] == [False, True, True, False]
    assert pairs.languages == ("en", "it")
    assert pairs.name.endswith("a.it and 1 more")


def test_unequal_files_are_refused_with_both_counts_and_the_place(tmp_path: Path) -> None:
    lines = ["x" * (i * i % 53 + 1) for i in range(400)]
    source = write(
        tmp_path / "a.en", "".join(f"{line}\n" for i, line in enumerate(lines) if i != 152)
    )
    target = write(tmp_path / "b.it", "".join(f"{line}{line}\n" for line in lines))
    read = PairFiles((source,), (target,)).read()
    with pytest.raises(
        DataError,
        match=r"a\.en has 399 lines, .*b\.it has 400; "
        r"line n of one must be the translation of line n of the other\. "
        r"They probably drift apart near line 15\d\. Run transduce doctor to see the place",
    ):
        list(read)


@pytest.mark.parametrize(
    ("names", "languages"),
    [
        (("train.en", "train.de"), ("en", "de")),
        (("train.lc.norm.tok.en.gz", "train.de.zst"), ("en", "de")),
        (("a.txt", "b.txt"), None),
        (("a.en", "b.en"), None),
        (("a", "b"), None),
    ],
)
def test_languages_are_read_from_the_suffixes(
    names: tuple[str, str], languages: tuple[str, str] | None
) -> None:
    assert PairFiles((Path(names[0]),), (Path(names[1]),)).languages == languages


def test_tsv_columns_after_the_first_two_are_ignored(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "one\tuno\tsome note\n\ntwo\tdue\n")
    assert list(open_pairs(pairs=[path]).read()) == [
        Pair("one", "uno"),
        Pair("", ""),
        Pair("two", "due"),
    ]
    with pytest.raises(DataError, match=r"a\.tsv, line 2: no tab; expected source, tab, target"):
        list(open_pairs(pairs=[write(path, "one\tuno\ntwo due\n")]).read())


def test_jsonl_has_two_named_fields(tmp_path: Path) -> None:
    rows = [
        {"source": "one\ntwo", "target": "uno due"},
        {"translation": {"source": "three", "target": "tre"}},
    ]
    path = write(tmp_path / "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows) + "\n")
    assert list(open_pairs(pairs=[path]).read()) == [
        Pair("one two", "uno due"),
        Pair("three", "tre"),
        Pair("", ""),
    ]
    named = write(tmp_path / "b.jsonl", '{"en": "one", "it": "uno"}\n')
    pairs = open_pairs(pairs=[named], fields=("en", "it"))
    assert list(pairs.read()) == [Pair("one", "uno")]
    assert pairs.languages == ("en", "it")
    assert PairTables((named,), ("left", "right")).languages is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '{"en": "one", "it": "uno"}',
            r"line 1: found fields en, it; expected text in 'source' and 'target': "
            r"name the fields with --fields",
        ),
        ('["one", "uno"]', "line 1: found a list; expected text in 'source' and 'target'"),
        ('{"source": 1, "target": "uno"}', "line 1: found fields source, target; expected text"),
        ("{one", "line 1: not valid JSON: "),
        ("[" * 100_000, "line 1: not valid JSON: it is nested too deeply"),
        ("9" * 5_000, "line 1: not valid JSON: a number has too many digits"),
        ('{"\\u001b[31m\\u202e": 1}', r"line 1: found fields U\+001B\[31mU\+202E; expected text"),
    ],
)
def test_json_without_the_two_fields_is_refused(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(open_pairs(pairs=[write(tmp_path / "a.jsonl", line)]).read())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"source": ["a"]},
            "give both --source and --target, or --pairs with both sides in one file",
        ),
        (
            {"source": ["a.tsv.gz"]},
            r"a\.tsv\.gz has both sides in one file; use --pairs a\.tsv\.gz",
        ),
        (
            {"source": ["a", "b"], "target": ["c"]},
            "2 source files but 1 target files; give one target file per source file",
        ),
        ({"source": ["a"], "pairs": ["b.tsv"]}, "give either --source and --target, or --pairs"),
    ],
)
def test_sides_that_do_not_go_together_are_refused(
    arguments: dict[str, list[str]], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        open_pairs(**arguments)


def test_changes_between_fingerprints_are_described(tmp_path: Path) -> None:
    source, target = write(tmp_path / "a", "one\n"), write(tmp_path / "b", "uno\n")
    before = PairFiles((source,), (target,)).fingerprint()
    write(source, "two\n")
    after = [*PairFiles((source,), (target,)).fingerprint(), ["target", "c", ""]]
    assert describe_changes(before, before) == []
    assert describe_changes(before, after) == [f"{source} has changed", "c is now given (target)"]
    assert describe_changes(after, before)[-1] == "c is no longer given (target)"
    swapped = PairFiles((target,), (source,)).fingerprint()
    assert f"{target} is now given (source)" in describe_changes(before, swapped)
    assert describe_changes(after, after[::-1]) == ["the files are given in another order"]
    assert PairList([Pair("a", "b")]).fingerprint() != PairList([Pair("a", "c")]).fingerprint()
