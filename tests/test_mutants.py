"""The script of the mutants, on a small tree of its own."""

from pathlib import Path

import pytest

from tests.mutants import LIST, ROOT, Mutant, check_tests, copies, judge, read_mutants

SOURCE = "def is_adult(age: int) -> bool:\n    return age >= 18\n"
TEST = "from person import is_adult\n\n\ndef test_a_child():\n    assert not is_adult(17)\n"
ENTRY = """[[mutant]]
file = "src/person.py"
old = '{old}'
new = '{new}'
tests = ["{test}"]
kind = "{kind}"
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, content in (("src/person.py", SOURCE), ("tests/test_person.py", TEST)):
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return tmp_path / "tree"


def read(tree: Path, **changes: str) -> list[Mutant]:
    """Read a list of one mutant."""
    entry = {"old": ">= 18", "new": "> 18", "test": "tests/test_person.py", "kind": "boundary"}
    path = tree.with_suffix(".toml")
    path.write_text(ENTRY.format(**{**entry, **changes}))
    return read_mutants(path, tree)


def test_a_mutant_is_killed_if_a_test_fails_and_lives_if_all_pass(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mutants = [*read(tree, new=">= 17"), *read(tree)]
    check_tests(mutants, tree, n_processes=0)
    with copies(tree, 1) as trees:
        killed, alive = judge(mutants, trees)
        assert (trees[0] / "src/person.py").read_text() == SOURCE, "it is restored"
    assert (killed.killed, killed.by) == (True, "tests/test_person.py::test_a_child")
    assert (alive.killed, alive.by) == (False, "")
    assert (tree / "src/person.py").read_text() == SOURCE, "only the copy was changed"
    assert capsys.readouterr().out.count('"killed": ') == 2


def test_a_test_that_fails_without_a_mutant_is_no_proof(tree: Path) -> None:
    (tree / "tests/test_person.py").write_text("def test_nothing():\n    raise ValueError\n")
    with pytest.raises(SystemExit, match="a test fails without a mutant; repair it first"):
        check_tests(read(tree), tree, n_processes=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"old": ">= 21"}, "contains '>= 21' 0 times, expected once; update it"),
        ({"old": "age"}, "contains 'age' 2 times, expected once; update it"),
        ({"new": ">= 18"}, "'>= 18' is not changed; give another text"),
        ({"kind": "odd"}, "kind is 'odd'; expected one of boundary, other"),
        ({"test": "tests/test_gone.py"}, r"tests/test_gone\.py does not exist; name another test"),
        ({"test": "tests/test_person.py::test_gone"}, "::test_gone does not exist; name another"),
    ],
)
def test_an_entry_that_does_not_fit_the_tree_is_an_error(
    tree: Path, changes: dict[str, str], message: str
) -> None:
    with pytest.raises(SystemExit, match=message):
        read(tree, **changes)
    (tree / "src/person.py").unlink()
    with pytest.raises(SystemExit, match=r"src/person\.py does not exist; move or delete"):
        read(tree, **changes)


def test_the_list_fits_the_tree() -> None:
    assert len(read_mutants(LIST, ROOT)) > 150
