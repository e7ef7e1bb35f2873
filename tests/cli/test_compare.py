"""`transduce compare`: significance, kinds of sentences, and marked differences."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.cli.test_evaluate import write
from tests.commands import Run
from tests.evaluation.test_metrics import spoil
from transduce.cli.main import app
from transduce.evaluation.comparison import Bucket, Grouping, group_sentences, score_buckets
from transduce.evaluation.metrics import bleu, corpus_scores
from transduce.grammar import generate
from transduce.model_folder import BUILTIN
from transduce.reports.comparison import MarkedWords, mark_differences

PAIRS = [pair[:2] for pair in generate("en-it", 60, seed=4)]
RIGHT = [pair[1] for pair in PAIRS]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    texts = {
        "source": [pair[0] for pair in PAIRS],
        "right": RIGHT,
        "first": spoil(RIGHT, 0.4, 1),
        "best": spoil(RIGHT, 0.1, 2),
    }
    return {name: write(tmp_path / name, *lines) for name, lines in texts.items()}


def test_a_better_system_is_found_and_a_copy_is_not(transduce: Run, files: dict[str, Path]) -> None:
    systems = [
        f"--system={name}={files[file]}"
        for name, file in (("a", "first"), ("b", "best"), ("c", "first"))
    ]
    command = ("compare", "--reference", files["right"], *systems)
    code, out, err = transduce(*command)
    assert (code, err) == (0, "")
    header, *table = out.splitlines()
    assert header.split() == [
        "system",
        "score",
        "95",
        "%",
        "difference",
        "p",
        "bootstrap",
        "p",
        "randomisation",
    ]
    assert [line.endswith("better") for line in table[:9]] == [False, True, False] * 3
    assert [
        line.endswith("1.0000  no significant difference (p = 1.00)") for line in table[:9]
    ] == [
        False,
        False,
        True,
    ] * 3
    assert ["bs:1000|ar:10000|seed:12345" in line for line in table[9:]] == [True] * 3
    records = [json.loads(line) for line in transduce(*command, "--json")[1].splitlines()]
    scores, buckets = records[:9], records[9:]
    best = files["best"].read_text().splitlines()
    assert [row["value"] for row in scores[1::3]] == pytest.approx(
        [s.value for s in corpus_scores(best, RIGHT)]
    )
    assert [row["verdict"] for row in scores] == ["baseline", "better", "not told apart"] * 3
    assert {row["seed"] for row in scores} == {12345}
    assert (scores[2]["p_bootstrap"], scores[2]["p_randomisation"], scores[0]["p_bootstrap"]) == (
        1,
        1,
        None,
    )
    assert {row["bucket"] for row in buckets} == {"length of the reference in words"}
    assert sum(row["sentences"] for row in buckets if row["system"] == "a") == len(RIGHT)


def test_a_model_folder_is_a_system_that_translates_the_source(
    transduce: Run, files: dict[str, Path], builtin: Path, tmp_path: Path
) -> None:
    command = (
        "compare",
        "--reference",
        files["right"],
        "--system",
        files["first"],
        "--system",
        f"model={builtin}",
    )
    more = (
        "--source",
        files["source"],
        "--train-source",
        files["source"],
        "--train-target",
        files["right"],
    )
    code, out, err = transduce(*command, *more, "--html", tmp_path / "page.html", "--json")
    assert (code, err.split("\n")[-2]) == (0, f"the page is in {tmp_path / 'page.html'}")
    records = [json.loads(line) for line in out.splitlines()]
    assert [row["system"] for row in records[:2]] == ["first", "model"]
    assert records[1]["value"] > 95
    kinds = {row["bucket"]: row["label"] for row in records[6:]}
    assert len(kinds) == 5
    assert kinds["overlap of the source with training, in runs of 3 words"] == "the line itself"
    assert "model against first" in (tmp_path / "page.html").read_text()


def test_with_a_training_text_the_table_shows_scores_by_kind_of_sentence(
    transduce: Run, files: dict[str, Path]
) -> None:
    systems = (f"--system=a={files['first']}", f"--system=b={files['right']}")
    code, out, err = transduce(
        "compare", "--reference", files["right"], *systems, "--train-target", files["right"]
    )
    assert (code, err) == (0, "")
    said = "BLEU by overlap of the reference with training, in runs of 3 words: the line itself"
    [line] = [line for line in out.splitlines() if line.startswith(said)]
    assert line.startswith(f"{said} ({len(RIGHT)})  a ")
    assert line.endswith("b 100.00")


@pytest.fixture
def builtin() -> Path:
    return BUILTIN


def test_an_invalid_seed_is_an_error_before_any_work(
    transduce: Run, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "-3")
    code, _, err = transduce(
        "compare",
        "--reference",
        files["right"],
        "--system",
        files["first"],
        "--system",
        files["best"],
    )
    assert (code, "SACREBLEU_SEED is '-3'; expected a whole number, or none" in err) == (2, True)


def test_system_names_may_hold_any_character_and_paths_an_equals_sign(
    transduce: Run,
    files: dict[str, Path],
    builtin: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lr=0.1").mkdir()
    shutil.copy(files["best"], "lr=0.1/out")
    command = (
        "compare",
        "--reference",
        files["right"],
        "--source",
        files["source"],
        "--system",
        "lr=0.1/out",
    )
    code, out, err = transduce(*command, "--system", f"a[/b]\x1b\n={builtin}")
    assert code == 0, err
    assert "a[/b]U+001BU+000A" in out
    assert (
        "a[/b]U+001BU+000A translated with beam:4|alpha:1.0|length_penalty:power"
        in out.splitlines()[-1]
    )


def test_a_system_may_have_the_name_of_a_reference(
    transduce: Run, files: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    tokenised = write(tmp_path / "out" / "right", *(f"{line} ." for line in RIGHT))
    command = (
        "compare",
        "--reference",
        files["right"],
        "--system",
        tokenised,
        "--system",
        files["best"],
    )
    assert "warning: right looks tokenized" in transduce(*command)[2]


def test_short_lines_have_a_bleu_in_a_bucket_and_zero_in_a_whole_test_set(
    transduce: Run, tmp_path: Path
) -> None:
    short = write(tmp_path / "short", "Ti amo molto", "Amo te")
    _, out, err = transduce("evaluate", "--hypothesis", short, "--reference", short)
    assert out.startswith("BLEU 0.00")
    assert (
        "warning: no line has 4 words, so BLEU is 0 (it needs 4-grams); look at chrF instead" in err
    )
    [bucket] = score_buckets(
        Grouping("by", ("all",), [0, 0]),
        {"a": ["Ti amo molto", "Amo te"]},
        [["Ti amo molto", "Amo te"]],
        "13a",
    )
    assert bucket.scores["a"] == pytest.approx(100)


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (("--system", "a=right"), 2, "compare needs at least two systems: --system first=out1.txt"),
        (
            ("--system", "a=right", "--system", "a=best"),
            2,
            "two systems are called 'a'; give them different names",
        ),
        (
            ("--system", "=right", "--system", "best"),
            2,
            "--system is '=right'; expected NAME=FILE, as in first=out.txt",
        ),
        (
            ("--system", "a=right", "--system", "b=."),
            2,
            ". is a folder, so it is read as a model; add --source",
        ),
        (
            ("--system", "right", "--system", "best", "--train-source", "right"),
            2,
            "add --source FILE",
        ),
        (
            ("--system", "right", "--system", "best", "--tokenize", "x"),
            2,
            "unknown tokenizer 'x'",
        ),
        (("--system", "right", "--system", "gone"), 66, "no file gone"),
        (("--system", "right", "--system", "short"), 65, "short has 1 lines, right has 60"),
        (
            ("--system", "right", "--system", "best", "--html", "no/page.html"),
            73,
            "cannot create no/page.html: no folder no",
        ),
        (
            ("--system", "right", "--system", "best", "--html", "best"),
            2,
            "best is both read and written",
        ),
        (
            (
                "--system",
                "m=model",
                "--system",
                "best",
                "--source",
                "right",
                "--html",
                "model/config.json",
            ),
            2,
            "model/config.json is both read and written",
        ),
        (("--system", "a=-", "--system", "b=-"), 2, "standard input (-) can be read only once"),
        (
            (
                "--system",
                "right",
                "--system",
                "best",
                "--source",
                "right",
                "--train-source",
                "gone",
            ),
            66,
            "no file gone",
        ),
    ],
)
def test_invalid_requests_are_refused(
    command: tuple[str, ...],
    code: int,
    said: str,
    transduce: Run,
    files: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(files["right"].parent)
    write(Path("short"), "a")
    shutil.copytree(BUILTIN, "model")
    found, out, err = transduce("compare", "--reference", "right", *command)
    assert (found, out) == (code, "")
    assert said in err
    assert "missing --reference FILE" in transduce("compare", *command)[2]


def test_sentences_are_grouped_by_length_rare_words_and_overlap(tmp_path: Path) -> None:
    source = ["a b", "a b c", "a b c d e f", "x y z"]
    training = {"source": write(tmp_path / "t", "a b c", "a b c d", "a b", "q d e f")}
    kinds = {
        name: (labels, kind)
        for name, labels, kind in group_sentences(source, ["r"] * 4, training, 2)
    }
    assert kinds["length of the source in words"] == (["2", "3", "4-6"], [0, 1, 2, 1])
    assert kinds["rare words in the source (2 times or less in training)"][1] == [
        0,
        1,
        3,
        3,
    ]  # c twice, d twice, e, f
    # "a b" and "a b c" are lines of the training text. It has the trigrams abc, bcd and def of the
    # third sentence, but not cde, and none of the last sentence.
    assert kinds["overlap of the source with training, in runs of 3 words"][1] == [3, 3, 1, 0]
    [(name, labels, kind)] = group_sentences(None, ["one"], {}, 2)
    assert (name, labels, kind) == ("length of the reference in words", ["1"], [0])


def test_a_bucket_has_the_score_of_its_own_sentences() -> None:
    first = spoil(RIGHT, 0.3, 1)
    kinds = [i % 3 for i in range(60)]
    found = list(
        score_buckets(
            Grouping("by", ("x", "y", "z", "empty"), kinds), {"first": first}, [RIGHT], "13a"
        )
    )
    assert [bucket.label for bucket in found] == ["x", "y", "z"]
    assert found[1] == Bucket("by", "y", 20, {"first": bleu(first[1::3], RIGHT[1::3]).value})


@pytest.mark.parametrize(
    ("hypothesis", "reference", "marked"),
    [
        ("Ti amo", "Ti amo", "Ti amo"),
        ("Ti odio molto", "Ti amo molto", "Ti -amo- +odio+ molto"),
        ("Ti amo", "Ti amo molto", "Ti amo -molto-"),
        ("Io ti amo", "ti amo", "+Io+ ti amo"),
        ("ti amo", "Io ti amo", "-Io- ti amo"),
        ("Odio te", "Amo te", "-Amo- +Odio+ te"),
        ("Ti amo!", "Ti amo molto!", "Ti amo -molto-!"),
        ("Ti amo.", "Ti amo!", "Ti amo-!- +.+"),
        ("", "Ti amo", "-Ti amo-"),
        ("Ti amo", "", "+Ti amo+"),
        (
            "il cane nero e il gatto",
            "il gatto nero e il cane",
            "il -gatto- +cane+ nero e il -cane- +gatto+",
        ),
        ("L'amo  molto", "L'amo molto", "L'amo  molto"),
        ("<b>ti</b>", "ti", "+<b>+ti+</b>+"),
    ],
)
def test_words_are_marked_against_the_reference(
    hypothesis: str, reference: str, marked: str
) -> None:
    parts = mark_differences(hypothesis, reference)
    marks = {"same": "", "missing": "-", "extra": "+"}
    assert (
        "".join(f"{part.space}{marks[part.kind]}{part.text}{marks[part.kind]}" for part in parts)
        == marked
    )


def test_marked_words_without_the_missing_ones_are_the_translation() -> None:
    for right, found in zip(RIGHT, spoil(RIGHT, 0.5, 7), strict=True):
        parts: list[MarkedWords] = mark_differences(found, right)
        for kept, text in (("extra", found), ("missing", right)):
            words = [
                word for part in parts if part.kind in ("same", kept) for word in part.text.split()
            ]
            assert "".join(words) == "".join(text.split())


def test_the_lists_of_commands_and_options_change_only_on_purpose() -> None:
    """Adding a command or an option is a decision."""
    group: Any = typer.main.get_command(app)
    assert " ".join(sorted(group.commands)) == (
        "claims compare demo doctor evaluate export generate import info inspect plan score serve "
        "train translate"
    )
    options = {
        name: sorted(each.opts[-1] for each in group.commands[name].params)
        for name in ("compare", "evaluate")
    }
    assert " ".join(options["compare"]) == (
        "--html --json --rare --reference --source --system --tokenize "
        "--train-source --train-target"
    )
    assert " ".join(options["evaluate"]) == (
        "--alpha --beam --hypothesis --json --length-penalty --model --reference --source --text "
        "--tokenize"
    )


def test_the_page_needs_neither_network_nor_scripts(
    transduce: Run, files: dict[str, Path], tmp_path: Path
) -> None:
    systems = ("--system", files["first"], "--system", files["best"])
    assert (
        transduce(
            "compare", "--reference", files["right"], *systems, "--html", tmp_path / "p.html"
        )[0]
        == 0
    )
    page = (tmp_path / "p.html").read_text()
    assert "default-src 'none'" in page
    assert "<script" not in page
    assert sys.getsizeof(page) < 1_000_000
