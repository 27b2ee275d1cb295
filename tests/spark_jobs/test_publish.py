"""The files of a report."""

from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.comparison.compare import with_comparison
from spark_jobs.publish import PAGE, PICTURE, publish
from spark_jobs.storage import StorageError, open_storage
from tests.support.spark.sample_result import sample_result

pytestmark = pytest.mark.once


def test_nothing_of_an_earlier_report_stays(tmp_path: Path) -> None:
    """A report without a baseline removes the comparison of an earlier report."""
    out = open_storage(str(tmp_path))
    before, after = sample_result("before"), sample_result("after", better=True)
    publish([before, with_comparison(before, after)], out)
    assert (tmp_path / "tables" / "comparison.csv").exists()
    assert (tmp_path / PICTURE).exists()
    (tmp_path / "tables" / "mine.csv").touch()
    alone = {name: table for name, table in after.tables.items() if name != "comparison"}
    publish([replace(after, tables=alone)], out)
    left = {path.name for path in (tmp_path / "tables").iterdir()}
    assert not {"comparison.csv", "comparison.parquet"} & left
    assert {"mine.csv", "totals.csv", "totals.parquet"} <= left
    assert not (tmp_path / PICTURE).exists()
    assert (tmp_path / PAGE).exists()


def test_a_report_that_fails_is_not_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a part cannot be written, no page of an earlier report stands beside the new parts."""
    out = open_storage(str(tmp_path))
    publish([sample_result("before")], out)
    write = out.write

    def full(name: str, data: bytes) -> None:
        if name == PAGE:
            raise StorageError(f"{name} cannot be written: no space left")
        write(name, data)

    monkeypatch.setattr(out, "write", full)
    with pytest.raises(StorageError):
        publish([sample_result("after")], out)
    assert not (tmp_path / PAGE).exists()
