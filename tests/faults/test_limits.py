"""Input without measure: each command answers it with a message, in bounded time and memory."""

import json
from pathlib import Path

import pytest

from tests.commands import Run
from transduce.decode import readings, substitution
from transduce.decode.load import load_translator
from transduce.evaluation.metrics import MAX_TER_WORDS
from transduce.text.terms import MAX_TRANSLATIONS, Glossary


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            "cat\t" + "gatto nero " * 1500,
            "glossary entry 'cat' has a part of 16,499 characters, more than 500; "
            "shorten it to the term: 'gatto nero gatto",
        ),
        ("cat " * 1500 + "\tgatto", "has a part of 5,999 characters, more than 500; shorten it"),
        (
            "cat" + "".join(f"\tgatto{i}" for i in range(MAX_TRANSLATIONS + 1)),
            "glossary entry 'cat' has 101 translations, more than 100; keep those that are used",
        ),
    ],
)
def test_a_glossary_entry_that_is_no_term_is_refused(
    transduce: Run, tmp_path: Path, entry: str, message: str
) -> None:
    glossary = tmp_path / "terms.tsv"
    glossary.write_text(entry, encoding="utf-8")
    code, out, err = transduce("translate", "--glossary", glossary, stdin=b"The cat sleeps\n")
    assert (code, out) == (65, "")
    assert message in err
    assert len(err) < 1000


def test_a_forbidden_phrase_that_is_no_phrase_is_refused(transduce: Run, tmp_path: Path) -> None:
    phrases = tmp_path / "forbidden.txt"
    phrases.write_text("cat\n" + "the cat sees " * 3000 + "\n", encoding="utf-8")
    code, out, err = transduce("translate", "--forbid", phrases, stdin=b"The cat sleeps\n")
    assert (code, out) == (65, "")
    assert "has 38,999 characters, more than 500; shorten it" in err
    assert len(err) < 1000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "the 512 that a translation may begin with; shorten it\n"),
        (("--max-length", 513), "the 512 that a translation may begin with; shorten it\n"),
        (("--max-length", 20), "the 20 that a translation may begin with; shorten it, or raise"),
        (("--sample",), "the 512 that a translation may begin with; shorten it\n"),
    ],
)
def test_a_prefix_that_cannot_be_continued_is_refused(
    transduce: Run, options: tuple[object, ...], message: str
) -> None:
    prefix = "il gatto " * 5000
    code, out, err = transduce("translate", "--prefix", prefix, *options, stdin=b"The cat sleeps\n")
    assert (code, out) == (2, "")
    assert "transduce: error: the prefix has 10,001 tokens, more than " in err
    assert message in err


def test_a_long_prefix_before_a_short_line_is_continued(transduce: Run) -> None:
    """Before, it took all the tokens that the translation of a short line may have."""
    prefix = "Il gatto dorme, la ragazza mangia, il cane corre, la donna legge e il bambino " * 4
    options = ("--prefix", prefix, "--json")
    code, out, _ = transduce("translate", *options, stdin=b"The boy sleeps.\n")
    found = json.loads(out)
    assert code == 0
    assert found["text"].startswith(prefix.strip())
    assert len(found["text"]) > len(prefix)
    assert "truncated" not in found["flags"]


@pytest.mark.parametrize("command", ["evaluate", "compare"])
def test_ter_of_lines_that_take_minutes_is_left_out_with_a_warning(
    transduce: Run, tmp_path: Path, command: str
) -> None:
    words = [f"w{i}" for i in range(MAX_TER_WORDS)]
    found, right = tmp_path / "found", tmp_path / "right"
    options = {
        "evaluate": ("--hypothesis", found, "--reference", right),
        "compare": ("--system", f"a={found}", "--system", f"b={right}", "--reference", right),
    }
    for n_more, names in ((0, {"BLEU", "chrF2", "TER"}), (1, {"BLEU", "chrF2"})):
        line = " ".join(words + ["more"] * n_more)
        right.write_text(f"one short line\n{line}\n", encoding="utf-8")
        found.write_text(f"one short line\n{line}\n", encoding="utf-8")
        code, out, err = transduce(command, *options[command], "--json")
        rows = [json.loads(row) for row in out.splitlines()]
        assert code == 0
        assert {row["name"] for row in rows if "signature" in row} - {"exact match"} == names
        assert ("TER is not computed: " in err) == bool(n_more)
    assert "line 2 has 501 words, more than 500; split long lines into sentences" in err


def test_terms_beyond_what_a_search_can_carry_are_flagged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings, "MAX_TERM_TOKENS", 20)
    monkeypatch.setattr(substitution, "MIN_MASS", 2.0)  # nothing is substituted
    translator = load_translator(engine="torch")
    words = ["cat", "dog", "boy", "girl", "book", "house"]
    glossary = Glossary((word, (f"{word}x{word}z",)) for word in words)
    [found] = translator.translate([" ".join(words)], glossary=glossary, beam=1)
    assert "missing_term" in found.flags
    assert 0 < len(found.missing) < len(words)
    assert list(found.missing) == words[-len(found.missing) :]
