"""README and docs agree with the code: commands run, names exist, numbers are recomputed."""

import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import write_grammar
from tests.convert.marian_models import write_marian
from tests.test_structure import FLOORS
from transduce.claims import claims
from transduce.decode.load import load
from transduce.grammar import generate
from transduce.inspection.edits import FIELDS
from transduce.inspection.summary import describe_preset
from transduce.inspection.views import VIEWS
from transduce.presets import TABLE_3
from transduce.reports.html import escape

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAPER = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
SOURCES = {
    path: path.read_text(encoding="utf-8") for path in (ROOT / "src" / "transduce").rglob("*.py")
}
TOUR = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
TRAINING = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
FINE_TUNING = (ROOT / "docs" / "finetuning.md").read_text(encoding="utf-8")
INSIDE = (ROOT / "docs" / "inside.md").read_text(encoding="utf-8")
EVALUATING = (ROOT / "docs" / "evaluating.md").read_text(encoding="utf-8")
TRANSLATING = (ROOT / "docs" / "translating.md").read_text(encoding="utf-8")

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "results").glob("*/README.md")),
]


def commands_of(page: str) -> list[str]:
    """The commands of the blocks marked `sh`; one that ends in a backslash goes on below."""
    return [
        line
        for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
        for line in re.sub(r"\\\n +", "", block).splitlines()
        if line
    ]


COMMANDS = commands_of(README)


def run(command: str, folder: Path) -> str:
    """Run a command of a page in a shell and return what it prints."""
    typed = re.sub(
        r"\btransduce (?=[a-z])", f"{shlex.quote(sys.executable)} -m transduce ", command
    )
    done = subprocess.run(typed, shell=True, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_commands_of_the_page_on_training_run_in_order(tmp_path: Path) -> None:
    write_grammar(tmp_path, 200)
    commands = commands_of(TRAINING)
    assert len(commands) >= 4
    for command in commands:
        run(command, tmp_path)


@pytest.mark.timeout(1200)  # they train two models
def test_the_commands_of_the_readme_run_in_order(tmp_path: Path) -> None:
    """Run them with a corpus of 60 pairs in the current folder."""
    pairs = list(generate("en-it", 60, seed=3))
    (tmp_path / "train.en").write_text("".join(f"{pair.source}\n" for pair in pairs))
    (tmp_path / "train.it").write_text("".join(f"{pair.target}\n" for pair in pairs))
    (tmp_path / "corpus.txt").write_text("".join(f"{pair.target}\n" for pair in pairs))
    for name in ("en", "it"):
        (tmp_path / f"test.{name}").write_text((tmp_path / f"train.{name}").read_text())
    assert len(COMMANDS) >= 7
    for command in COMMANDS:
        out = run(command, tmp_path)
        if command == 'echo "I love you very much" | transduce translate':
            assert out == "Ti amo molto\n"
        if "--glossary" in command:
            assert "macchina" in out or "automobile" in out
    assert len((tmp_path / "out.it").read_text().splitlines()) == 60


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_commands_of_the_page_on_translating_run_in_order(tmp_path: Path) -> None:
    """The page continues from the README: with a model of its own and test files."""
    write_grammar(tmp_path, 60)
    for name in ("en", "it"):
        (tmp_path / f"test.{name}").write_text((tmp_path / f"train.{name}").read_text())
    [train] = [each for each in COMMANDS if each.startswith("transduce train runs/en-it ")]
    for command in (train, *commands_of(TRANSLATING)):
        run(command, tmp_path)
    assert len((tmp_path / "report.jsonl").read_text().splitlines()) == 60
    assert len((tmp_path / "links.txt").read_text().splitlines()) == 60


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_commands_of_the_page_on_fine_tuning_run_in_order(tmp_path: Path) -> None:
    write_grammar(tmp_path, 200)
    run(
        "transduce train runs/en-it --source train.en --target train.it --preset nano "
        "--set train.steps=20",
        tmp_path,
    )
    for name, seed in (("mine", 3), ("general", 4)):
        pairs = generate("en-it", 60, seed=seed)
        lines = (f"{pair.source}\t{pair.target}\n" for pair in pairs)
        (tmp_path / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
    for command in commands_of(FINE_TUNING):
        run(command, tmp_path)
    for name in ("mine", "mixed", "longer"):
        assert (tmp_path / "runs" / name / "model").is_dir()


def test_the_commands_of_the_page_on_evaluating_run_in_order(tmp_path: Path) -> None:
    for source in write_grammar(tmp_path, 60):
        (tmp_path / f"test{source.suffix}").write_text(source.read_text())
    outputs = [run(command, tmp_path) for command in commands_of(EVALUATING)]
    names = [line.split(" ")[0] for line in outputs[0].splitlines()]
    assert names == ["BLEU", "chrF2", "TER", "exact", "loss", "perplexity"]
    assert outputs[3].count("no significant difference (p = 1.00)") == 3
    assert outputs[4].count("better") == 3
    assert "greedy against test.en" in (tmp_path / "compare.html").read_text()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_commands_of_the_page_on_looking_inside_run_in_order(tmp_path: Path) -> None:
    outputs = [run(command, tmp_path) for command in commands_of(INSIDE)]
    assert len(outputs) >= 8
    assert "molto    0    0   0  100" in outputs[0]
    assert (
        (tmp_path / "out.html").stat().st_size
        < 2_000_000
        < (tmp_path / "whole.html").stat().st_size + 1_000_000
    )


@pytest.mark.timeout(900)
def test_the_commands_of_the_page_on_importing_run_in_order(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    write_marian(tmp_path / "opus-mt-en-it")
    write_marian(tmp_path / "opus-mt-en-ROMANCE", tags=(">>ita<<", ">>spa<<"))
    for command in commands_of((ROOT / "docs" / "importing.md").read_text(encoding="utf-8")):
        run(command, tmp_path)
    assert (tmp_path / "en-es" / "manifest.json").is_file()
    assert (tmp_path / "en-it.argosmodel").is_file()


def test_every_view_and_every_edit_is_on_the_page_on_looking_inside() -> None:
    assert re.findall(r"^\| `(\w+)` \|", INSIDE, re.MULTILINE) == list(VIEWS)
    assert set(re.findall(r'^\| `\{"op": "(\w+)"', INSIDE, re.MULTILINE)) == set(FIELDS)


@pytest.mark.parametrize(("page", "n_at_least"), [(README, 5), (TRANSLATING, 4), (INSIDE, 6)])
def test_the_python_examples_of_a_page_give_the_printed_results(page: str, n_at_least: int) -> None:
    blocks = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    test = doctest.DocTestParser().get_doctest(blocks, {}, "page", "page", 0)
    results = doctest.DocTestRunner().run(test)
    assert results.attempted >= n_at_least
    assert results.failed == 0


def test_the_ids_in_the_tour_are_those_of_the_vocabulary() -> None:
    assert str(load().source_vocabulary.encode("I love you very much")) in TOUR


def test_the_rooms_of_the_tour_are_the_floors_of_the_import_check() -> None:
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", TOUR, re.MULTILINE)
    assert [(int(floor), room) for floor, room in rows] == [
        (number, room) for number, floor in enumerate(FLOORS, start=1) for room in floor
    ]


def test_every_step_of_the_tour_is_in_the_file_it_names() -> None:
    steps = re.findall(r"^  ([\w., ]+?) {2,}([\w/]+\.py) ", TOUR, re.MULTILINE)
    assert len(steps) > 10
    for names, file in steps:
        text = (ROOT / "src" / "transduce" / file).read_text(encoding="utf-8")
        for name in names.split(", "):
            for part in name.split("."):  # a class and its method
                assert re.search(rf"(def|class) {part}\b", text), f"{name} is not in {file}"


@pytest.mark.parametrize("name", ["docs/tour.md", "CONTRIBUTING.md"])
def test_a_name_with_its_file_is_in_that_file(name: str) -> None:
    """Such as `ENGINES` (`decode/engines/registry.py`)."""
    page = (ROOT / name).read_text(encoding="utf-8")
    pointers = re.findall(r"`([\w.]+)`(?:\s\(|,\s|\sof\s)`([\w/]+\.py)`", page)
    assert len(pointers) >= 4
    for pointer, file in pointers:
        text = (ROOT / "src" / "transduce" / file).read_text(encoding="utf-8")
        for part in pointer.split("."):  # a class and its method
            assert re.search(rf"\b{part}\b", text), f"{pointer} is not in {file}"


def test_every_name_in_the_tour_is_in_the_code() -> None:
    text = re.sub(r"```.*?```", "", TOUR, flags=re.DOTALL)
    files = [*(ROOT / "src").rglob("*.py"), ROOT / "tests" / "marian.py"]
    words = set(re.findall(r"\w+", " ".join(file.read_text(encoding="utf-8") for file in files)))
    names = re.findall(r"`([A-Za-z_][\w.]*)(?:\(.*?\))?`", text)
    assert len(names) > 100
    assert [
        name
        for name in names
        if not name.endswith((".py", ".md", ".toml")) and not set(name.split(".")) <= words
    ] == []


def prose_of(page: str) -> list[str]:
    """Return the lines of a page without blocks of code and tables."""
    lines = re.sub(r"```.*?```", "", page, flags=re.DOTALL).splitlines()
    return [line for line in lines if not line.startswith(("|", "    "))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_prose_fits_into_120_columns(page: Path) -> None:
    lines = prose_of(page.read_text(encoding="utf-8"))
    assert [line for line in lines if len(line) > 120] == []


def test_the_readme_is_read_in_three_minutes() -> None:
    assert len(" ".join(prose_of(README)).split()) <= 950


def test_the_make_targets_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"`?make ([a-z-]+)", README)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_and_every_file_named_in_a_page_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert link.startswith("https://") or (page.parent / link).exists(), link
    for name in re.findall(r"`([\w/]+\.py)(?:::\w+)?`", text):
        bases = (ROOT, ROOT / "src" / "transduce", page.parent)
        assert any((base / name).exists() for base in bases), name
    for name in re.findall(r"`(\w+/)`", text):
        bases = (ROOT, ROOT / "src" / "transduce", ROOT / "src" / "transduce" / "text")
        assert name in ("checkpoints/", "model/") or any(
            (base / name).is_dir() for base in bases
        ), name


def test_every_function_and_test_in_the_map_of_the_paper_exists() -> None:
    pointers = re.findall(r"`([\w/.]+\.py)::(\w+)`", PAPER)
    assert len(pointers) > 40
    for file, name in pointers:
        path = ROOT / file if file.startswith("tests/") else ROOT / "src" / "transduce" / file
        assert re.search(
            rf"^(def|class) {name}\b", path.read_text(encoding="utf-8"), re.MULTILINE
        ), f"{file}::{name}"


def test_every_claim_is_in_the_map_of_the_paper_with_a_station_that_exists() -> None:
    texts = (ROOT / "src" / "transduce" / "inspection" / "page" / "texts.js").read_text(
        encoding="utf-8"
    )
    stations = {"", *re.findall(r"^  (\w+): \{", texts, re.MULTILINE)}
    rows = re.findall(
        r"^\| [^`]* \| `[^`]*` \| `[^`]*` \| `?(\w*)`? \| (\w*) \|$", PAPER, re.MULTILINE
    )
    assert len(rows) > 20
    more = re.findall(r"`(\w+)`", PAPER.split("More claims")[1].split("Section 6.3")[0])
    assert {name for name, _ in rows if name} | set(more) == set(claims())
    assert {station for _, station in rows} | {
        claim.station for claim in claims().values()
    } <= stations


def test_the_results_page_lists_all_claims_with_their_verdicts() -> None:
    folder = ROOT / "results" / "claims"
    rows = re.findall(
        r"^\| `(\w+)`: .* \*\*([\w ]+)\*\* ",
        (folder / "README.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    page = (folder / "claims.html").read_text(encoding="utf-8")
    assert [name for name, _ in rows] == list(claims())
    for name, verdict in rows:
        title = escape(claims()[name].title)
        assert f'{title}</a></td><td><span class="verdict' in page
        assert f"● {verdict}<" in page.split(f'<section id="{name}">')[1].split("</h2>")[0]


def departures(text: str) -> list[str]:
    """Return the sentences after `Departs:` in docstrings, on one line each, without full stop."""
    paragraphs = re.findall(r"Departs: (.*?)(?=\n *\n|\"\"\"|Departs: )", text, re.DOTALL)
    sentences = [re.split(r"\.\s+(?=[A-Z])", paragraph)[0] for paragraph in paragraphs]
    return [" ".join(sentence.split()).removesuffix(".") for sentence in sentences]


def test_every_departure_in_the_code_is_listed_in_the_map_of_the_paper() -> None:
    declared = {
        (str(path.relative_to(ROOT / "src" / "transduce")), departure)
        for path, text in SOURCES.items()
        for departure in departures(text)
    }
    assert len(declared) >= 5
    listed = set(re.findall(r"^\| `([\w/.]+)` \| (.*) \|$", PAPER, re.MULTILINE))
    assert declared == listed


def test_the_parameter_table_matches_the_models() -> None:
    rows = re.findall(r"^\| ([\w.-]+) \| \d* \| ([\d.]+) \| ([\d.]+) \|$", PAPER, re.MULTILINE)
    assert {name for name, *_ in rows} == {"base", "big", *TABLE_3}
    for name, *printed in rows:
        for vocab_size, number in zip((37_000, 41_000), printed, strict=True):
            assert (
                f"{sum(describe_preset(name, vocab_size).parameters.values()) / 1e6:.1f}" == number
            )
