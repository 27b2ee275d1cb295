""".github/SECURITY.md lists what clients can make the broker keep, and each table in it has a test."""

import ast
import re
from pathlib import Path
from typing import Final

import pytest

from tests.memory.tables import KIBIBYTE, MEBIBYTE, TABLES

pytestmark = pytest.mark.once

HERE: Final = Path(__file__).parent
SECTION: Final = re.compile(r"## What clients can make the broker keep\n(.*?)\n## ", re.DOTALL)


def test_the_list_of_tables() -> None:
    """The document has each table with its bound, and no other."""
    section = SECTION.search((HERE.parent.parent / ".github" / "SECURITY.md").read_text())
    assert section is not None
    rows = [line.strip("|").split("|") for line in section[1].splitlines() if line.startswith("| ")][1:]
    assert {row[0].strip(): row[2].strip() for row in rows} == {name: _size(most) for name, most in TABLES.items()}


def test_each_table_is_measured() -> None:
    """A test is named after each table."""
    trees = [ast.parse(file.read_text()) for file in HERE.glob("test_*.py")]
    tests = {each.name for tree in trees for each in tree.body if isinstance(each, ast.FunctionDef)}
    assert {f"test_{re.sub('[ -]', '_', name.lower())}" for name in TABLES} <= tests


def _size(count: int) -> str:
    if count == 0:
        return "`memory_watermark`"
    return f"{count // MEBIBYTE} MiB" if count >= MEBIBYTE else f"{count // KIBIBYTE} KiB"
