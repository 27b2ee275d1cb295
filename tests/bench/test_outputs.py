"""The files that a bench is told to write."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench import callgrind, journal, memory, page, run
from tests.bench.invoked import invoked

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("main", "option"),
    [
        (run.main, "--json"),
        (run.main, "--page"),
        (run.main, "--markdown"),
        (memory.main, "--json"),
        (callgrind.main, "--json"),
        (journal.main, "--json"),
    ],
)
@pytest.mark.parametrize(("file", "why"), [("none/a", "there is no folder"), ("", "is a folder")])
def test_file_that_cannot_be_written(
    tmp_path: Path, main: Callable[..., None], option: str, file: str, why: str
) -> None:
    """A file that cannot be written is refused before anything is measured."""
    result = invoked(main, option, str(tmp_path / file))
    assert result.exit_code == 2
    assert why in result.stderr
    assert result.stdout == ""


def test_page_that_cannot_be_written(tmp_path: Path) -> None:
    """A page that cannot be written is refused, and nothing is left of trying."""
    data = tmp_path / "data.json"
    data.write_text("{}")
    assert "there is no folder" in invoked(page.main, str(data), str(tmp_path / "none" / "a.html")).stderr
    assert "is not what run.py" in invoked(page.main, str(data), str(tmp_path / "a.html")).stderr
    assert list(tmp_path.iterdir()) == [data]
