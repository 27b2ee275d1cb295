"""Writing result tables."""

import csv
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs import tables
from spark_jobs.errors import ReportError

pytestmark = pytest.mark.once

HOSTILE = 'comma, "quote"\r\nnew line; =1+1'


def test_csv_keeps_hostile_text(tmp_path: Path) -> None:
    """Commas, quotes and line ends come back as they were; null is empty; times end in Z."""
    noon = datetime(2026, 11, 21, 12, tzinfo=UTC)
    table = pa.table({"id": [HOSTILE, None], "at": [noon, None], "n": [1.5, None], "yes": [True, False]})
    (tmp_path / tables.FOLDER).mkdir()
    tables.write_table(table, tmp_path, "t")
    with (tmp_path / "tables" / "t.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["id", "at", "n", "yes"],
        [HOSTILE, "2026-11-21T12:00:00Z", "1.5", "true"],
        ["", "", "", "false"],
    ]
    assert pq.read_table(tmp_path / "tables" / "t.parquet").equals(table)


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    """When writing fails, the old file stays and nothing is left beside it."""
    path = tmp_path / "x.csv"
    path.write_text("old")

    def fail(beside: Path) -> None:
        beside.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        tables.write_whole(path, fail)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_splitting_parts_windows_and_total() -> None:
    """The row with a null window is the total; both get the run's name; windows are in order of time."""
    table = pa.table({"window_us": pa.array([60_000_000, None, 0], pa.int64()), "n": [2, 3, 1]})
    windows, total = tables.split(table, "a", ())
    assert windows.column_names == ["run", "window_start", "n"]
    assert windows["n"].to_pylist() == [1, 2]
    assert windows["window_start"].to_pylist()[1] == datetime(1970, 1, 1, 0, 1, tzinfo=UTC)
    assert total.to_pylist() == [{"run": "a", "n": 3}]


def test_the_output_folder_is_made_and_tried(tmp_path: Path) -> None:
    """A new folder is made; nothing of the trial is left."""
    tables.prepare_folder(tmp_path / "a" / "b")
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["tables"]


def test_an_output_folder_that_cannot_be_is_an_error(tmp_path: Path) -> None:
    """The message names the folder and the reason."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportError, match="cannot be written to"):
        tables.prepare_folder(tmp_path / "file" / "out")
    with pytest.raises(ReportError, match="--out /proc/nothing"):
        tables.prepare_folder(Path("/proc/nothing"))
