"""The files that a bench is told to write."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench import callgrind, journal, memory, page, run

pytestmark = pytest.mark.once


def bench(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the bench on a terminal that is wide enough for its messages."""
    command = [sys.executable, script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"COLUMNS": "400"})


@pytest.mark.parametrize(
    ("script", "option"),
    [
        (run.__file__, "--json"),
        (run.__file__, "--page"),
        (run.__file__, "--markdown"),
        (memory.__file__, "--json"),
        (callgrind.__file__, "--json"),
        (journal.__file__, "--json"),
    ],
)
@pytest.mark.parametrize(("file", "why"), [("none/a", "there is no folder"), ("", "is a folder")])
def test_file_that_cannot_be_written(tmp_path: Path, script: str, option: str, file: str, why: str) -> None:
    """A file that cannot be written is refused before anything is measured."""
    result = bench(script, option, str(tmp_path / file))
    assert result.returncode == 2
    assert why in result.stderr
    assert result.stdout == ""


def test_page_that_cannot_be_written(tmp_path: Path) -> None:
    """A page that cannot be written is refused, and nothing is left of trying."""
    data = tmp_path / "data.json"
    data.write_text("{}")
    assert "there is no folder" in bench(page.__file__, str(data), str(tmp_path / "none" / "a.html")).stderr
    assert "is not what run.py" in bench(page.__file__, str(data), str(tmp_path / "a.html")).stderr
    assert list(tmp_path.iterdir()) == [data]
