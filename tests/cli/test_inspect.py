"""`transduce inspect` as users type it."""

import json
import re
import xml.etree.ElementTree
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.test_main import SHORT, TINY
from tests.commands import Run
from transduce.decode.load import load
from transduce.inspection.trace import trace
from transduce.training.run_folder import find_film

TEXT = "I love you very much"


def test_by_default_steps_and_alignment_are_shown(transduce: Run) -> None:
    code, out, err = transduce("inspect", TEXT)
    assert (code, err) == (0, "")
    assert out.startswith("I love you very much -> Ti amo molto")
    for said in (
        "molto 90 %",
        "(align.attention)",
        "(align.occlusion)",
        "(align.gradient)",
        "molto    0    0   0  100",
        "got 90 %",
    ):
        assert said in out
    assert "\x1b" not in out


def test_json_has_the_metadata_and_tensor_names_or_the_numbers_of_a_view(transduce: Run) -> None:
    own = trace(load(engine="torch"), TEXT, beam=2)
    found = json.loads(transduce("inspect", TEXT, "--json", "--beam", 2)[1])
    assert found["meta"].keys() == own.meta.keys()
    assert [step["chosen"] for step in found["meta"]["steps"]] == [
        step["chosen"] for step in own.meta["steps"]
    ]
    assert {"name": "dec.1.cross.weights", "shape": [4, 4, 6]} in found["tensors"]
    [_, heads] = json.loads(
        transduce("inspect", TEXT, "--json", "--view", "heads", "--layer", 1, "--head", 3)[1]
    )
    assert heads["title"] == "layer 2 head 4"
    assert heads["columns"] == ["I", "love", "you", "very", "much", "[EOS]"]
    for row, wanted in zip(heads["values"], own["dec.1.cross.weights"][3].tolist(), strict=True):
        assert row == pytest.approx(wanted, abs=1e-5)


def test_edits_are_applied(transduce: Run) -> None:
    word, force = (
        '{"op": "replace", "word": 1, "with": "see"}',
        '{"op": "force", "step": 1, "piece": 2}',
    )
    assert "-> Ti vedo molto" in transduce("inspect", TEXT, "--edit", word)[1]
    assert "-> Ti\n" in re.sub(
        " +\n", "\n", transduce("inspect", TEXT, "--edit", word, "--edit", force)[1]
    )


def test_a_picture_is_valid_svg_and_fetches_nothing(
    transduce: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    code, out, _ = transduce("inspect", TEXT, "--view", "heads", "--svg", tmp_path / "x.svg")
    picture = (tmp_path / "x.svg").read_text()
    assert (code, out) == (0, "")
    xml.etree.ElementTree.fromstring(picture)
    assert "url(http" not in picture
    assert "@font-face" not in picture
    assert 'fill="#2166ac"' in picture  # a weight of 1 is the full blue


def test_the_page_is_one_file_with_branches_and_with_the_model_if_asked(
    transduce: Run, tmp_path: Path
) -> None:
    code, out, err = transduce("inspect", TEXT, "--html", tmp_path / "out.html")
    assert (code, out, err) == (0, "", f"transduce: note: wrote {tmp_path / 'out.html'}\n")
    page = (tmp_path / "out.html").read_text()
    assert len(page) <= 2_000_000
    assert re.search(r"(src|href)=.?https?:", page) is None
    # Branches: without positions, scaling and mask, and without each head of one attention.
    assert page.count('class="branch"') == 3 + 4
    assert 'base64" id="weights"' not in page
    transduce("inspect", TEXT, "--html", tmp_path / "out.html", "--with-model")
    assert 'base64" id="weights"' in (tmp_path / "out.html").read_text()


def test_unseen_words_and_unknown_characters_give_warnings(transduce: Run) -> None:
    code, out, err = transduce("inspect", "I love xyzzy \u2603")
    assert code == 0
    assert out.rstrip().splitlines()[-1].strip()
    assert err.splitlines() == [
        "transduce: warning: words not seen in training (translation may be wrong): xyzzy, \u2603",
        "transduce: warning: characters not in the vocabulary: \u2603",
    ]


def test_the_page_of_a_run_contains_its_film(
    transduce: Run, write_corpus: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    source, target = write_corpus()
    assert (
        transduce("train", tmp_path / "run", "--source", source, "--target", target, *TINY, *SHORT)[
            0
        ]
        == 0
    )
    more = ("--beam", 1, "--with-model", "--html", tmp_path / "out.html")
    assert transduce("inspect", "We sleep", "-m", tmp_path / "run", *more)[0] == 0
    assert 'base64" id="film"' in (tmp_path / "out.html").read_text()
    assert (
        find_film(tmp_path / "run" / "model")
        == (tmp_path / "run" / "film.safetensors").read_bytes()
    )
    assert find_film(None) is None


def test_a_language_model_can_be_inspected(transduce: Run, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("The cat sleeps. The dog runs.\n" * 60)
    more = (*TINY, *SHORT, "--set", "model.window=32", "--set", "text.kind=char")
    assert transduce("train", tmp_path / "lm", "--text", tmp_path / "text", *more)[0] == 0
    code, out, _ = transduce(
        "inspect", "The cat", "-m", tmp_path / "lm", "--view", "heads", "--view", "steps"
    )
    assert code == 0
    assert "layer 1 head 1" in out
    assert transduce("inspect", "The cat", "-m", tmp_path / "lm")[1].startswith(
        "The cat -> The cat"
    )
    assert (
        transduce("inspect", "The cat", "-m", tmp_path / "lm", "--html", tmp_path / "lm.html")[0]
        == 0
    )


def test_every_error_is_one_line(transduce: Run, tmp_path: Path) -> None:
    for arguments, wanted_code, wanted in (
        (
            (TEXT, "--view", "dreams"),
            2,
            "unknown --view 'dreams'; expected one of tokens, positions, heads, ",
        ),
        ((TEXT, "--with-model"), 2, "--with-model puts the model into a page; add --html FILE"),
        ((TEXT, "--svg", "x.svg", "--json"), 2, "--svg and --json exclude each other"),
        ((TEXT, "--edit", "{"), 2, "--edit '{' is not JSON: "),
        (
            (TEXT, "--edit", "[]"),
            2,
            'edit [] is not an object; expected one such as {"op": "no_mask"}',
        ),
        ((TEXT, "--edit", '{"op": "paint"}'), 2, "unknown edit 'paint'; known: mute, "),
        ((TEXT, "--view", "heads", "--layer", 9), 2, "--layer 9 is out of range; expected 0 to 1"),
        ((TEXT, "--kind", "soft"), 2, "'soft' is not one of"),
        (
            (TEXT, "--html", tmp_path / "no" / "x.html"),
            73,
            f"cannot create {tmp_path / 'no' / 'x.html'}: no folder {tmp_path / 'no'}",
        ),
        ((TEXT, "-m", tmp_path / "gone"), 66, "no model folder"),
        (("",), 2, "the text is blank; give a text with at least one word"),
        ((f"{TEXT} " * 30,), 65, "at most 128 can be traced"),
        ((), 2, "Missing argument 'TEXT'"),
    ):
        code, out, err = transduce("inspect", *arguments)
        assert code == wanted_code, err
        assert wanted in err
        assert out == ""
