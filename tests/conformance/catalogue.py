"""The statements of both standards, read from `statements/`."""

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent
VERSIONS = ("3.1.1", "5.0")
KEYS = {"id", "version", "says", "tests", "not_observable", "binds"}


class CatalogueError(Exception):
    """An entry of a statements file is not of the form that README.md describes."""


@dataclass(frozen=True)
class Statement:
    """One normative statement in our words, with the tests that show it or the reason why no test can."""

    id: str
    version: str
    says: str
    tests: tuple[str, ...] = ()
    not_observable: str = ""
    client_only: bool = False

    @property
    def section(self) -> str:
        """The section of the standard, such as 3.1.4."""
        return self.id.removeprefix("MQTT-").rpartition("-")[0]

    @property
    def number(self) -> int:
        """Its number in the section."""
        return int(self.id.rpartition("-")[2])


def load(folder: Path = FOLDER / "statements") -> list[Statement]:
    """Return all statements, in the order of the files' names."""
    return [
        _statement(entry, file)
        for file in sorted(folder.glob("*.yaml"))
        for entry in yaml.safe_load(file.read_text()) or ()
    ]


def _statement(entry: dict[str, Any], file: Path) -> Statement:
    where = f"{file.name}: {entry.get('id')}"
    if unknown := entry.keys() - KEYS:
        raise CatalogueError(f"{where}: unknown {', '.join(sorted(unknown))}")
    if missing := {"id", "version", "says"} - entry.keys():
        raise CatalogueError(f"{where}: no {', '.join(sorted(missing))}")
    if entry["version"] not in VERSIONS:
        raise CatalogueError(f"{where}: version {entry['version']!r} is neither of {VERSIONS}")
    if entry.get("binds", "client") != "client":
        raise CatalogueError(f"{where}: binds is client, or left out")
    return Statement(
        entry["id"],
        entry["version"],
        entry["says"],
        tuple(entry.get("tests", ())),
        entry.get("not_observable", ""),
        "binds" in entry,
    )


def defined_tests(folder: Path = FOLDER) -> set[str]:
    """Return all test functions as statements name them, such as `test_connect.py::test_first_packet`."""
    return {
        f"{file.name}::{node.name}"
        for file in folder.glob("test_*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }
