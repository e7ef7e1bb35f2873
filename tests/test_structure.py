"""Rules for the code itself: imports point down, public names exist, ignored checks say why."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import transduce

SOURCE = Path(transduce.__file__).parent
FILES = sorted(path for path in SOURCE.rglob("*.py"))
# Lower floors first. A room imports only from floors below it, not from rooms on its own floor.
FLOORS = (
    ("errors", "log"),
    ("config", "storage", "hardware"),
    ("presets", "outputs"),
    ("text", "model"),
    ("model_folder", "grammar", "doctor"),
    ("data",),
    ("convert",),
    ("decode",),
    ("evaluation",),
    ("inspection", "exchange"),
    ("reports",),
    ("training",),
    ("claims", "service"),
    ("cli",),
)
FLOOR_OF = {room: number for number, floor in enumerate(FLOORS) for room in floor}
# The entry point imports one module per command; commands share output.py and arguments.py only.
SHARED_BY_COMMANDS = {"transduce.cli.output", "transduce.cli.arguments"}
ENTRY_POINT = "transduce.cli.main"


def module_name(path: Path, source: Path) -> str:
    """Return the dotted name of a file: `text/files.py` is `transduce.text.files`."""
    parts = ("transduce", *path.relative_to(source).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def import_graph(source: Path) -> dict[str, set[str]]:
    """Return the modules of this package that each module imports, anywhere in its file."""
    paths = {module_name(path, source): path for path in sorted(source.rglob("*.py"))}
    graph: dict[str, set[str]] = {}
    for module, path in paths.items():
        names: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{module}: relative import"
                names |= {f"{node.module}.{alias.name}" for alias in node.names}
        found = set()
        for name in names:
            while name.startswith("transduce."):
                if name in paths:
                    found.add(name)
                    break
                name = name.rpartition(".")[0]
        graph[module] = found - {module}
    return graph


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else module


def upward_imports(graph: dict[str, set[str]]) -> list[str]:
    return [
        f"{module} imports {imported}, which is not below it"
        for module, imports in graph.items()
        if room_of(module) in FLOOR_OF
        for imported in sorted(imports)
        if room_of(imported) != room_of(module)
        and FLOOR_OF[room_of(imported)] >= FLOOR_OF[room_of(module)]
    ]


def cycles(graph: dict[str, set[str]]) -> list[str]:
    """Return the import cycles, each as `a -> b -> a`."""
    found: list[str] = []
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        if module in path:
            found.append(" -> ".join((*path[path.index(module) :], module)))
        elif module not in done:
            for imported in sorted(graph[module]):
                visit(imported, (*path, module))
            done.add(module)

    for module in graph:
        if room_of(module) in FLOOR_OF:
            visit(module, ())
    return found


def imports_between_commands(graph: dict[str, set[str]]) -> list[str]:
    return [
        f"{module} imports {imported}: commands share output.py and arguments.py only"
        for module, imports in graph.items()
        if room_of(module) == "cli" and module != ENTRY_POINT
        for imported in sorted(imports - SHARED_BY_COMMANDS)
        if room_of(imported) == "cli"
    ]


def test_imports_point_down() -> None:
    assert upward_imports(import_graph(SOURCE)) == []


def test_there_are_no_import_cycles() -> None:
    assert cycles(import_graph(SOURCE)) == []


def test_commands_do_not_import_each_other() -> None:
    assert imports_between_commands(import_graph(SOURCE)) == []


def test_every_room_has_a_floor() -> None:
    rooms = {room_of(module) for module in import_graph(SOURCE)}
    assert rooms - {"transduce", "__main__"} == set(FLOOR_OF)


def write_package(folder: Path, files: dict[str, str]) -> dict[str, set[str]]:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return import_graph(folder)


def test_the_checks_above_can_fail(tmp_path: Path) -> None:
    up = {"text/a.py": "from transduce.decode import b", "decode/b.py": ""}
    assert upward_imports(write_package(tmp_path / "up", up)) == [
        "transduce.text.a imports transduce.decode.b, which is not below it"
    ]
    ring = {
        "text/a.py": "import transduce.text.b",
        "text/b.py": "def late() -> None:\n    from transduce.text.c import d",
        "text/c.py": "from transduce.text import a",
    }
    assert cycles(write_package(tmp_path / "ring", ring)) == [
        "transduce.text.a -> transduce.text.b -> transduce.text.c -> transduce.text.a"
    ]
    commands = {
        "cli/main.py": "from transduce.cli import train",
        "cli/train.py": "from transduce.cli.plan import x\nfrom transduce.cli.output import y",
        "cli/plan.py": "",
        "cli/output.py": "",
    }
    assert imports_between_commands(write_package(tmp_path / "cli", commands)) == [
        "transduce.cli.train imports transduce.cli.plan: "
        "commands share output.py and arguments.py only"
    ]


def test_text_and_the_command_line_start_without_torch() -> None:
    modules = "transduce, transduce.cli.main, transduce.grammar, transduce.text.vocabulary"
    program = f"import sys, {modules}; print('torch' in sys.modules)"
    assert (
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout
        == "False\n"
    )


@pytest.mark.parametrize(
    "command", [["-m", "transduce", "--help"], ["-m", "transduce", "train", "--help"]]
)
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
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "Usage:" in done.stdout


def test_public_names_are_listed_and_importable() -> None:
    for name in transduce.__all__:
        assert getattr(transduce, name).__name__ == name
    assert sorted(transduce.__all__) == transduce.__all__
    assert set(dir(transduce)) == {*transduce.__all__, "__version__"}
    with pytest.raises(AttributeError, match="module 'transduce' has no attribute 'nothing'"):
        transduce.nothing  # noqa: B018  the access is the test


def test_no_module_is_called_utils() -> None:
    assert not [path for path in FILES if re.search(r"util|helper|common|misc", path.name)]


def test_no_module_postpones_annotations_because_shape_checks_need_them() -> None:
    assert not [
        path
        for path in FILES
        if "from __future__ import annotations" in path.read_text(encoding="utf-8")
    ]


def test_suppressed_checks_carry_a_reason() -> None:
    for path in FILES:
        for line in path.read_text(encoding="utf-8").splitlines():
            if re.search(r"#\s*(type: ignore|noqa)", line):
                assert re.search(r"(type: ignore\[[\w-]+\]|noqa: \w+)\s+(#\s*)?\w+", line), (
                    f"{path.name}: {line.strip()}"
                )
