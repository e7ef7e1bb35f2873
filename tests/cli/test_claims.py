"""`transduce claims` as users type it."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from tests.commands import Run
from transduce.claims import claims
from transduce.claims.claim import SHOWN, VERDICTS, Result, conclude
from transduce.claims.lab import Lab
from transduce.decode.load import load_translator
from transduce.model_folder import ModelFolder, save_model


def test_without_arguments_every_claim_is_listed(transduce: Run) -> None:
    code, out, err = transduce("claims")
    assert (code, err) == (0, "")
    for name in claims():
        assert re.search(rf"^ *{name} ", out, re.MULTILINE), name
    said = " ".join(out.split())
    assert "-m MODEL is examined by claims marked any." in said
    assert "T1 a journal-club note; T2 a long walk-through" in said
    listed = [json.loads(line) for line in transduce("claims", "--json")[1].splitlines()]
    assert [claim["name"] for claim in listed] == list(claims())


def test_a_refuted_claim_is_a_result_not_an_error(transduce: Run, tmp_path: Path) -> None:
    code, out, err = transduce("claims", "diagonal", "sinusoids", "--html", tmp_path / "out.html")
    assert code == 0
    assert "refuted" in out
    assert "shown" in out
    assert err.startswith("1/2  sinusoids: Sinusoids make a shift a linear map\n2/2  diagonal: ")
    page = (tmp_path / "out.html").read_text()
    for said in (
        claims()["diagonal"].statement,
        "● refuted",
        "Control: ",
        "<svg",
        "Seeds: ",
        "out.html</code> · 20",
    ):
        assert said in page
    config = load_translator(None, engine="torch").model.config
    assert (
        f"{config.n_layers} layers in each of its two stacks, {config.n_heads} heads, "
        f"vectors of {config.d_model}"
    ) in page
    assert page.index("T3 a study log") < page.index("<details")
    for name in ("sinusoids", "diagonal"):
        section = page[page.index(f'<section id="{name}">') :]
        assert (
            section.index("Claim: ") < section.index("Would refute it: ") < section.index("Done: ")
        )
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")


def test_json_has_one_object_per_claim_with_its_seeds(transduce: Run) -> None:
    code, out, _ = transduce("claims", "sinusoids", "--json")
    (found,) = map(json.loads, out.splitlines())
    assert code == 0
    assert (found["name"], found["verdict"], found["seeds"]) == (
        "sinusoids",
        "shown",
        "random vectors 1",
    )
    assert all(len(row) == len(found["headers"]) for row in found["rows"])


def test_one_claim_shows_its_numbers_in_the_terminal(transduce: Run) -> None:
    out = transduce("claims", "causal_mask")[1]
    assert re.search(r"with the mask +0 +0", out)
    assert re.search(r"without it \(control\) +0\.\d+ +0\.\d+", out)


def test_invalid_requests_are_errors(transduce: Run) -> None:
    said = "transduce: error: no claim 'laiers'; did you mean 'layers'?\n"
    assert transduce("claims", "laiers") == (2, "", said)
    assert transduce("claims", "layers", "--fast") == (
        2,
        "",
        "transduce: error: names of claims, --fast and --all exclude each other; "
        "give one of them\n",
    )
    said = "transduce: error: --html shows results; add names of claims, --fast or --all\n"
    assert transduce("claims", "--html", "x.html") == (2, "", said)


def test_the_fast_claims_run_together(transduce: Run) -> None:
    code, out, err = transduce("claims", "--fast", "--json")
    found = [json.loads(line) for line in out.splitlines()]
    assert code == 0, err
    assert [each["name"] for each in found] == [
        name for name, claim in claims().items() if claim.is_fast
    ]
    assert {each["verdict"] for each in found} <= set(VERDICTS)
    assert sum(each["verdict"] == "shown" for each in found) > len(found) / 2


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_all_claims_run_and_their_page_has_every_one(transduce: Run, tmp_path: Path) -> None:
    code, out, err = transduce("claims", "--all", "--html", tmp_path / "all.html")
    assert code == 0, err
    page = (tmp_path / "all.html").read_text()
    for claim in claims().values():
        assert f'<section id="{claim.name}">' in page
        assert claim.name in out


def test_a_model_that_does_not_know_the_grammar_is_examined_too(
    transduce: Run, untrained_folder: ModelFolder, tmp_path: Path
) -> None:
    """Claims that need correct translations use the built-in model; the others use this one."""
    save_model(tmp_path / "model", untrained_folder)
    names = ("causal_mask", "alignment", "diagonal")
    code, out, err = transduce("claims", *names, "--json", "-m", tmp_path / "model")
    assert code == 0, err
    verdicts = {found["name"]: found["verdict"] for found in map(json.loads, out.splitlines())}
    assert (verdicts["causal_mask"], verdicts["alignment"]) == ("shown", "shown")


def test_a_claim_added_to_the_registry_is_listed_and_run(
    transduce: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(lab: Lab) -> Result:
        return conclude(SHOWN, "One is one.", "Two is not.", ("number",), [(1,)])

    module = ModuleType("transduce.claims.added")
    monkeypatch.setattr(module, "run", run, raising=False)
    monkeypatch.setitem(sys.modules, "transduce.claims.added", module)
    added = replace(claims()["causal_mask"], name="added", statement="One is one.")
    monkeypatch.setitem(claims(), "added", added)
    assert re.search(r"^ *added +One is one\.", transduce("claims")[1], re.MULTILINE)
    code, out, _ = transduce("claims", "added", "--json")
    found = json.loads(out)
    assert (code, found["name"], found["verdict"], found["rows"]) == (0, "added", "shown", [[1]])
