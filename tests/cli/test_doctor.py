"""`transduce doctor` as users type it: output, files and exit codes."""

import gzip
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.commands import Run
from transduce.doctor.repeats import near_key
from transduce.grammar import generate
from transduce.text.corpus import Pair

Write = Callable[..., tuple[Path, Path]]


@pytest.fixture
def doctor(transduce: Run) -> Run:
    return partial(transduce, "doctor")


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    return list({near_key(pair.source): pair for pair in generate("en-it", 2000, seed=3)}.values())[
        :300
    ]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(sources: list[str], targets: list[str], name: str = "train") -> tuple[Path, Path]:
        source, target = tmp_path / f"{name}.en", tmp_path / f"{name}.it"
        source.write_bytes("".join(f"{line}\n" for line in sources).encode())
        target.write_bytes("".join(f"{line}\n" for line in targets).encode())
        return source, target

    return write


def sides(pairs: list[Pair]) -> tuple[list[str], list[str]]:
    return [pair.source for pair in pairs], [pair.target for pair in pairs]


def test_a_good_corpus_has_no_findings(doctor: Run, write: Write, pairs: list[Pair]) -> None:
    source, target = write(*sides(pairs))
    code, out, err = doctor("--source", source, "--target", target)
    assert (code, err) == (0, "")
    assert out.startswith(f"{source} and {target}\n  300 pairs, en -> it, target typically 1.")
    assert "300 usable (100 %): a cleaned copy would keep them" in out
    assert "not found: misaligned, blank, not UTF-8" in out
    assert "!" not in out


def test_findings_are_shown_with_count_share_line_and_advice(
    doctor: Run, write: Write, pairs: list[Pair]
) -> None:
    sources, targets = sides(
        [*pairs, *pairs[:100], Pair("", "niente"), Pair("an <b>odd\x07</b> dog", "un cane strano")]
    )
    held_out = write(*sides(pairs[250:]), name="valid")
    source, target = write(sources, targets)
    code, out, _ = doctor(
        "--source",
        source,
        "--target",
        target,
        "--valid-source",
        held_out[0],
        "--valid-target",
        held_out[1],
    )
    assert code == 0
    assert "! duplicate                  100      25 %  dropped  repeat an earlier pair\n" in out
    assert "  blank                        1    0.25 %  dropped  have an empty side\n" in out
    assert "! leaked pair                 50      12 %  dropped  are also in a held-out set" in out
    assert "  markup                       1    0.25 %  kept     have tags" in out
    assert "line 402: <b>\n      an <b>odd␇</b> dog\n      un cane strano\n" in out
    assert " of valid.en\n" in out
    assert (
        "blank: training skips them; if there are many, check how the files were made\n"
        "  line 401: one side\n" in out
    )


def test_unequal_files_are_reported_and_end_in_an_error(
    doctor: Run, write: Write, pairs: list[Pair], tmp_path: Path
) -> None:
    sources, targets = sides(pairs)
    source, target = write(sources[:150] + sources[151:], targets)
    code, out, err = doctor("--source", source, "--target", target)
    assert code == 65
    assert f"! unequal: {source} has 299 lines, {target} has 300\n" in out
    drift = re.search(
        r"! drift at about line (\d+) of the source: "
        r"1 line is missing in the source, or superfluous in the target\n",
        out,
    )
    assert drift is not None
    assert abs(int(drift[1]) - 151) <= 50
    assert f"{int(drift[1]) - 3:>9}  {sources[int(drift[1]) - 4]}\n" in out
    assert "pairs before that place." in out
    assert err == (
        f"transduce: error: {source} has 299 lines, {target} has 300; "
        "line n of one must be the translation of line n of the other: "
        "fix the alignment at the place shown\n"
    )
    code, out, err = doctor(
        "--source", source, "--target", target, "--write", tmp_path / "clean", "--json"
    )
    assert code == 65
    assert err == (
        f"transduce: error: nothing was written to {tmp_path / 'clean'}: "
        "files of unequal length cannot be cleaned; "
        "fix the alignment at the place shown and run doctor again\n"
    )
    assert not (tmp_path / "clean").exists()
    record = json.loads(out)
    assert record["unequal"] == [
        {"source": str(source), "target": str(target), "source_lines": 299, "target_lines": 300}
    ]
    assert abs(record["drifts"][0]["line"] - 151) <= 50


def test_in_short_unequal_files_the_place_is_unknown(doctor: Run, write: Write) -> None:
    source, target = write(["a b"], ["c d", "e f"])
    code, out, _ = doctor("--source", source, "--target", target)
    assert code == 65
    assert (
        "The place where they drift apart is unknown: too few lines, or more than 2,000,000." in out
    )


def test_swapped_files_are_reported_and_not_cleaned(
    doctor: Run, write: Write, pairs: list[Pair], tmp_path: Path
) -> None:
    sources, targets = sides(pairs)
    source, target = write(targets, sources)
    code, out, _ = doctor("--source", source, "--target", target)
    assert code == 0
    assert (
        "! swapped: the source is mostly it, the target mostly en; exchange --source and --target\n"
        in out
    )
    code, _, err = doctor("--source", source, "--target", target, "--write", tmp_path / "clean")
    assert code == 65
    assert (
        "clean: the two sides look swapped; exchange --source and --target, "
        "or give --languages, and run doctor again" in err
    )


def test_json_is_one_object_with_whole_texts(doctor: Run, write: Write, pairs: list[Pair]) -> None:
    long = "word " * 300
    source, target = write(*sides([*pairs, Pair(long, long.upper())]))
    code, out, err = doctor("--source", source, "--target", target, "--json")
    assert (code, err) == (0, "")
    record = json.loads(out)
    assert out.count("\n") == 1
    assert (record["pairs"], record["usable"], record["languages"]) == (301, 300, ["en", "it"])
    assert [finding["name"] for finding in record["findings"]] == ["copy", "too long"]
    assert record["findings"][0]["examples"][0] == {
        "file": f"{source} and {target}",
        "line": 301,
        "note": "the same text on both sides",
        "source": long,
        "target": long.upper(),
    }
    assert record["lengths"]["source"]["longest"] == 1500


def test_the_page_is_self_contained_and_escapes_the_corpus(
    doctor: Run, write: Write, pairs: list[Pair], tmp_path: Path
) -> None:
    bad = Pair("<script>alert(1)</script> dog & cat", "<img src=x onerror=alert(1)>")
    source, target = write(*sides([*pairs, bad]))
    page = tmp_path / "report.html"
    code, _, err = doctor("--source", source, "--target", target, "--html", page)
    assert code == 0
    assert err == f"report: {page}\n"
    text = page.read_text()
    assert "<script" not in text
    assert "<img" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; dog &amp; cat" in text
    assert text.count("<svg") == 2
    assert "301" in text


def test_the_cleaned_copy_is_reported_and_compressed_files_are_decompressed(
    doctor: Run, pairs: list[Pair], tmp_path: Path
) -> None:
    for name, lines in zip(("train.en.gz", "train.it.gz"), sides([*pairs, pairs[0]]), strict=True):
        (tmp_path / name).write_bytes(
            gzip.compress("".join(f"{line}\n" for line in lines).encode())
        )
    arguments = (
        "--source",
        tmp_path / "train.en.gz",
        "--target",
        tmp_path / "train.it.gz",
        "--write",
        tmp_path / "clean",
    )
    code, _, err = doctor(*arguments)
    assert code == 0
    assert err == f"{tmp_path / 'clean'}: 300 pairs kept, 1 dropped (dropped.jsonl)\n"
    assert len((tmp_path / "clean" / "train.it").read_text().splitlines()) == 300
    code, _, err = doctor(*arguments)
    assert code == 73
    assert err.endswith("clean is not empty; give a new folder for the cleaned copy\n")


def test_tables_with_named_fields_and_languages_are_examined(
    doctor: Run, pairs: list[Pair], tmp_path: Path
) -> None:
    table = tmp_path / "data.jsonl"
    table.write_text(
        "".join(json.dumps({"a": pair.source, "b": pair.target}) + "\n" for pair in pairs)
    )
    code, out, _ = doctor(
        "--pairs",
        table,
        "--fields",
        "a,b",
        "--languages",
        "en,it",
        "--valid-pairs",
        table,
        "--json",
    )
    record = json.loads(out)
    assert (code, record["pairs"], record["remarks"]) == (0, 300, [])
    assert [(finding["name"], finding["count"]) for finding in record["findings"]] == [
        ("leaked pair", 300)
    ]
    table.write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in pairs))
    code, out, _ = doctor("--pairs", table.rename(tmp_path / "data.tsv"))
    assert code == 0
    assert (
        "note: languages were not checked: "
        "the file names do not show them; give --languages en,de\n" in out
    )


def test_empty_files_are_reported_and_not_cleaned(
    doctor: Run, write: Write, tmp_path: Path
) -> None:
    source, target = write([], [])
    code, out, _ = doctor(
        "--source", source, "--target", target, "--html", tmp_path / "report.html"
    )
    assert code == 0
    assert "0 usable (0 %)" in out
    code, _, err = doctor("--source", source, "--target", target, "--write", tmp_path / "clean")
    assert code == 65
    assert "nothing was written to" in err
    assert err.endswith("none of the 0 pairs is usable; fix the findings of the report\n")


def test_unusable_paths_are_errors_before_any_work(
    doctor: Run, write: Write, pairs: list[Pair], tmp_path: Path
) -> None:
    source, target = write(*sides(pairs[:30]))
    code, _, err = doctor("--source", tmp_path / "gone.en", "--target", target)
    assert (code, err) == (
        66,
        f"transduce: error: no file {tmp_path / 'gone.en'}; check the path\n",
    )
    code, out, err = doctor(
        "--source", source, "--target", target, "--html", tmp_path / "no" / "report.html"
    )
    assert (code, out) == (73, "")
    assert err == (
        f"transduce: error: cannot create {tmp_path / 'no/report.html'}: "
        f"no folder {tmp_path / 'no'}; create it first\n"
    )
    code, _, err = doctor("--source", source, "--target", target, "--html", tmp_path)
    assert (code, err) == (
        73,
        f"transduce: error: {tmp_path} is a folder; expected the name of a file to write\n",
    )
    code, _, err = doctor("--source", source)
    assert code == 2
    assert "give both --source and --target" in err
    code, _, err = doctor("--source", source, "--target", target, "--languages", "en")
    assert code == 2
    assert "--languages is 'en'; expected two names separated by a comma" in err
