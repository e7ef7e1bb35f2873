"""Bad input text for `train`, `translate` and `doctor`.

`translate` never fails because of its input and keeps the number of lines. `train` and `doctor`
refuse input that is not text, by file and line. Nothing is lost without a message, and no command
shows a traceback. The tests are numbered by kind of fault, from 31 to 50.
"""

import bz2
import gzip
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import tarfile
import threading
import unicodedata
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands import line_messages
from transduce.cli.main import main
from transduce.grammar import generate
from transduce.text import files

Run = Callable[..., tuple[int, str, str]]
Write = Callable[[str, str | bytes], Path]
PAIRS = list(generate("en-it", 60, seed=5))
SOURCES, TARGETS = [pair.source for pair in PAIRS], [pair.target for pair in PAIRS]
SMALL = (
    "--preset",
    "nano",
    "--set",
    "model.d_model=8",
    "--set",
    "model.n_layers=1",
    "--set",
    "model.n_heads=1",
)
SHORT = ("--set", "train.steps=2", "--set", "train.validate_every=2", "--set", "train.save_every=2")
# An untrained model writes long translations.
BRIEF = ("--set", "decode.max_length=6", "--set", "data.valid_pairs=2")
FAMILY = "👩\u200d👩\u200d👧\u200d👦 🏳️\u200d🌈 🇮🇹 e\u0323\u0301"


def text(lines: list[str], end: str = "\n") -> str:
    return "".join(line + end for line in lines)


@pytest.fixture
def transduce(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Return a function that runs a command and returns exit code, stdout and stderr.

    A traceback or the exit code of a bug fails the test.
    """

    def run(*arguments: object, stdin: bytes = b"") -> tuple[int, str, str]:
        files.spool_stdin.cache_clear()
        monkeypatch.setattr(sys, "argv", ["transduce", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfdbinary.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        out, err = (printed.decode() for printed in capfdbinary.readouterr())
        code = int(end.value.code or 0)
        assert "Traceback" not in err
        assert code in (0, 2, 65, 66, 78)
        assert code == 0 or err.splitlines()[-1].startswith("transduce: ")
        return code, out, err

    return run


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str, content: str | bytes) -> Path:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return tmp_path / name

    return write


@pytest.fixture
def train(transduce: Run, tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """Return a function that trains for two steps and returns exit code and stderr.

    A command that fails must leave no run folder.
    """

    def run(*arguments: object, name: str = "run", stdin: bytes = b"") -> tuple[int, str]:
        code, out, err = transduce(
            "train", tmp_path / name, *SMALL, *SHORT, *BRIEF, *arguments, stdin=stdin
        )
        assert out == ""
        assert (tmp_path / name / "model").exists() == (code == 0)
        assert code == 0 or not (tmp_path / name).exists()
        return code, err

    return run


@pytest.fixture
def both(write: Write) -> Callable[[str | bytes, str | bytes], tuple[object, ...]]:
    """Return a function that writes two parallel files and returns the options for them."""

    def both(source: str | bytes, target: str | bytes) -> tuple[object, ...]:
        return "--source", write("train.en", source), "--target", write("train.it", target)

    return both


Train = Callable[..., tuple[int, str]]
Both = Callable[[str | bytes, str | bytes], tuple[object, ...]]
GOOD = text(SOURCES), text(TARGETS)


def prepared(run: Path) -> tuple[bytes, ...]:
    """Return the files of a prepared corpus that training depends on."""
    names = (
        "sentencepiece.model",
        "valid.jsonl",
        "words.txt",
        "part-00000.source.npy",
        "part-00000.target.npy",
    )
    found = tuple(
        (run / "data" / name).read_bytes() for name in names if (run / "data" / name).exists()
    )
    assert len(found) >= 3
    return found


# 31: empty file, missing file, folder, no permission


def test_31_files_that_cannot_be_read_are_named(
    transduce: Run, train: Train, write: Write, tmp_path: Path
) -> None:
    good, empty = write("good.it", GOOD[1]), write("empty.en", b"")
    for path, said in (
        (tmp_path / "gone.en", f"no file {tmp_path / 'gone.en'}; check the path"),
        (tmp_path / "gone.en.gz", f"no file {tmp_path / 'gone.en.gz'}; check the path"),
        (good / "below", f"no file {good / 'below'}; check the path"),
        (tmp_path, f"{tmp_path} is a folder; expected a text file"),
        (tmp_path / "none-*.en", f"no file matches {tmp_path / 'none-*.en'}; check the pattern"),
    ):
        assert train("--source", path, "--target", good) == (66, f"transduce: error: {said}\n")
        assert transduce("doctor", "--source", path, "--target", good) == (
            66,
            "",
            f"transduce: error: {said}\n",
        )
    assert train("--text", tmp_path / "gone")[0] == 66
    code, err = train("--source", empty, "--target", empty)
    assert (code, f"{empty} and {empty}: no training pair; all of the 0 lines" in err) == (65, True)
    code, err = train("--source", empty, "--target", good)
    assert (code, f"{empty} has 0 lines, {good} has 60" in err) == (65, True)
    assert f"{empty} has no text to learn from" in train("--text", empty)[1]
    code, out, err = transduce("translate", stdin=b"")
    assert (code, out, line_messages(err)) == (0, "", [])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_31_a_file_without_read_permission_is_named(
    transduce: Run, train: Train, both: Both, tmp_path: Path
) -> None:
    arguments = both(*GOOD)
    (tmp_path / "train.it").chmod(0)
    wanted = f"transduce: error: cannot read {tmp_path / 'train.it'}: permission denied\n"
    assert train(*arguments) == (66, wanted)
    assert transduce("doctor", *arguments) == (66, "", wanted)


@pytest.mark.parametrize("command", ["train", "plan", "doctor"])
def test_31_a_device_without_end_is_refused(transduce: Run, tmp_path: Path, command: str) -> None:
    files = ("--source", "/dev/zero", "--target", "/dev/urandom")
    run = (tmp_path / "run",) if command == "train" else ()
    code, _, err = transduce(command, *run, *files)
    assert code == 66
    assert err.endswith("transduce: error: /dev/zero is a device; expected a text file\n")


def test_31_a_file_name_that_is_not_utf8_is_accepted(
    train: Train, write: Write, tmp_path: Path
) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.en"))
    try:
        odd.write_text(GOOD[0])
    except OSError:
        pytest.skip("this file system has no such names")
    assert train("--source", odd, "--target", write("b.it", GOOD[1]))[0] == 0


# 32: empty or blank lines


def test_32_blank_pairs_are_dropped_and_counted_and_blank_lines_stay_blank(
    transduce: Run, train: Train, both: Both
) -> None:
    blank = ["", " ", "\t \u3000", "word", "\0\x07"]
    arguments = both(text([*SOURCES, *blank]), text([*TARGETS, *blank[:3], "", "parola"]))
    code, err = train(*arguments)
    assert code == 0
    assert "corpus: 60 pairs, 5 dropped (blank on one side)" in err
    # The doctor does not remove control characters, so the fifth pair is not blank.
    assert "blank                        4" in transduce("doctor", *arguments)[1]
    code, out, err = transduce("translate", stdin="\n \n\t\u3000\n\0\nI love you\n\n".encode())
    assert (code, out, line_messages(err)) == (
        0,
        "\n\n\n\nTi amo\n\n",
        ["line 4: control characters were dropped"],
    )


# 33: unequal line counts


def test_33_unequal_files_are_refused_with_both_counts_and_the_place(
    transduce: Run, train: Train, both: Both, tmp_path: Path
) -> None:
    arguments = both(text(SOURCES[:30] + SOURCES[31:]), GOOD[1])
    counts = f"{tmp_path / 'train.en'} has 59 lines, {tmp_path / 'train.it'} has 60"
    code, err = train(*arguments)
    assert code == 65
    assert counts in err
    assert "They probably drift apart near line 3" in err
    code, out, err = transduce("doctor", *arguments)
    assert code == 65
    assert counts in out
    assert counts in err
    files_of_evaluate = (
        "--hypothesis",
        tmp_path / "train.en",
        "--reference",
        tmp_path / "train.it",
    )
    code, _, err = transduce("evaluate", *files_of_evaluate)
    assert (code, counts in err) == (65, True)


# 34: invalid UTF-8


def test_34_invalid_bytes_are_named_by_file_line_and_byte_and_dropped_by_the_doctor(
    transduce: Run, train: Train, both: Both, tmp_path: Path
) -> None:
    lines = GOOD[0].encode().split(b"\n")
    lines[6] = b"caf\xe9 " + lines[6]
    arguments = both(b"\n".join(lines), GOOD[1])
    code, err = train(*arguments)
    assert code == 65
    assert f"{tmp_path / 'train.en'}, line 7: byte 4 of the line (0xe9) is not UTF-8" in err
    assert "transduce doctor --write" in err
    code, out, _ = transduce("doctor", *arguments, "--write", tmp_path / "clean")
    assert code == 0
    assert "not UTF-8                    1" in out
    [dropped] = map(json.loads, (tmp_path / "clean" / "dropped.jsonl").read_text().split("\n")[:-1])
    assert (dropped["line"], dropped["reason"]) == (7, "not UTF-8")
    clean = (
        "--source",
        tmp_path / "clean" / "train.en",
        "--target",
        tmp_path / "clean" / "train.it",
    )
    assert "corpus: 59 pairs" in train(*clean)[1]


def is_utf8(line: bytes) -> bool:
    try:
        return "\ufffd" not in line.decode()
    except UnicodeDecodeError:
        return False


@pytest.mark.parametrize("seed", range(4))
def test_34_translate_survives_any_bytes_and_keeps_the_number_of_lines(
    transduce: Run, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    noise = bytes(
        chance.choices(
            (0, 10, 13, 32, 65, 0xC3, 0xA9, 0xED, 0xA0, 0x80, 0xEF, 0xBB, 0xBF, 0xF4, 0xFF), k=400
        )
    )
    noise += chance.randbytes(400) + b"\n\xff\nI love you"
    report = tmp_path / "report.jsonl"
    code, out, _ = transduce(
        "translate", "--beam", 1, "--max-length", 4, "--report", report, stdin=noise
    )
    assert code == 0
    assert out.count("\n") == noise.count(b"\n") + 1
    assert out.endswith("\nTi amo\n")
    flags = [json.loads(line)["flags"] for line in report.read_text().split("\n")[:-1]]
    assert ["invalid_characters" in each for each in flags] == [
        not is_utf8(line) for line in noise.split(b"\n")
    ]


# 35: UTF-16, Latin-1


@pytest.mark.parametrize(
    ("encoding", "name"),
    [
        ("utf-16", "UTF-16"),
        ("utf-16-le", "UTF-16LE"),
        ("utf-16-be", "UTF-16BE"),
        ("utf-32", "UTF-32"),
    ],
)
def test_35_another_unicode_encoding_is_recognised_by_every_command(
    transduce: Run, train: Train, both: Both, tmp_path: Path, encoding: str, name: str
) -> None:
    arguments = both(GOOD[0].encode(encoding), GOOD[1].encode(encoding))
    said = (
        f"looks like {name}; expected UTF-8: convert it with iconv -f {encoding} -t utf-8".replace(
            encoding, name.lower()
        )
    )
    wanted = f"transduce: error: {tmp_path / 'train.en'} {said}\n"
    code, err = train(*arguments)
    assert (code, err.endswith(wanted)) == (65, True)
    assert transduce("doctor", *arguments) == (65, "", wanted)
    assert train("--text", tmp_path / "train.en")[1].endswith(wanted)
    stdin = "I love you\nWe sleep".encode(encoding)
    code, out, err = transduce("translate", stdin=stdin)
    assert (code, out.count("\n")) == (0, stdin.count(b"\n") + 1)
    assert f"transduce: warning: standard input {said}\n" in err


def test_35_latin1_is_refused_with_the_place_and_the_command_to_convert_it(
    transduce: Run, train: Train, both: Both, tmp_path: Path
) -> None:
    code, err = train(*both(GOOD[0], GOOD[1].encode("latin-1")))
    assert code == 65
    number = next(i for i, line in enumerate(TARGETS, start=1) if not line.isascii())
    assert f"{tmp_path / 'train.it'}, line {number}: byte " in err
    assert "iconv -f latin1 -t utf-8" in err
    code, out, err = transduce("translate", stdin="caffè\nI love you\n".encode("latin-1"))
    assert (code, out.count("\n"), out.endswith("\nTi amo\n")) == (0, 2, True)
    assert "line 1: bytes that are not UTF-8 were replaced by U+FFFD" in err


# 36: byte order mark


def test_36_a_byte_order_mark_is_dropped_and_noted(
    transduce: Run, train: Train, both: Both, tmp_path: Path
) -> None:
    assert train(*both(*GOOD), name="without")[0] == 0
    arguments = both("\ufeff" + GOOD[0], "\ufeff" + GOOD[1])
    assert train(*arguments, name="with")[0] == 0
    assert prepared(tmp_path / "with") == prepared(tmp_path / "without")
    out = transduce("doctor", *arguments)[1]
    for name in ("train.en", "train.it"):
        assert f"note: {tmp_path / name} begins with a byte order mark, which is ignored\n" in out
    for stdin, wanted in (("\ufeffI love you\nI love you\n", "Ti amo\nTi amo\n"), ("\ufeff", "\n")):
        code, out, err = transduce("translate", stdin=stdin.encode())
        assert (code, out, line_messages(err)) == (
            0,
            wanted,
            ["line 1: a byte order mark was dropped"],
        )
    code, _, err = transduce("translate", stdin="I love you\n\ufeffI love you\n".encode())
    assert (
        code,
        "line 2: words not seen in training (translation may be wrong): U+FEFF" in err,
    ) == (
        0,
        True,
    )


# 37: line ends


def test_37_only_a_line_feed_ends_a_line(
    transduce: Run, train: Train, both: Both, tmp_path: Path
) -> None:
    odd = "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e\r"
    sources = [line.replace(" ", odd[i % len(odd)], 1) for i, line in enumerate(SOURCES)]
    targets = [f"{line}{odd}x" for line in TARGETS]
    arguments = both(text(sources, "\r\n"), text(targets))
    code, err = train(*arguments)
    assert code == 0
    assert "corpus: 60 pairs\n" in err
    assert (
        transduce("doctor", *arguments, "--write", tmp_path / "clean", "--languages", "xx,yy")[0]
        == 0
    )
    assert all(
        (tmp_path / "clean" / name).read_bytes().count(b"\n") == 60
        for name in ("train.en", "train.it")
    )
    for model in ((), ("-m", tmp_path / "run", "--beam", 1, "--max-length", 5)):
        stdin = text(
            [*sources[: len(odd)], f"I love you{odd}We sleep", odd, "We sleep"], "\r\n"
        ).encode()
        code, out, _ = transduce("translate", *model, stdin=stdin)
        assert (code, out.count("\n"), out.count("\r")) == (0, stdin.count(b"\n"), 0)
        code, out, _ = transduce("translate", *model, "--json", stdin=stdin)
        assert [
            json.loads(line)["source"] for line in out.split("\n")[:-1]
        ] == stdin.decode().split("\r\n")[:-1]


# 38: NUL and control characters


def test_38_control_characters_are_removed(
    transduce: Run, train: Train, both: Both, tmp_path: Path
) -> None:
    assert train(*both(*GOOD), name="without")[0] == 0
    arguments = both(
        GOOD[0].replace(" ", "\0 \x1b", 1), "".join(f"{c}\x07" if c == "a" else c for c in GOOD[1])
    )
    assert train(*arguments, name="with")[0] == 0
    assert prepared(tmp_path / "with") == prepared(tmp_path / "without")
    out = transduce("doctor", *arguments)[1]
    assert "control characters" in out
    assert not set(out) & {"\0", "\x07", "\x1b"}
    code, out, err = transduce("translate", stdin=b"I lo\0ve you\nI love \x1b\x07you\n\0\n")
    assert (code, out) == (0, "Ti amo\nTi amo\n\n")
    assert line_messages(err) == [f"line {i}: control characters were dropped" for i in (1, 2, 3)]


def test_38_without_normalization_control_characters_are_kept(
    transduce: Run, train: Train, both: Both, tmp_path: Path
) -> None:
    arguments = both(GOOD[0].replace(" ", "\0 "), GOOD[1].replace(" ", " \0"))
    assert train(*arguments, "--set", "text.normalization=none")[0] == 0
    model = ("-m", tmp_path / "run", "--beam", 1, "--max-length", 5, "--json")
    code, out, _ = transduce("translate", *model, stdin=b"I\0 love\0 you\n\0\n")
    assert (code, [json.loads(line)["source"] for line in out.split("\n")[:-1]]) == (
        0,
        ["I\0 love\0 you", "\0"],
    )


# 39: emoji, joiners, combining marks, surrogates in JSON


def test_39_no_part_of_a_character_is_lost_between_json_and_the_model(
    transduce: Run, train: Train, write: Write, tmp_path: Path
) -> None:
    rows = [
        {"source": f"{pair.source} {FAMILY}", "target": f"{FAMILY} {pair.target}"} for pair in PAIRS
    ]
    for name, escaped in (("escaped", True), ("plain", False)):
        table = write(
            f"{name}.jsonl", text([json.dumps(row, ensure_ascii=escaped) for row in rows])
        )
        assert train("--pairs", table, name=name)[0] == 0
    assert prepared(tmp_path / "escaped") == prepared(tmp_path / "plain")
    valid = [
        json.loads(line)
        for line in (tmp_path / "plain" / "data" / "valid.jsonl").read_text().split("\n")[:-1]
    ]
    assert valid
    normal = unicodedata.normalize("NFC", FAMILY)
    assert all(source.endswith(normal) and target.startswith(normal) for source, target in valid)
    stdin = f"{FAMILY}\n\u200d\nI love you\n".encode()
    code, out, _ = transduce("translate", "--json", "--max-length", 5, stdin=stdin)
    records = [json.loads(line) for line in out.split("\n")[:-1]]
    assert (code, [record["source"] for record in records[:2]]) == (0, [FAMILY, "\u200d"])
    assert (records[1]["text"], records[1]["notes"]) == ("\u200d", ["nothing_to_translate"])


def test_39_a_lone_surrogate_is_refused_by_line_and_dropped_by_the_doctor(
    transduce: Run, train: Train, write: Write, tmp_path: Path
) -> None:
    rows = [json.dumps({"source": pair.source, "target": pair.target}) for pair in PAIRS]
    table = write(
        "a.jsonl", text([*rows[:4], '{"source": "one", "target": "u \\ud83d no"}', *rows[4:]])
    )
    code, err = train("--pairs", table)
    assert code == 65
    assert (
        f"{table}, line 5: 'target' has a lone surrogate (U+D83D), which is not a character" in err
    )
    assert transduce("doctor", "--pairs", table, "--write", tmp_path / "clean")[0] == 0
    clean = (
        "--source",
        tmp_path / "clean" / "a.source",
        "--target",
        tmp_path / "clean" / "a.target",
    )
    assert "corpus: 60 pairs" in train(*clean)[1]


# 40: right-to-left


def test_40_direction_marks_stay_in_the_text_and_cannot_reorder_messages(
    transduce: Run, train: Train, both: Both, tmp_path: Path
) -> None:
    assert (
        train(
            *both(
                text([f"\u202e{line}\u202c" for line in SOURCES]),
                text([f"שלום {line}" for line in TARGETS]),
            )
        )[0]
        == 0
    )
    valid = json.loads((tmp_path / "run" / "data" / "valid.jsonl").read_text().split("\n")[0])
    assert valid[0].startswith("\u202e")
    assert valid[1].startswith("שלום ")
    source = "\u202eI love you\u202c \u2067שלום\u2069"
    code, out, err = transduce(
        "translate", "--json", "--max-length", 9, stdin=f"{source}\n".encode()
    )
    assert (code, json.loads(out)["source"]) == (0, source)
    assert (
        "words not seen in training (translation may be wrong): "
        "U+202E, U+202C, U+2067, שלום, U+2069\n" in err
    )


# 41: NFC, NFD


def test_41_composed_and_decomposed_text_are_the_same(
    transduce: Run, train: Train, both: Both, tmp_path: Path
) -> None:
    for form in ("NFC", "NFD"):
        sides = (text([f"{line} café Ångström 각" for line in SOURCES]), GOOD[1])
        assert (
            train(*both(*(unicodedata.normalize(form, side) for side in sides)), name=form)[0] == 0
        )
    assert prepared(tmp_path / "NFC") == prepared(tmp_path / "NFD")
    stdin = "".join(
        unicodedata.normalize(form, "I love café Ångström 각\n") for form in ("NFC", "NFD")
    ).encode()
    code, out, err = transduce("translate", "--json", stdin=stdin)
    one, other = (json.loads(line) for line in out.split("\n")[:-1])
    assert code == 0
    assert one["source"] != other["source"]
    assert (one["text"], one["unseen"]) == (other["text"], other["unseen"])
    assert unicodedata.is_normalized("NFC", err)


# 42: very long lines


@pytest.mark.parametrize(
    ("line", "doubt"),
    [
        ("Does Maria love the cat? " * 40_000, ""),
        ("lovely" * 180_000, "a run without spaces, too long for the model, was copied"),
        (
            "e" + "\u0301\u0323" * 250_000,
            "a run without spaces, too long for the model, was copied",
        ),
        ("愛" * 350_000, "a run without spaces, too long for the model, was copied"),
        (" " * 1_000_000 + "I love you", ""),
        ("x" * (files.LONGEST_LINE + 3_000_000), "longer than 16 MB; only its beginning was read"),
    ],
    ids=["sentences", "no spaces", "marks", "no Latin letters", "blanks first", "20 MB"],
)
def test_42_a_very_long_line_is_translated_in_parts_or_copied_with_a_warning(
    transduce: Run, line: str, doubt: str
) -> None:
    stdin = f"I love you\n{line}\nWe sleep"
    code, out, err = transduce("translate", "--beam", 1, stdin=stdin.encode())
    lines = out.split("\n")
    assert (code, len(lines), lines[0], lines[2]) == (0, 4, "Ti amo", "Dormiamo")
    if doubt:
        assert f"line 2: {doubt}\n" in err
    else:
        assert line_messages(err) == []
        rest = lines[1].replace("Maria ama il gatto? ", "").strip()
        assert rest[:100] in ("", "Ti amo")  # short, for the message of a failure
    assert len(err) < 2000


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_42_a_vocabulary_is_learned_in_spite_of_very_long_words(
    train: Train, both: Both, write: Write, kind: str
) -> None:
    """By itself, SentencePiece aborts the process here, or takes hours."""
    long = ["w" * 100_000, "lovely " * 20_000]
    arguments = both(text([*long, *SOURCES]), text(["a", "b", *TARGETS]))
    code, err = train(*arguments, "--set", f"text.kind={kind}")
    assert code == 0
    assert "dropped: 2 pairs longer than 256 tokens (data.max_length)" in err
    one_line = write("one-line", "".join(random.Random(1).choices("abcdefgh", k=70_000)))
    assert (
        train(
            "--text", one_line, "--set", f"text.kind={kind}", "--set", "model.window=16", name="lm"
        )[0]
        == 0
    )


def test_42_training_refuses_a_line_longer_than_16_mb(
    transduce: Run, train: Train, both: Both, tmp_path: Path
) -> None:
    arguments = both(text([*SOURCES, "w" * (files.LONGEST_LINE + 1)]), text([*TARGETS, "b"]))
    advice = "if this is text, break it into lines, for example with fold -s"
    wanted = f"{tmp_path / 'train.en'}, line 61: longer than 16 MB without a line feed; {advice}\n"
    code, err = train(*arguments, name="other")
    assert (code, err.endswith(wanted)) == (65, True)
    assert transduce("doctor", *arguments) == (65, "", f"transduce: error: {wanted}")


# 43: longer than the maximum in training


def test_43_pairs_that_are_too_long_are_dropped_and_counted(train: Train, both: Both) -> None:
    sources, targets = text([*SOURCES, "word " * 300, "a"]), text([*TARGETS, "b", "parola " * 300])
    code, err = train(*both(sources, targets), name="some")
    assert code == 0
    assert "corpus: 62 pairs" in err
    assert "dropped: 2 pairs longer than 256 tokens (data.max_length)" in err
    code, err = train(*both(*GOOD), "--set", "text.kind=char", "--set", "data.max_length=4")
    assert (
        code,
        "none of the pairs has 4 tokens or fewer; set a larger data.max_length" in err,
    ) == (65, True)


# 44: too few pairs, copies


def test_44_no_pair_one_pair_and_copies_are_reported_with_their_counts(
    transduce: Run, train: Train, both: Both, tmp_path: Path
) -> None:
    code, err = train(*both("\n \n\n", "a\nb\n\n"))
    assert (code, "no training pair; all of the 3 lines are blank on at least one side" in err) == (
        65,
        True,
    )
    one = both("I love you\n", "Ti amo\n")
    code, err = train(*one)
    assert (
        code,
        "1 pairs with 1 different sources are too few to split off a validation set" in err,
    ) == (65, True)
    code, err = train(
        *one,
        "--valid-source",
        tmp_path / "train.en",
        "--valid-target",
        tmp_path / "train.it",
        name="one",
    )
    assert (code, "warning: " in err) == (0, True)
    assert transduce("doctor", *both("", ""))[0] == 0
    copies = both(GOOD[0], text(SOURCES[:54] + TARGETS[54:]))
    code, err = train(*copies, name="copies")
    assert code == 0
    assert "warning: 90 % of the pairs are copies (source = target)" in err
    assert "! copy                        54      90 %" in transduce("doctor", *copies)[1]


# 45: vocabulary too large


@pytest.mark.parametrize(
    "more", [(), ("--set", "text.kind=unigram"), ("--set", "text.joint=false")]
)
def test_45_a_vocabulary_too_large_is_refused_with_the_largest_possible_size(
    train: Train, both: Both, more: tuple[str, ...]
) -> None:
    arguments = both(*GOOD)
    code, err = train(*arguments, *more, "--set", "text.vocab_size=60000")
    said = err.splitlines()[-1]
    assert code == 78
    assert "text.vocab_size is 60000, but this corpus gives at most " in said
    largest = said.split("at most ")[1].split()[0]
    assert train(*arguments, *more, "--set", f"text.vocab_size={largest}", name="largest")[0] == 0


def test_45_a_default_vocabulary_too_large_is_reduced_with_a_message(
    train: Train, both: Both
) -> None:
    code, err = train(*both(*GOOD))
    assert code == 0
    assert "vocabulary: the text yields fewer than 2,000 tokens" in err


# 46: characters never seen


def test_46_another_script_is_translated_and_its_words_are_named_as_unseen(
    transduce: Run, train: Train, both: Both, tmp_path: Path
) -> None:
    assert train(*both(*GOOD))[0] == 0
    stdin = "Я люблю тебя\n我爱你\nשלום\n𝔘𝔫𝔦\U0010fffd\n".encode()
    for model in ((), ("-m", tmp_path / "run", "--beam", 1, "--max-length", 9)):
        code, out, err = transduce("translate", *model, stdin=stdin)
        assert (code, out.count("\n")) == (0, 4)
        assert (
            "line 1: words not seen in training (translation may be wrong): Я, люблю, тебя\n" in err
        )
        assert "line 2: words not seen in training (translation may be wrong): 我爱你\n" in err
        assert (
            "line 4: words not seen in training (translation may be wrong): 𝔘𝔫𝔦, U+10FFFD\n" in err
        )
    words = [f"word{one}{two}" for one in "abcd" for two in "klmnopqrst"]
    code, out, err = transduce("translate", stdin=text(words, " ").encode())
    assert (code, len(re.findall(r"word\w\w", err)), "wordat and 30 more\n" in err) == (0, 10, True)


# 47: compressed files


def test_47_compressed_files_that_are_damaged_or_not_text_are_named(
    transduce: Run, train: Train, write: Write, tmp_path: Path
) -> None:
    good, plain = write("good.it", GOOD[1]), write("good.en", GOOD[0])
    packed = gzip.compress(GOOD[0].encode())
    bomb = gzip.compress(bytes(files.LONGEST_LINE + 1))
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        archive.add(plain, "good.en")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as folder:
        folder.write(plain, "good.en")
    for path, said in (
        (
            write("half.en.gz", packed[: len(packed) // 2]),
            "is truncated: the compressed data ends early; copy it again",
        ),
        (
            write("end.en.gz", packed[:-4]),
            "is truncated: the compressed data ends early; copy it again",
        ),
        (
            write("damaged.en.gz", packed[:-8] + bytes(8)),
            "cannot be decompressed as .gz: CRC check failed",
        ),
        (write("plain.en.gz", GOOD[0]), "cannot be decompressed as .gz: Not a gzipped file"),
        (
            write("bomb.en.gz", bomb),
            "line 1: longer than 16 MB without a line feed; if this is text",
        ),
        (
            write("twice.en.gz", gzip.compress(packed)),
            "is a compressed file or archive (gzip); expected text: unpack it",
        ),
        (
            write("nameless.en", packed),
            "is a compressed file or archive (gzip); expected text: unpack it",
        ),
        (
            write("a.bz2", bz2.compress(GOOD[0].encode())),
            "is a compressed file or archive (bzip2); expected text: unpack it",
        ),
        (tmp_path / "a.tar.gz", "is a compressed file or archive (tar); expected text: unpack it"),
        (tmp_path / "a.zip", "is a compressed file or archive (zip); expected text: unpack it"),
    ):
        for code, err in (
            train("--source", path, "--target", good),
            train("--text", path),
            transduce("doctor", "--source", path, "--target", good)[::2],
        ):
            last = err.splitlines()[-1]
            assert (code, said in last, str(path) in last) == (65, True, True), last
    assert train("--source", write("whole.en.gz", packed), "--target", good)[0] == 0
    code, out, err = transduce("translate", "--max-length", 2, stdin=packed)
    assert (code, out.count("\n")) == (0, packed.count(b"\n") + 1)
    assert (
        "transduce: warning: standard input is a compressed file or archive (gzip); "
        "expected text: unpack it\n" in err
    )


# 48: closed streams


def test_48_a_reader_that_closes_the_pipe_ends_translate_quietly() -> None:
    command = [sys.executable, "-m", "transduce", "translate", "--beam", "1", "--max-length", "3"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as filter_:
        assert filter_.stdin is not None
        assert filter_.stdout is not None
        assert filter_.stderr is not None
        filter_.stdin.write(b"I love you\n")
        filter_.stdin.flush()
        assert filter_.stdout.readline() == b"Ti amo\n"  # without waiting for more input
        filter_.stdout.close()
        filter_.stdin.write(b"I love you\n")
        filter_.stdin.close()
        said = filter_.stderr.read()
        assert said.startswith((b"transduce: note: engine: ", b"transduce: note: converted"))
        assert b"Error" not in said
        assert filter_.wait() in (0, -signal.SIGPIPE)


@pytest.mark.parametrize(("closed", "n_lines"), [("<&- >&-", 0), ("2>&-", 1)])
def test_48_closed_streams_count_as_empty_and_messages_never_become_data(
    closed: str, n_lines: int
) -> None:
    command = f'"$0" -m transduce translate --beam 1 --max-length 3 {closed}'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable],
        input=b"I love zebras\n",
        capture_output=True,
        timeout=200,
    )
    assert (done.returncode, done.stdout.count(b"\n")) == (0, n_lines)
    assert all(line.startswith(b"transduce: ") for line in done.stderr.splitlines())
    assert b"transduce:" not in done.stdout


def test_48_input_without_a_final_line_feed_is_translated(transduce: Run) -> None:
    code, out, err = transduce("translate", stdin=b"We sleep\nI love you")
    assert (code, out, line_messages(err)) == (0, "Dormiamo\nTi amo\n", [])
    code, out, _ = transduce("translate", "--max-length", 2, stdin="We sleep\nè".encode()[:-1])
    assert (code, out.count("\n")) == (0, 2)


def test_48_a_corpus_may_come_from_standard_input_and_messages_name_it(
    train: Train, tmp_path: Path
) -> None:
    table = text([f"{pair.source}\t{pair.target}" for pair in PAIRS]).encode()
    assert "corpus: 60 pairs" in train("--pairs", "-", stdin=table)[1]
    # The same input resumes the same run.
    assert "is finished" in train("--pairs", "-", stdin=table)[1]
    for stdin, said in (
        (b"", "standard input: no training pair; all of the 0 lines"),
        (b"no tab here\n", "standard input, line 1: no tab; expected source, tab, target\n"),
        (
            b'{"source": "a", "target": "b"}\n',
            "if this is JSON, the name of the file must end in .jsonl\n",
        ),
        (b"a\tb\n\xff\tc\n", "standard input, line 2: byte 1 of the line (0xff) is not UTF-8"),
        (
            gzip.compress(table),
            "standard input is a compressed file or archive (gzip); expected text: unpack it\n",
        ),
    ):
        code, err = train("--pairs", "-", stdin=stdin, name="other")
        assert (code, said in err) == (65, True), err
    assert train("--source", "-", "--target", "-", stdin=b"a\n", name="other")[0] == 2


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_48_a_corpus_may_come_from_a_named_pipe(train: Train, write: Write, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    threading.Thread(target=pipe.write_text, args=(GOOD[0],), daemon=True).start()
    code, err = train("--source", pipe, "--target", write("b.it", GOOD[1]))
    assert (code, "corpus: 60 pairs" in err, f"reading {pipe} and " in err) == (0, True, True)


# 49: special tokens in the text


def test_49_special_tokens_in_the_text_are_text(
    transduce: Run, train: Train, both: Both, tmp_path: Path
) -> None:
    special = "</s> [EOS] [SOS] [PAD] [UNK] <unk> <s> ▁▁ <0x0A> [/b]"
    arguments = both(
        text([f"{line} {special}" for line in SOURCES]),
        text([f"{special} {line}" for line in TARGETS]),
    )
    for dropout in (0, 0.1):
        assert train(*arguments, "--set", f"text.dropout={dropout}", name=f"run-{dropout}")[0] == 0
    valid = json.loads((tmp_path / "run-0" / "data" / "valid.jsonl").read_text().split("\n")[0])
    assert (valid[0].endswith(special), valid[1].startswith(special)) == (True, True)
    every = "▁" + "".join(map(chr, range(0xFDD0, 0xFDF0)))
    stdin = f"I love you </s>\n[EOS]\n▁I▁love▁you\n[PAD][SOS]\n{every}\nI love you\n".encode()
    for model in ((), ("-m", tmp_path / "run-0")):
        code, out, err = transduce("translate", *model, "--beam", 1, "--max-length", 5, stdin=stdin)
        assert (code, out.count("\n")) == (0, 6)
        assert (
            model
            or "line 2: words not seen in training (translation may be wrong): [, EOS, ]" in err
        )
        assert model or out.endswith("\nTi amo\n")
        assert all(out.split("\n")[:-1])  # no translation is empty


# 50: endless repetition

CUT_AND_UNSURE = [
    "line 1: the translation was cut at its maximum length",
    "line 1: the model gave the translation a low probability",
]


def test_50_a_translation_that_never_ends_is_cut_and_flagged(
    transduce: Run, train: Train, both: Both, tmp_path: Path
) -> None:
    assert train(*both(*GOOD))[0] == 0  # after two steps the model does not end its sentences
    model = ("translate", "-m", tmp_path / "run", "--beam", 1)
    code, out, err = transduce(
        *model, "--json", stdin=b"They still love my nice friend\n\nWe sleep\n"
    )
    rows = [json.loads(line) for line in out.split("\n")[:-1]]
    assert (code, ["truncated" in row["flags"] for row in rows]) == (0, [True, False, True])
    assert [line for line in err.split("\n") if "cut at its maximum" in line] == [
        f"transduce: warning: line {number}: the translation was cut at its maximum length"
        for number in (1, 3)
    ]
    code, out, err = transduce("translate", "--max-length", 1, stdin=b"I love you very much\n")
    assert (code, out, line_messages(err)) == (0, "Ti\n", CUT_AND_UNSURE)
