"""Who may import whom, and which folders there are: the seams that everything else stands on."""

import ast
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

import pytest

pytestmark = pytest.mark.once

ROOT: Final = Path(__file__).parent.parent

PACKAGES: Final = ("protocol", "session", "broker", "config", "spark_jobs")

MAY_IMPORT: Final = {
    "protocol": {"protocol"},
    "session": {"session", "protocol"},
    "config": {"config"},
    "broker": {"broker", "protocol", "session", "config"},
    "spark_jobs": {"spark_jobs"},
}
"""What each package may import of ours."""

KNOWS_OPENSSL: Final = "config/ciphers.py:"
"""Asks OpenSSL which ciphers a list stands for, and opens nothing: only OpenSSL can say that."""
ONLY_BROKER: Final = {"asyncio", "ssl", "socket", "selectors", "select", "socketserver", "uvloop"}
"""What only the broker may know: loops, TLS and sockets."""

SANS_IO: Final = {"threading", "multiprocessing", "concurrent", "subprocess", "logging", "structlog", "os", "io"}
"""What protocol and session may not know either: they neither wait nor write."""

CLOCKS: Final = {"time", "datetime"}
"""Clocks are handed in to protocol and session."""

CONFIG_MAY: Final = {"pydantic", "pydantic_core", "pydantic_settings", "yaml"}
"""What config may import beyond the standard library."""

TOP_LEVEL: Final = {*PACKAGES, "deploy", "tests", ".ci", ".github"}
"""The folders that there may be at the top."""

TOP_LEVEL_FILES: Final = {"LICENSE", "CHANGELOG.md", "README.md", "Makefile", "pyproject.toml", "setup.py"}
"""The files that there may be at the top, besides dotfiles."""


def sources(package: str) -> list[Path]:
    """All Python files of a package."""
    return sorted((ROOT / package).rglob("*.py"))


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Every module that a file imports, wherever in the file, with the line."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            package = path.relative_to(ROOT).parts[0]
            yield node.lineno, package if node.level else str(node.module)
        elif isinstance(node, ast.Call) and _is_dynamic(node.func):
            for argument in node.args[:1]:
                yield node.lineno, str(argument.value) if isinstance(argument, ast.Constant) else "?"


def _is_dynamic(function: ast.expr) -> bool:
    """Whether a call imports by name."""
    if isinstance(function, ast.Attribute):
        return function.attr == "import_module"
    return isinstance(function, ast.Name) and function.id in ("__import__", "import_module")


def forbidden(package: str, modules: set[str]) -> list[str]:
    """The imports of a package that are among the given modules, with file and line."""
    return [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in sources(package)
        for line, name in imports(path)
        if name.split(".")[0] in modules
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_only_what_they_may(package: str) -> None:
    """protocol imports nothing of ours, session protocol, config nothing, broker all three, spark_jobs none."""
    assert forbidden(package, {*PACKAGES, "tests"} - MAY_IMPORT[package]) == []


@pytest.mark.parametrize("package", [package for package in PACKAGES if package != "broker"])
def test_only_the_broker_knows_loops_and_sockets(package: str) -> None:
    """asyncio, ssl and sockets are the broker's alone, inside functions too."""
    found = [each for each in forbidden(package, ONLY_BROKER) if not each.startswith(KNOWS_OPENSSL)]
    assert found == []


@pytest.mark.parametrize("package", ["protocol", "session"])
def test_the_core_is_sans_io(package: str) -> None:
    """The codec and flow control have no threads, files, logs or clocks of their own."""
    assert forbidden(package, SANS_IO | CLOCKS) == []


def test_config_is_a_leaf() -> None:
    """config stands on pydantic and YAML, and nothing else that has to be installed; an extra has what reads HOCON."""
    installed = {
        name.split(".")[0]
        for path in sources("config")
        for _, name in imports(path)
        if name.split(".")[0] not in sys.stdlib_module_names
    }
    assert installed - {"pyhocon"} <= {"config", *CONFIG_MAY}


def test_imports_by_name_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test itself sees imports in functions, relative ones and those by name."""
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    package = tmp_path / "protocol"
    package.mkdir()
    (package / "a.py").write_text(
        "import os.path\n"
        "def f():\n    from session import x\n    import asyncio as io, ssl\n"
        "from . import b\n"
        "import importlib\nimportlib.import_module('broker.server')\n__import__('config')\n"
    )
    found = [(line, name) for line, name in imports(package / "a.py")]
    assert sorted(found) == [
        (1, "os.path"),
        (3, "session"),
        (4, "asyncio"),
        (4, "ssl"),
        (5, "protocol"),
        (6, "importlib"),
        (7, "broker.server"),
        (8, "config"),
    ]
    assert len(forbidden("protocol", {"session", "broker", "config"})) == 3


def modules() -> dict[str, Path]:
    """All modules of ours, by their dotted names."""
    found = {}
    for package in PACKAGES:
        for path in sources(package):
            found[".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")] = path
    return found


def imported(path: Path, known: Collection[str]) -> Iterator[str]:
    """The known modules that a file imports, deferred and typing-only imports too."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in known else node.module for name in inner if {name, node.module} & set(known))


def cycles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The groups of modules that import each other, directly or not."""
    reached = {name: _reached(graph, name) for name in graph}
    groups = {frozenset(other for other in reached[name] if name in reached[other]) for name in graph}
    return [set(group) for group in groups if group]


def _reached(graph: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def test_no_cycle_leaves_its_room() -> None:
    """Modules that import each other are in one room of the broker; no other package has a cycle."""
    known = modules()
    graph = {name: set(imported(path, known)) - {name} for name, path in known.items()}
    wide = [sorted(group) for group in cycles(graph) if len({_room(name) for name in group}) > 1]
    assert wide == []
    assert [sorted(group) for group in cycles(graph) if not all(name.startswith("broker.") for name in group)] == []


def _room(module: str) -> str:
    """`broker.cli` of `broker.cli.top.table`."""
    return ".".join(module.split(".")[:2]) if module.count(".") > 1 else module.partition(".")[0]


def test_no_file_of_a_connection_is_in_a_cycle() -> None:
    """Handlers see `Peer`, which imports none of them."""
    known = {name: path for name, path in modules().items() if name.startswith("broker.connection.")}
    assert known
    assert cycles({name: set(imported(path, known)) - {name} for name, path in known.items()}) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_rooms_import_each_other_one_way(package: str) -> None:
    """Of two rooms at most one imports the other, also for typing; a file beside the rooms counts as one."""
    known = modules()
    rooms = {
        (name.split(".")[1], other.split(".")[1])
        for name, path in known.items()
        for other in imported(path, known)
        if name.count(".") and other.count(".") and name.split(".")[0] == package == other.split(".")[0]
    }
    assert [pair for pair in sorted(rooms) if pair[0] < pair[1] and pair[::-1] in rooms] == []


def test_cycles_are_found() -> None:
    """The search itself: two that import each other by way of a third, and one that stands aside."""
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set[str]()}
    assert cycles(graph) == [{"a", "b", "c"}]


def test_only_the_fixed_folders_exist() -> None:
    """The top level holds the agreed folders and files, nothing more."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git working tree")
    command = ["git", "-c", "safe.directory=*", "-C", str(ROOT), "ls-files", "-z"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = {Path(name) for name in listed.split("\0") if name}
    folders = {name.parts[0] for name in names if len(name.parts) > 1}
    files = {name.name for name in names if len(name.parts) == 1 and not name.name.startswith(".")}
    assert folders <= TOP_LEVEL
    assert files <= TOP_LEVEL_FILES


def test_every_test_says_what_it_shows() -> None:
    """Each test function has a docstring."""
    silent = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in sources("tests")
        for node in ast.walk(ast.parse(path.read_text(), str(path)))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]
    assert silent == []
