"""The commands as users type them: output, messages and exit codes."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands import Run, line_messages

TINY = ["--preset", "nano", "--set", "model.d_model=16", "--set", "model.n_layers=1"]
SHORT = ["--set", "train.steps=4", "--set", "train.validate_every=2", "--set", "train.save_every=2"]


def test_translate_prints_the_translation_and_nothing_else(transduce: Run) -> None:
    code, out, err = transduce("translate", stdin=b"I love you very much\n")
    assert (code, out, line_messages(err)) == (0, "Ti amo molto\n", [])


def test_one_line_out_for_each_line_in_and_blank_stays_blank(transduce: Run) -> None:
    stdin = (
        "\ufeffI love you very much\n\n   \nYour cat is a lovely cat\r\nI love\u2028you".encode()
    )
    code, out, _ = transduce("translate", stdin=stdin)
    lines = out.split("\n")
    assert code == 0
    assert lines[:4] == ["Ti amo molto", "", "", "Il tuo gatto è un bel gatto"]
    assert len(lines) == 6
    assert lines[4]
    assert lines[5] == ""


def test_an_unseen_word_is_flagged_on_stderr(transduce: Run) -> None:
    code, out, err = transduce("translate", stdin=b"I love you\nI love elephants\n")
    assert code == 0
    assert out.count("\n") == 2
    assert line_messages(err) == [
        "line 2: words not seen in training (translation may be wrong): elephants"
    ]


def test_bytes_that_are_not_utf8_are_replaced_and_reported(transduce: Run) -> None:
    code, out, err = transduce("translate", stdin=b"I love \xff\n")
    assert code == 0
    assert out.count("\n") == 1
    assert "line 1: bytes that are not UTF-8 were replaced by U+FFFD" in err


def test_a_translation_cut_at_its_maximum_length_is_reported(transduce: Run) -> None:
    _, _, err = transduce("translate", "--max-length", 2, stdin=b"Your cat is a lovely cat\n")
    assert "line 1: the translation was cut at its maximum length" in err


def test_json_has_the_whole_record(transduce: Run) -> None:
    _, out, _ = transduce("translate", "--json", stdin=b"I love you very much\n")
    record = json.loads(out)
    assert record["text"] == "Ti amo molto"
    assert record["score"] < 0
    assert record["unseen"] == []
    assert record["flags"] == record["notes"] == []


def test_the_seed_determines_the_samples(transduce: Run) -> None:
    hot = ("translate", "--sample", "--temperature", 3, "--top-k", 50, "--seed")
    text = b"Your cat is a lovely cat\n" * 5
    assert transduce(*hot, 1, stdin=text)[1] == transduce(*hot, 1, stdin=text)[1]
    assert transduce(*hot, 1, stdin=text)[1] != transduce(*hot, 2, stdin=text)[1]


def test_from_two_text_files_to_a_translation(
    transduce: Run, write_corpus: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    source, target = write_corpus()
    train = ("train", tmp_path / "run", "--source", source, "--target", target, *TINY, *SHORT)
    code, out, err = transduce(*train)
    assert (code, out) == (0, "")
    for said in (
        "corpus: 200 pairs",
        "validation: 10 of the pairs",
        "preset nano: as requested",
        "data.batch_tokens 1,024: chosen for 190 pairs",
        "warning: only 200 pairs; the model will repeat them rather than learn to translate",
        "train.learning_rate 0.003 at its peak (Eq. 3 would give",
        "parameters",
        "validation loss",
        "finished:",
    ):
        assert said in err
    for name in (
        "run.toml",
        "metrics.jsonl",
        "report.html",
        "corpus.json",
        "data",
        "checkpoints",
        "model",
    ):
        assert (tmp_path / "run" / name).exists()
    rows = [
        json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    ]
    validations = [row for row in rows if "valid_loss" in row]
    assert [row["step"] for row in validations] == [2, 4]
    assert all({"valid_bleu", "signature"} <= row.keys() for row in validations)

    code, out, _ = transduce(
        "translate", "-m", tmp_path / "run", "--beam", 1, stdin=b"I love you\nWe sleep\n"
    )
    assert (code, out.count("\n")) == (0, 2)

    code, _, err = transduce(*train)
    assert code == 0
    assert "is finished; the model is in" in err

    code, _, err = transduce(*train, "--set", "train.seed=2")
    assert code == 73
    assert "already holds another run: train.seed: 1 -> 2" in err

    source.write_text(source.read_text().replace("not", "never"))
    code, _, err = transduce(*train)
    assert code == 73
    assert "already holds another run" in err

    code, out, _ = transduce(
        "evaluate", "-m", tmp_path / "run", "--source", source, "--reference", target, "--beam", 1
    )
    assert code == 0
    assert "BLEU" in out
    assert "beam:1|alpha:1.0|length_penalty:power|seed:1" in out


def test_invalid_options_are_refused_before_anything_is_read(transduce: Run) -> None:
    assert transduce("translate", "--beam", "0", stdin=b"")[0] == 2


def test_a_training_that_stops_early_says_so(
    transduce: Run, write_corpus: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    source, target = write_corpus()
    more = (
        "--set",
        "train.steps=50",
        "--set",
        "train.validate_every=1",
        "--set",
        "train.patience=2",
    )
    wild = ("--set", "train.learning_rate=0.5", "--set", "train.warmup_steps=1")
    _, _, err = transduce(
        "train", tmp_path / "run", "--source", source, "--target", target, *TINY, *more, *wild
    )
    assert "validation loss has not improved in 2 validations (train.patience)" in err


def test_a_settings_file_and_two_vocabularies(
    transduce: Run, write_corpus: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    source, target = write_corpus()
    (tmp_path / "mine.toml").write_text(
        "[text]\njoint = false\nkind = 'unigram'\n[train]\nprecision = 'bfloat16'\n"
    )
    files = (
        "--source",
        source,
        "--target",
        target,
        "--valid-source",
        source,
        "--valid-target",
        target,
    )
    code, _, err = transduce(
        "train", tmp_path / "run", *files, "--config", tmp_path / "mine.toml", *TINY, *SHORT
    )
    assert code == 0
    assert "unigram tokens, one vocabulary per language" in err
    assert (tmp_path / "run" / "model" / "sentencepiece.target.model").is_file()
    assert transduce("translate", "-m", tmp_path / "run", stdin=b"We sleep\n")[0] == 0


def test_an_interrupted_training_resumes_from_its_checkpoint(
    transduce: Run,
    write_corpus: Callable[..., tuple[Path, Path]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, target = write_corpus()
    train = ("train", tmp_path / "run", "--source", source, "--target", target, *TINY, *SHORT)
    from transduce.training.callbacks.progress import ConsoleProgress

    on_step = ConsoleProgress.on_step
    monkeypatch.setattr(
        ConsoleProgress,
        "on_step",
        lambda self, row: on_step(self, row) if row.step < 4 else sys.exit(9),
    )
    assert transduce(*train)[0] == 9
    monkeypatch.setattr(ConsoleProgress, "on_step", on_step)
    code, _, err = transduce(*train)
    assert code == 0
    assert "resuming from step-00000002" in err


def test_a_training_stopped_while_its_folder_was_prepared_can_start_again(
    transduce: Run, write_corpus: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    source, target = write_corpus()
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / "data").mkdir()
    for name in ("manifest.json", "part-00000.json", "part-00000.source.npy.partial"):
        (tmp_path / "run" / "data" / name).write_text("{")
    assert (
        transduce("train", tmp_path / "run", "--source", source, "--target", target, *TINY, *SHORT)[
            0
        ]
        == 0
    )


def test_equal_lines_in_different_windows_are_sampled_differently(transduce: Run) -> None:
    """Only the first lines are read in one window."""
    hot = ("translate", "--sample", "--temperature", 2, "--max-length", 9)
    lines = transduce(*hot, stdin=b"Your cat is a lovely cat\n" * 400)[1].split("\n")[:-1]
    assert len(lines) == 400
    assert lines[:80] != lines[200:280]


def test_info_of_a_preset_and_of_the_built_in_model(transduce: Run) -> None:
    code, out, _ = transduce("info", "--preset", "base", "--vocab", 37000)
    assert code == 0
    assert "63,045,632" in out
    assert "Table 3 prints 65 million for this row; here it is 63.0." in out
    assert "The printed number would need a vocabulary of about 40,817 tokens." in out
    code, out, _ = transduce("info", "--preset", "tiny", "--json")
    assert json.loads(out)["model"]["d_model"] == 128
    code, out, _ = transduce("info")
    assert "made by: make builtin" in out


def test_version(transduce: Run) -> None:
    assert transduce("--version")[:2] == (0, "transduce 0.1.0\n")


def test_every_kind_of_bad_input_has_its_message_and_exit_code(
    transduce: Run, tmp_path: Path
) -> None:
    (tmp_path / "three").write_text("a\nb\nc\n")
    (tmp_path / "two").write_text("a\nb\n")
    (tmp_path / "one").write_text("a\n")
    (tmp_path / "empty").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.doc").write_text("years of work")

    def train(source: str, target: str, *more: object, run: str = "run") -> tuple[int, str]:
        code, out, err = transduce(
            "train",
            tmp_path / run,
            "--source",
            tmp_path / source,
            "--target",
            tmp_path / target,
            *more,
        )
        assert out == ""
        assert err.splitlines()[-1].startswith("transduce: ") or code == 2
        return code, err

    for arguments, wanted_code, wanted in (
        (("gone", "two"), 66, "no file"),
        (("full", "two"), 66, "is a folder; expected a text file"),
        (("three", "two"), 65, "three has 3 lines"),
        (("empty", "empty"), 65, "no training pair; all of the"),
        (
            ("one", "one"),
            65,
            "1 pairs with 1 different sources are too few to split off a validation set",
        ),
        (
            ("two", "two", "--set", "train.stepz=3"),
            78,
            "unknown setting 'train.stepz': did you mean 'train.steps'?",
        ),
        (("two", "two", "--set", "train.steps=0"), 78, "train.steps is 0"),
        (("two", "two", "--preset", "bas"), 78, "unknown preset 'bas': did you mean 'base'?"),
        (("two", "two", "--valid-source", "x"), 2, "give both --valid-source and --valid-target"),
        (("two", "two", "--set", "text.vocab_size=5000"), 78, "this corpus gives at most"),
        (
            ("two", "two", "--set", "model.kind=decoder-only"),
            78,
            "sentence pairs train an 'encoder-decoder'",
        ),
        (("two", "two", "--set", "model.vocab_size=9"), 78, "set text.vocab_size instead"),
        (("two", "two", "--config", tmp_path / "gone.toml"), 66, "no settings file"),
    ):
        code, err = train(*arguments)
        assert code == wanted_code, err
        assert wanted in err
        assert not (tmp_path / "run").exists()

    code, err = train("two", "two", run="full")
    assert (code, "is not empty and not a run folder; choose a new folder" in err) == (73, True)
    assert (tmp_path / "full" / "thesis.doc").read_text() == "years of work"
    code, err = train("two", "two", run="one")
    assert (code, "is a file; give a folder for the run" in err) == (73, True)

    for command, wanted_code, wanted in (
        (("translate", "-m", tmp_path / "gone"), 66, "no model folder"),
        (
            ("translate", "-m", tmp_path / "full"),
            78,
            "is not a model folder: neither it nor ",
        ),
        (
            ("info", "--preset", "base", "-m", tmp_path),
            2,
            "expected either -m MODEL or --preset NAME",
        ),
        (("info", "--vocab", 300), 2, "--vocab is for --preset only"),
        (
            ("translate", "train.en"),
            2,
            "translate reads standard input; use: transduce translate < train.en",
        ),
        (("translate", "--top-k", 3), 2, "--top-k is for sampling; add --sample"),
        (("translate", "--sample", "--beam", 3), 2, "--sample does not search"),
        (("translate", "--sample", "--temperature", "inf"), 2, "temperature is inf"),
        (("translate", "-m", "x" * 300), 74, "File name too long"),
        (("translate", "--beam", "0"), 2, "'--beam': Input should be greater than or equal to 1"),
        (("translate", "--beam", "129"), 2, "'--beam': Input should be less than or equal to 128"),
        (("score", "--alpha", "nan", "--source", "a", "--target", "b"), 2, "'--alpha': Input"),
        (("evaluate", "--alpha", "11"), 2, "'--alpha': Input should be less than or equal to 10"),
        (("translate", "--max-length", "0"), 2, "'--max-length': Input should be"),
        (("translate", "--length-penalty", "x"), 2, "'x' is not one of 'power', 'paper'"),
        (("translate", "--beam", "four"), 2, "valid integer"),
        (("translate", "--n-best", "9" * 4300), 2, f"n_best is {'9' * 40}...; expected"),
        (("inspect", "hi", "--layer", "9" * 4300), 2, f"--layer {'9' * 40}... is out of range"),
        (("nonsense",), 2, "No such command 'nonsense'"),
    ):
        code, _, err = transduce(*command, stdin=b"I love you\n")
        assert code == wanted_code, err
        assert wanted in err
