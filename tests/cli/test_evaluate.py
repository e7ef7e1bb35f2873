"""`transduce evaluate`: scores, their signatures and settings, errors and warnings."""

import json
import math
from pathlib import Path

import pytest

from tests.commands import Run
from transduce.decode.load import load
from transduce.evaluation.metrics import corpus_scores
from transduce.grammar import generate


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def rows(out: str) -> dict[str, dict[str, object]]:
    return {row["name"]: row for row in map(json.loads, out.splitlines())}


def test_scores_of_given_translations_against_several_references(
    transduce: Run, tmp_path: Path
) -> None:
    found, one = (
        ["Ti amo molto anche io", "Ciao mio amico"],
        ["Ti amo molto anche io", "Ciao amico"],
    )
    two = ["Ti amo tanto anche io", "Ciao caro"]
    given = (
        "--hypothesis",
        write(tmp_path / "h", *found),
        "--reference",
        write(tmp_path / "r", *one),
    )
    code, out, err = transduce(
        "evaluate", *given, "--reference", write(tmp_path / "s", *two), "--json"
    )
    assert (code, err) == (0, "")
    scores = rows(out)
    assert list(scores) == ["BLEU", "chrF2", "TER", "exact match"]
    for score in corpus_scores(found, one, two):
        assert scores[score.name] == {
            "name": score.name,
            "value": score.value,
            "signature": score.signature,
        }
    assert str(scores["BLEU"]["signature"]).startswith("nrefs:2|case:mixed|eff:no|tok:13a")
    assert scores["exact match"]["value"] == 50


def test_a_model_is_scored_with_its_settings_and_its_loss(transduce: Run, tmp_path: Path) -> None:
    """The loss is the mean negative log-probability of the tokens, as given by `score`."""
    pairs = [pair[:2] for pair in generate("en-it", 40, seed=10)]
    source = write(tmp_path / "s", *(pair[0] for pair in pairs))
    reference = write(tmp_path / "r", *(pair[1] for pair in pairs))
    command = (
        "evaluate",
        "--source",
        source,
        "--reference",
        reference,
        "--reference",
        reference,
        "--beam",
        2,
    )
    code, out, err = transduce(*command, "--json")
    assert (code, err) == (0, "")
    scores = rows(out)
    assert list(scores) == ["BLEU", "chrF2", "TER", "exact match", "loss", "perplexity"]
    settings = {"beam": 2, "alpha": 1.0, "length_penalty": "power", "max_length": None, "seed": 1}
    assert all(
        settings.items() <= scores[name].items() for name in ("BLEU", "chrF2", "TER", "exact match")
    )
    assert str(scores["BLEU"]["signature"]).endswith(
        "|beam:2|alpha:1.0|length_penalty:power|seed:1"
    )
    assert (scores["loss"]["seed"], "beam" in scores["loss"]) == (
        1,
        False,
    )  # the loss needs no search
    scored = [each.token_scores for each in load(engine="torch").score(pairs)]
    loss = -sum(map(sum, scored)) / sum(map(len, scored))
    assert scores["loss"]["value"] == pytest.approx(loss, abs=1e-4)
    assert scores["perplexity"]["value"] == pytest.approx(math.exp(loss), rel=1e-3)
    assert "BLEU " in transduce(*command)[1]


def test_pairs_that_are_too_long_for_the_model_are_omitted_from_the_loss_with_a_warning(
    transduce: Run, tmp_path: Path
) -> None:
    source, reference = (
        write(tmp_path / "s", "I love you", "cat " * 300),
        write(tmp_path / "r", "Ti amo", "gatto " * 300),
    )
    _, out, err = transduce(
        "evaluate", "--source", source, "--reference", reference, "--beam", 1, "--json"
    )
    assert "the loss omits 1 of 2 pairs, which have more than 256 tokens" in err
    assert rows(out)["loss"]["signature"] == "nats|pieces:3|seed:1"
    long = (
        "--source",
        write(tmp_path / "s", "cat " * 300),
        "--reference",
        write(tmp_path / "r", "gatto " * 300),
    )
    assert list(rows(transduce("evaluate", *long, "--beam", 1, "--json")[1]))[-1] == "exact match"


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (
            ("--hypothesis", "one", "--reference", "two"),
            65,
            "one has 1 lines, two has 2; expected the same number, in the same order",
        ),
        (("--source", "one", "--reference", "two"), 65, "one has 1 lines, two has 2"),
        (
            ("--hypothesis", "two", "--reference", "two", "--reference", "one"),
            65,
            "one has 1 lines, two has 2",
        ),
        (
            ("--hypothesis", "one", "--reference", "empty"),
            65,
            "empty is empty; expected one reference translation per line",
        ),
        (
            ("--hypothesis", "seven", "--reference", "gaps"),
            65,
            "gaps, line 2, 7: blank reference; write the",
        ),
        (
            ("--hypothesis", "seven", "--reference", "seven", "--reference", "gaps"),
            65,
            "or delete that line from every",
        ),
        (
            ("--hypothesis", "seven", "--reference", "void"),
            65,
            "void, line 1, 2, 3, 4, 5 and 2 more: blank reference",
        ),
        (
            ("--hypothesis", "one", "--reference", "one", "--tokenize", "intel"),
            2,
            "did you mean 'intl'?",
        ),
        (("--hypothesis", "one", "--reference", "gone"), 66, "no file gone"),
        (
            ("--hypothesis", "one", "--reference", "one", "--beam", "3"),
            2,
            "--hypothesis is scored without a model; remove --m",
        ),
        (
            ("--hypothesis", "one"),
            2,
            "missing --reference FILE (or --text FILE for a language model)",
        ),
        (
            ("--reference", "one"),
            2,
            "expected either --source (to translate with the model) or --hypothesis",
        ),
    ],
)
def test_invalid_requests_are_refused(
    command: tuple[str, ...],
    code: int,
    said: str,
    transduce: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {"one": ["a"], "two": ["a", "b"], "empty": [], "seven": ["a"] * 7, "void": [""] * 7}
    for name, lines in {**files, "gaps": ["a", "\u200b \u00a0", *["a"] * 4, ""]}.items():
        write(Path(name), *lines)
    found, out, err = transduce("evaluate", *command)
    assert (found, out) == (code, "")
    assert said in err


def test_text_that_makes_bleu_wrong_gives_a_warning(transduce: Run, tmp_path: Path) -> None:
    plain, tokenised = (
        write(tmp_path / "plain", "The cat sleeps."),
        write(tmp_path / "tok", "the cat sleeps ."),
    )
    _, _, err = transduce("evaluate", "--hypothesis", plain, "--reference", tokenised)
    assert (
        f"warning: {tokenised} looks tokenized (' .' and the like in 1 of 1 lines), "
        "so BLEU will be wrong; detok" in err
    )
    assert f"warning: no capital letters in {tokenised}, but in other files" in err
    assert "plain looks" not in err
    _, _, err = transduce(
        "evaluate", "--hypothesis", plain, "--reference", tokenised, "--tokenize", "none"
    )
    assert (
        f"warning: {plain} does not look tokenized ('sleeps.' and the like in 1 of 1 lines), "
        "so BLEU will be wrong" in err
    )
    assert "tok looks" not in err
    for path, tokenize in ((plain, "13a"), (tokenised, "none")):
        assert (
            transduce(
                "evaluate", "--hypothesis", path, "--reference", path, "--tokenize", tokenize
            )[2]
            == ""
        )
