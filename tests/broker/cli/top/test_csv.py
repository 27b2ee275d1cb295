"""CSV of `sluice top`: the files that it appends to, and how it writes names."""

import csv
from pathlib import Path

import pytest

from broker.cli.top.csv import as_csv
from broker.cli.top.table import printable
from tests.support.broker.top import answer, invoke, row

pytestmark = pytest.mark.once


def test_csv_file(path: Path, tmp_path: Path) -> None:
    """`--out` appends rows with their time to a file, below one line of names, and prints no table."""
    file = tmp_path / "top.csv"
    for _ in range(2):
        assert invoke("--socket", path, "--out", file) == (0, "", "")
    with file.open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert len(rows) == 6
    (slow, _) = [row for row in rows if row["client_id"] == "slow"]
    assert (slow["broker"], slow["mqueue_len"], slow["connected"], slow["window_len"]) == ("test", "8", "true", "32")
    assert slow["time"].startswith("20")
    assert slow["time"].endswith("+00:00")


def test_csv_of_something_else(path: Path, tmp_path: Path) -> None:
    """`--out` leaves a file alone that does not begin as this list does."""
    file = tmp_path / "mine.txt"
    file.write_text("mine")
    status, out, err = invoke("--socket", path, "--out", file)
    assert (status, out) == (1, "")
    assert err == f"sluice: {file}: it does not begin as a list of sessions does: write to another file\n"
    assert file.read_text() == "mine"
    invoke("--socket", path, "--out", tmp_path / "sessions.csv")
    assert "as a list of groups does" in invoke("groups", "--socket", path, "--out", tmp_path / "sessions.csv")[2]


def test_csv_cannot_be_written(path: Path, tmp_path: Path) -> None:
    """The command names a file that it cannot write, with the reason."""
    status, _, err = invoke("--socket", path, "--out", tmp_path)
    assert (status, err) == (1, f"sluice: {tmp_path}: Is a directory\n")


@pytest.mark.parametrize("name", ["=1", "+1", "-1", "@a", "\t=1", "  =1", "＝1", "=1\r\n,2"])
def test_formulas(name: str) -> None:
    """A name that a spreadsheet would take for a formula gets an apostrophe in front and stays in its cell."""
    (line,) = as_csv(answer(row(name)), head=False).splitlines()
    ((_, _, cell, *rest),) = csv.reader([line])
    assert cell == f"'{printable(name)}" or not cell.lstrip().startswith(tuple("=+-@＝"))
    assert len(rest) == 18
    assert f'"{cell}"' in line


@pytest.mark.parametrize("name", ["a", "a=1", 'a"b', "a;b,c", "ä漢", "10-20"])
def test_other_names(name: str) -> None:
    """Other names are written as they are."""
    ((_, _, cell, *_),) = csv.reader(as_csv(answer(row(name)), head=False).splitlines())
    assert cell == name
