"""FC-29: a journal that is damaged at some byte. `make damage` tries every byte."""

import random
import shutil
import signal
from pathlib import Path

import pytest
from typer.testing import CliRunner

from broker.cli.main import app
from broker.storage.database import NAME, PAGE, StorageError
from tests.durability.damage import LOG, Case, cases, frames, judge, live, make_journal, run

CASES = 150

LEAF = b"\x0d\0\0"
"""Begins a page of SQLite that holds rows; the number of these rows follows."""


@pytest.fixture(params=[signal.SIGTERM, signal.SIGKILL])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A journal of a broker that was ended in this way."""
    return make_journal(tmp_path / "broker", request.param)


def test_it_is_refused_or_whole(journal: Path) -> None:
    """With one byte changed, or the file cut there, the broker reports the damage, or starts with all frames."""
    ends, wrong = run(journal, random.Random(1).sample(list(cases(journal)), CASES))
    assert wrong == []
    assert ends["refused"] > CASES // 20  # most bytes of so small a journal, with pages of 16 KiB, are unused
    assert ends["whole"] > 0


def test_what_the_broker_refuses_the_tools_find(journal: Path, tmp_path: Path) -> None:
    """`sluice store check` finds the damage that makes a start fail, and no tool ends with a traceback."""
    whole = frames(shutil.copytree(journal, tmp_path / "whole"))
    rng = random.Random(2)
    head = [Case(NAME, at, 0xFF) for at in (0, 20, 50, 63, 70, 99, 104, 4_000, 4_060)]
    for number, case in enumerate([*head, *rng.sample(list(cases(journal)), 15)]):
        copy = shutil.copytree(journal, tmp_path / f"copy-{number}")
        case.do(copy)
        commands = [("check", copy), ("stats", copy), ("salvage", copy, tmp_path / f"rest-{number}")]
        results = [CliRunner().invoke(app, ("store", *map(str, command))) for command in commands]
        assert all(isinstance(result.exception, SystemExit | None) for result in results), case
        if judge(case, copy, whole) == "refused":
            assert results[0].exit_code == 1, (case, results[0].output)


def test_a_row_that_is_missing(tmp_path: Path) -> None:
    """A journal whose last frame SQLite does not find any more is refused, though all others are whole."""
    journal = make_journal(tmp_path / "broker", signal.SIGTERM)
    content = (journal / NAME).read_bytes()
    leaf = content.index(LEAF, PAGE)
    rows = int.from_bytes(content[leaf + 3 : leaf + 5], "big")
    assert rows == len(frames(shutil.copytree(journal, tmp_path / "whole")))
    Case(NAME, leaf + 4, rows ^ (rows - 1)).do(journal)
    with pytest.raises(StorageError, match="on page 2: the journal is damaged"):
        frames(journal)


def test_salvage_of_a_damaged_log(tmp_path: Path) -> None:
    """`salvage` copies the commits before the damage in the write-ahead log, and a broker starts with the copy."""
    journal = make_journal(tmp_path / "broker", signal.SIGKILL, checkpoint=1_000_000)
    Case(LOG, live(journal / LOG) // 2, 0xFF).do(journal)
    result = CliRunner().invoke(app, ("store", "salvage", str(journal), str(tmp_path / "rest")))
    assert result.exit_code == 1
    assert "the write-ahead log is damaged after byte" in result.output
    assert "the frames behind that are lost" in result.output
    assert len(frames(tmp_path / "rest")) > 1
