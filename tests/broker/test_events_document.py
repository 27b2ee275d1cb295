"""Every event that the broker logs is in EVENTS.md, with what to do, and nothing else is."""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

pytestmark = pytest.mark.once

ROOT: Final = Path(__file__).parents[2]

METHODS: Final = {
    "log": 1,
    **dict.fromkeys(("debug", "info", "warning", "error", "critical", "exception", "report"), 0),
}
"""What is called to log an event, and which of the arguments is its name."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Names:
    """The names of events in the code: where a name is the parameter of a function, those that its callers give."""

    def __init__(self) -> None:
        files = [path for package in ("broker", "session") for path in (ROOT / package).rglob("*.py")]
        trees = [ast.parse(path.read_text()) for path in files]
        self.found: set[str] = set()
        self._positions = {name: {position} for name, position in METHODS.items()}
        self._constants = dict(pair for tree in trees for pair in assigned(tree.body))
        functions = [node for tree in trees for node in ast.walk(tree) if isinstance(node, Function)]
        before = -1
        while before != (before := sum(map(len, self._positions.values()))):
            for function in functions:
                self._read(function)

    def _read(self, function: Function) -> None:
        for call in ast.walk(function):
            if not isinstance(call, ast.Call):
                continue
            called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            for position in list(self._positions.get(called, ())):
                if position < len(call.args):
                    self._resolve(call.args[position], function)

    def _resolve(self, value: ast.expr, function: Function) -> None:
        """Find the texts that a value may be."""
        if isinstance(value, ast.IfExp):
            self._resolve(value.body, function)
            self._resolve(value.orelse, function)
        elif isinstance(value, ast.Constant) and isinstance(value.value, str):
            if re.fullmatch("[a-z_]{4,}", value.value):
                self.found.add(value.value)
        elif isinstance(value, ast.Name):
            parameters = [each.arg for each in function.args.args if each.arg != "self"]
            if value.id in parameters:
                self._positions.setdefault(function.name, set()).add(parameters.index(value.id))
                return
            local = dict(assigned(list(ast.walk(function)))).get(value.id) or self._constants.get(value.id)
            if local is not None:
                self._resolve(local, function)


def assigned(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    """Names and the values that they get."""
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield node.target.id, node.value


def test_every_event_is_described() -> None:
    """Who reads a name in the log finds it in the document, and what it names exists."""
    text = (ROOT / "broker" / "EVENTS.md").read_text()
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`([a-z_]+)`", row[1])]
    assert sorted(named) == sorted(set(named))
    assert set(named) == Names().found
    assert all(cell.strip() for row in rows for cell in row[1:-1])
