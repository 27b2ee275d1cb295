"""How large files, classes and functions may be, those of the tests included."""

import ast
from collections.abc import Iterator
from importlib import import_module
from inspect import getmembers, isclass, isfunction
from pathlib import Path
from typing import Final

import pytest

pytestmark = pytest.mark.once

ROOT: Final = Path(__file__).parent.parent
FOLDERS: Final = ("protocol", "session", "broker", "config", "spark_jobs", "deploy", "tests")

FILE_LINES: Final = 400
CLASS_METHODS: Final = 25
FUNCTION_LINES: Final = 60


def too_large(source: str) -> Iterator[str]:
    """Say what of a file exceeds its limit, and by how much."""
    lines = source.count("\n")
    if lines > FILE_LINES:
        yield f"{lines} lines, at most {FILE_LINES}"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            methods = sum(isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) for child in node.body)
            if methods > CLASS_METHODS:
                yield f"line {node.lineno}: {node.name} has {methods} methods, at most {CLASS_METHODS}"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES:
                yield f"line {node.lineno}: {node.name} has {length} lines, at most {FUNCTION_LINES}"


def test_files_classes_and_functions_are_of_a_readable_size() -> None:
    """Nothing exceeds its limit."""
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    assert [f"{path.relative_to(ROOT)}: {what}" for path in files for what in too_large(path.read_text())] == []


def test_no_connection_inherits_much() -> None:
    """What a class of a connection has by itself and by inheritance is no more than a class may have by itself."""
    for path in sorted((ROOT / "broker" / "connection").glob("[a-z]*.py")):
        module = import_module(f"broker.connection.{path.stem}")
        for each in vars(module).values():
            if isclass(each) and each.__module__ == module.__name__ and not issubclass(each, Exception):
                methods = {name for name, _ in getmembers(each, isfunction)}
                assert len(methods) <= CLASS_METHODS, (each, sorted(methods))


@pytest.mark.parametrize(
    ("most", "one_more"),
    [
        ("x = 1\n" * FILE_LINES, "x = 1\n" * (FILE_LINES + 1)),
        *[
            tuple(head + "".join(line.format(number) for number in range(count)) for count in (limit, limit + 1))
            for head, line, limit in (
                ("class Large:\n", "    def method_{}(self): ...\n", CLASS_METHODS),
                ("def long():\n", "    x = {}\n", FUNCTION_LINES - 1),
            )
        ],
    ],
    ids=["file", "class", "function"],
)
def test_one_more_is_too_many(most: str, one_more: str) -> None:
    """Each limit is noticed when it is exceeded by one, and not before."""
    assert list(too_large(most)) == []
    assert len(list(too_large(one_more))) == 1
