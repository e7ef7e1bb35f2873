"""The shape of the code itself: imports point down, public names exist, the package stays small and free of silencers."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import transduce

SOURCE = Path(transduce.__file__).parent
FILES = sorted(path for path in SOURCE.rglob("*.py"))
# Lower floors first; a floor may import the floors below it, and rooms of one floor do not know each other.
FLOORS = (
    ("errors",),
    ("config", "storage", "hardware"),
    ("presets", "html"),
    ("text", "model"),
    ("data", "checkpoint"),
    ("convert",),
    ("training", "decode"),
    ("evaluate",),
    ("inspection",),
    ("app",),
)
FLOOR_OF = {room: number for number, floor in enumerate(FLOORS) for room in floor}
MOST_LINES = 17_700


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    """The rooms of this package that a file imports, anywhere in it."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        rooms |= {name.split(".")[1] for name in names if name.startswith("transduce.")}
    return rooms


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(path: Path) -> None:
    room = room_of(path)
    if room in ("__init__", "__main__", "builtin"):
        return
    for imported in imports_of(path) - {room, "__version__"}:
        assert FLOOR_OF[imported] < FLOOR_OF[room], (
            f"{path.relative_to(SOURCE)} imports {imported}, which is not below it"
        )


def test_text_and_the_command_line_start_without_torch() -> None:
    modules = "transduce, transduce.app.cli, transduce.text.grammar, transduce.text.vocabulary"
    program = f"import sys, {modules}; print('torch' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "False\n"
    )


@pytest.mark.parametrize("command", [["-m", "transduce", "--help"], ["-m", "transduce", "train", "--help"]])
def test_help_answers_without_torch(command: list[str]) -> None:
    program = f"""
import runpy, sys
sys.argv = {command[1:]!r}
try:
    runpy.run_module("transduce", run_name="__main__")
except SystemExit as end:
    assert not end.code, end.code
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "Usage:" in done.stdout


def test_every_public_name_is_there() -> None:
    for name in transduce.__all__:
        assert getattr(transduce, name).__name__ == name
    assert sorted(transduce.__all__) == transduce.__all__
    assert set(dir(transduce)) == {*transduce.__all__, "__version__"}
    with pytest.raises(AttributeError, match="module 'transduce' has no attribute 'nothing'"):
        transduce.nothing  # noqa: B018  the access is the test


def test_no_module_is_called_utils() -> None:
    assert not [path for path in FILES if re.search(r"util|helper|common|misc", path.name)]


def test_postponed_annotations_would_blind_the_shape_checks() -> None:
    assert not [path for path in FILES if "from __future__ import annotations" in path.read_text(encoding="utf-8")]


def test_silencers_carry_a_reason() -> None:
    for path in FILES:
        for line in path.read_text(encoding="utf-8").splitlines():
            if re.search(r"#\s*(type: ignore|noqa)", line):
                assert re.search(r"(type: ignore\[[\w-]+\]|noqa: \w+)\s+(#\s*)?\w+", line), (
                    f"{path.name}: {line.strip()}"
                )


def test_the_source_stays_small() -> None:
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in FILES) < MOST_LINES
