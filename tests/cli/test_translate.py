"""`transduce translate` and `transduce score`: one line out per line in, doubtful lines flagged."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.commands import Run, line_messages
from tests.hostile import HOSTILE, check, fuzz
from transduce.config import DecodeConfig
from transduce.decode.options import Sampling, TranslateOptions
from transduce.decode.stream import translate_stream
from transduce.decode.translation import Translation
from transduce.grammar import generate
from transduce.text.line_stream import LineReader

SOURCES = [pair.source for pair in generate("en-it", 30, seed=77, split="held-out")]
STDIN = "".join(f"{line}\n" for line in SOURCES).encode()


@pytest.mark.parametrize("engine", ["ctranslate2", "torch"])
def test_hostile_lines_come_out_line_for_line(transduce: Run, tmp_path: Path, engine: str) -> None:
    lines = HOSTILE if engine == "ctranslate2" else [line for line in HOSTILE if len(line) < 10_000]
    report = tmp_path / "report.jsonl"
    stdin = b"".join(line + b"\n" for line in lines)
    code, out, _ = transduce(
        "translate", "--engine", engine, "--beam", 1, "--report", report, stdin=stdin
    )
    assert code == 0
    check(lines, out.encode(), report)


def test_500_random_lines_come_out_line_for_line(transduce: Run, tmp_path: Path) -> None:
    lines, report = fuzz(500, seed=1), tmp_path / "report.jsonl"
    stdin = b"".join(line + b"\n" for line in lines)
    code, out, _ = transduce("translate", "--beam", 1, "--report", report, stdin=stdin)
    assert code == 0
    check(lines, out.encode(), report)


@settings(
    deadline=None,
    max_examples=25,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture
    ],  # the fixtures keep nothing between two runs
    phases=[Phase.explicit, Phase.generate],
)
@given(
    st.lists(
        st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"")), min_size=1, max_size=8
    )
)
def test_any_bytes_come_out_line_for_line(
    transduce: Run, tmp_path: Path, lines: list[bytes]
) -> None:
    report = tmp_path / "report.jsonl"
    stdin = b"".join(line + b"\n" for line in lines)
    code, out, _ = transduce(
        "translate", "--beam", 1, "--max-length", 9, "--report", report, stdin=stdin
    )
    assert code == 0
    check(lines, out.encode(), report)


def test_the_output_does_not_depend_on_the_size_of_reads(
    transduce: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = transduce("translate", stdin=STDIN)[1]
    monkeypatch.setattr("transduce.text.line_stream.MIN_READ", 7)
    monkeypatch.setattr("transduce.text.line_stream.MAX_READ", 64)
    assert transduce("translate", stdin=STDIN)[1] == whole


def test_strict_exits_with_65_after_all_lines_are_written(transduce: Run) -> None:
    code, out, err = transduce(
        "translate", "--strict", stdin=b"I love you\nI love \xff\nWe sleep\n"
    )
    assert (code, out.count("\n")) == (65, 3)
    assert err.endswith(
        "transduce: error: 1 of 3 lines are flagged; check these lines, or omit --strict\n"
    )
    assert transduce("translate", "--strict", stdin=b"I love you\nI love elephants\n")[0] == 0, (
        "a note is no flag"
    )


@pytest.mark.parametrize("option", ["--report", "--alignments"])
def test_a_file_that_cannot_be_created_is_refused_before_anything_is_read(
    transduce: Run, tmp_path: Path, option: str
) -> None:
    code, out, err = transduce("translate", option, tmp_path / "gone" / "file", stdin=STDIN)
    assert (code, out) == (73, "")
    folder = tmp_path / "gone"
    problem = f"cannot create {folder / 'file'}: no folder {folder}"
    assert err == f"transduce: error: {problem}; create it first\n"


def test_n_best_lists_are_written_in_moses_format(transduce: Run) -> None:
    code, out, _ = transduce("translate", "--n-best", 3, stdin=b"I love you\n\nWe sleep\n")
    rows = [line.split(" ||| ") for line in out.split("\n")[:-1]]
    assert code == 0
    assert [row[0] for row in rows] == ["0", "0", "0", "1", "2", "2", "2"]
    assert (rows[0][1], rows[3][1], rows[4][1]) == ("Ti amo", "", "Dormiamo")
    assert all(float(rows[i][2]) >= float(rows[i + 1][2]) for i in (0, 1, 4, 5))
    assert all(len(row) == 3 for row in rows)
    _, out, _ = transduce("translate", "--alternatives", 2, "--prefix", "Il", stdin=b"I love you\n")
    assert [line.startswith("0 ||| Il") for line in out.split("\n")[:-1]] == [True, True]


def test_json_has_one_record_per_line_with_all_fields(transduce: Run) -> None:
    code, out, _ = transduce(
        "translate", "--json", "--n-best", 2, stdin=b"I love you\n\nI love \xff zebras\n"
    )
    first, blank, odd = (json.loads(line) for line in out.split("\n")[:-1])
    names = (
        "line source text score notes flags unseen unknown missing alternatives pieces "
        "token_scores alignment"
    )
    assert code == 0
    assert list(first) == names.split()
    assert (first["line"], first["source"], first["text"], first["alignment"]) == (
        1,
        "I love you",
        "Ti amo",
        "0-1 1-1 2-0",
    )
    assert len(first["token_scores"]) == len(first["pieces"]) + 1
    assert [set(each) for each in first["alternatives"]] == [{"text", "score"}] * 2
    assert (blank["line"], blank["text"], blank["notes"], blank["flags"]) == (2, "", ["blank"], [])
    assert (odd["source"], odd["unknown"], odd["unseen"]) == (
        "I love \ufffd zebras",
        ["\ufffd"],
        ["\ufffd", "zebras"],
    )
    assert "invalid_characters" in odd["flags"]


def test_the_engine_is_named_with_the_reason_for_a_fallback(transduce: Run) -> None:
    for arguments, said in (
        ((), "transduce: note: engine: ctranslate2, float32, threads: 2\n"),
        (("--precision", "int8"), "transduce: note: engine: ctranslate2, int8, threads: 2\n"),
        (("--engine", "torch"), "transduce: note: engine: torch, float32, threads: 2\n"),
        (
            ("--no-repeat-ngram", 3),
            "transduce: note: engine: torch, float32, threads: 2 "
            "(CTranslate2 does not support n-gram blocking)\n",
        ),
    ):
        code, _, err = transduce("translate", "--threads", 2, *arguments, stdin=b"I love you\n")
        assert (code, said in err) == (0, True), err


def test_options_that_the_chosen_engine_does_not_support_are_refused(transduce: Run) -> None:
    code, out, err = transduce(
        "translate", "--engine", "ctranslate2", "--no-repeat-ngram", 3, stdin=b"I love you\n"
    )
    assert (code, out) == (2, "")
    assert err == (
        "transduce: error: CTranslate2 does not support n-gram blocking; "
        "omit --engine and --precision to use the torch engine\n"
    )


def test_glossary_forbidden_words_and_protected_parts_from_the_command_line(
    transduce: Run, tmp_path: Path
) -> None:
    (tmp_path / "terms.tsv").write_text("cat\tmicio\nZzyzx\n")
    (tmp_path / "micio.txt").write_text("micio\n")
    (tmp_path / "forbidden.txt").write_text("amo\n")
    code, out, err = transduce(
        "translate",
        *(
            "--glossary",
            tmp_path / "terms.tsv",
            "--forbid",
            tmp_path / "forbidden.txt",
            "--protect",
        ),
        stdin=b"The cat sleeps\nI love Zzyzx\nI see {name} at 12:30\n",
    )
    lines = out.split("\n")
    assert code == 0
    assert "micio" in lines[0].split()
    assert "Zzyzx" in lines[1]
    assert "amo" not in lines[1].split()
    assert "{name}" in lines[2]
    assert "12:30" in lines[2]
    assert "glossary term missing" not in err
    _, _, err = transduce(
        "translate",
        "--glossary",
        tmp_path / "terms.tsv",
        "--forbid",
        tmp_path / "micio.txt",
        stdin=b"The cat sleeps\n",
    )
    assert "line 1: glossary term missing from the translation: cat" in err


def test_the_first_ten_flagged_lines_are_shown_and_the_rest_counted(
    transduce: Run, tmp_path: Path
) -> None:
    stdin = b"I love elephants\n" * 15 + b"We sleep\n"
    _, _, err = transduce("translate", stdin=stdin)
    assert line_messages(err) == [
        f"line {i}: words not seen in training (translation may be wrong): elephants"
        for i in range(1, 11)
    ]
    assert err.endswith(
        "transduce: note: 16 lines, 0 flagged (unseen_words 15); --report FILE lists every line\n"
    )
    report = tmp_path / "report.jsonl"
    _, _, err = transduce("translate", "--report", report, stdin=stdin)
    assert err.endswith("transduce: note: 16 lines, 0 flagged (unseen_words 15)\n")
    records = [json.loads(line) for line in report.read_text().split("\n")[:-1]]
    assert [record["unseen"] for record in records] == [["elephants"]] * 15 + [[]]
    assert records[0] == {
        "line": 1,
        "notes": ["unseen_words"],
        "flags": [],
        "unseen": ["elephants"],
        "unknown": [],
        "missing": [],
    }


def test_the_summary_counts_lines_flags_and_notes(transduce: Run) -> None:
    for stdin, said in (
        (b"", "0 lines, 0 flagged"),
        (b"We sleep\n", "1 line, 0 flagged"),
        (b"We sleep\n\n\n", "3 lines, 0 flagged (blank 2)"),
    ):
        assert transduce("translate", stdin=stdin)[2].endswith(f"transduce: note: {said}\n")


def test_alignments_are_written_line_for_line(transduce: Run, tmp_path: Path) -> None:
    path = tmp_path / "links.txt"
    code, out, _ = transduce("translate", "--alignments", path, stdin=b"I love you\n\nWe sleep\n")
    assert (code, out) == (0, "Ti amo\n\nDormiamo\n")
    assert path.read_text() == "0-1 1-1 2-0\n\n0-0 1-0\n"


def test_score_gives_the_scores_of_translate(transduce: Run, tmp_path: Path) -> None:
    _, out, _ = transduce("translate", "--json", stdin=STDIN)
    records = [json.loads(line) for line in out.split("\n")[:-1]]
    (tmp_path / "a.en").write_bytes(STDIN)
    (tmp_path / "a.it").write_text("".join(f"{record['text']}\n" for record in records))
    files = ("--source", tmp_path / "a.en", "--target", tmp_path / "a.it")
    code, out, _ = transduce("score", *files, "--alignments", tmp_path / "links")
    assert code == 0
    assert [float(line) for line in out.split("\n")[:-1]] == pytest.approx(
        [r["score"] for r in records], abs=1e-4
    )
    assert (tmp_path / "links").read_text().split("\n")[:-1] == [
        record["alignment"] for record in records
    ]
    _, out, _ = transduce("score", *files, "--json")
    scored = [json.loads(line) for line in out.split("\n")[:-1]]
    assert list(scored[0]) == [
        "line",
        "source",
        "text",
        "score",
        "pieces",
        "token_scores",
        "alignment",
    ]
    for record, again in zip(records, scored, strict=True):
        assert all(
            record[name] == again[name]
            for name in ("line", "source", "text", "pieces", "alignment")
        )
        assert record["token_scores"] == pytest.approx(again["token_scores"], abs=1e-4)


def test_files_of_unequal_length_cannot_be_scored(transduce: Run, tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("I love you\nWe sleep\n")
    (tmp_path / "a.it").write_text("Ti amo\n")
    code, _, err = transduce("score", "--source", tmp_path / "a.en", "--target", tmp_path / "a.it")
    assert code == 65
    assert "a.en has 2 lines" in err
    assert "a.it has 1" in err


class Echo:
    """A translator that returns its input and records when it begins and finishes a batch.

    `then` is called after each beginning.
    """

    def __init__(self, then: Callable[[], object] = lambda: None) -> None:
        self.said: list[tuple[str, int]] = []
        self.then = then

    def begin(
        self, texts: Sequence[str], options: TranslateOptions
    ) -> Callable[[], list[Translation]]:
        self.said.append(("begin", len(texts)))
        self.then()

        def finish() -> list[Translation]:
            self.said.append(("finish", len(texts)))
            return [Translation(text, text, 0.0) for text in texts]

        return finish


def read(translator: Any, file: Any) -> list[list[str]]:
    return [
        [found.text for found in window]
        for window in translate_stream(
            translator, TranslateOptions(DecodeConfig()), LineReader(file, pytest.fail)
        )
    ]


def test_each_line_has_its_own_number_and_its_own_draws_over_all_windows(
    transduce: Run, tmp_path: Path
) -> None:
    firsts = []

    class Recorder(Echo):
        def begin(
            self, texts: Sequence[str], options: TranslateOptions
        ) -> Callable[[], list[Translation]]:
            assert options.sampling is not None
            firsts.append((options.sampling.first, len(texts)))
            return super().begin(texts, options)

    (tmp_path / "lines").write_text("a line\n" * 4000)
    options = TranslateOptions(DecodeConfig(), sampling=Sampling())
    with (tmp_path / "lines").open("rb") as file:
        for _ in translate_stream(Recorder(), options, LineReader(file, pytest.fail)):
            pass
    assert len(firsts) > 3
    assert [first for first, _ in firsts] == [
        sum(n for _, n in firsts[:i]) for i in range(len(firsts))
    ]

    _, out, _ = transduce("translate", "--json", stdin=b"\n" * 5000)  # several windows
    assert [json.loads(row)["line"] for row in out.splitlines()] == list(range(1, 5001))


def test_the_next_lines_are_started_before_the_previous_ones_are_finished(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("".join(f"line {n}\n" for n in range(2000)))
    echo = Echo()
    with path.open("rb") as file:
        assert [
            line for window in read(echo, file) for line in window
        ] == path.read_text().splitlines()
    begins = [n for what, n in echo.said if what == "begin"]
    assert len(begins) > 3
    one_ahead = [("begin", begins[0])]
    for last, following in pairwise(begins):
        one_ahead += [("begin", following), ("finish", last)]
    assert echo.said == [*one_ahead, ("finish", begins[-1])]


def test_a_line_does_not_wait_for_the_end_of_the_next() -> None:
    ours, theirs = os.pipe()
    to_come = [b"half"]
    with os.fdopen(ours, "rb") as file:
        os.write(theirs, b"whole\n")
        echo = Echo(lambda: to_come and os.write(theirs, to_come.pop()))
        windows = translate_stream(
            echo, TranslateOptions(DecodeConfig()), LineReader(file, pytest.fail)
        )  # type: ignore[arg-type]  # a stand-in
        assert [found.text for found in next(windows)] == ["whole"]
        os.close(theirs)
        assert [found.text for window in windows for found in window] == ["half"]


def test_a_pipe_into_head_ends_quietly() -> None:
    command = (
        f'"{sys.executable}" -m transduce translate --beam 1 | head -3; echo "${{PIPESTATUS[0]}}"'
    )
    stdin = b"I love you\n" * 20_000
    done = subprocess.run(["bash", "-c", command], input=stdin, capture_output=True)
    *lines, status = done.stdout.split()
    assert b" ".join(lines) == b"Ti amo Ti amo Ti amo"
    assert int(status) in (0, 128 + signal.SIGPIPE)
    assert b"Traceback" not in done.stderr
    assert b"rror" not in done.stderr


def test_no_file_is_both_read_and_written_or_written_twice(transduce: Run, tmp_path: Path) -> None:
    terms, lines = tmp_path / "terms.tsv", tmp_path / "lines.txt"
    terms.write_text("car\tmacchina\n")
    lines.write_text("I love you\n")
    for options, message in (
        (
            ("translate", "--glossary", terms, "--alignments", terms),
            f"{terms} is both read and written",
        ),
        (
            ("translate", "--report", lines, "--alignments", lines),
            f"{lines} would be written twice",
        ),
        (
            ("score", "--source", lines, "--target", lines, "--alignments", lines),
            f"{lines} is both read and written",
        ),
    ):
        code, out, err = transduce(*options, stdin=b"I love you\n")
        assert (code, out) == (2, "")
        assert message in err
    assert terms.read_text() == "car\tmacchina\n"
    assert lines.read_text() == "I love you\n"


def test_a_full_device_for_messages_does_not_stop_translation(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "transduce", "translate"],
            input=b"I love you\n",
            stdout=subprocess.PIPE,
            stderr=full,
        )
    assert (done.returncode, done.stdout) == (0, b"Ti amo\n")
