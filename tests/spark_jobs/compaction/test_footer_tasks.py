"""Footers that Spark's workers read."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs.compaction import compact as compaction
from spark_jobs.compaction import footer_tasks
from spark_jobs.compaction.footer_tasks import inspected_by
from spark_jobs.compaction.survey import inspected_here
from spark_jobs.storage import open_storage
from tests.support.spark.compacting import HOUR, NEXT, Run, minutes, write_two_hours
from tests.support.spark.metrics_files import write_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_workers_find_what_this_process_finds(
    spark: "SparkSession", run_spark: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Valid, truncated and empty files, and one whose name is not text: the same records, and the same compaction."""
    raw = tmp_path / "raw metrics"
    write_two_hours(raw)
    write_file(raw / NEXT / "c d%20.parquet", minutes(62, 63))
    (raw / HOUR / "cut.parquet").write_bytes(b"PAR1" + b"x" * 50)
    (raw / HOUR / "empty.parquet").touch()
    Path(os.fsdecode(os.fsencode(raw / HOUR) + b"/\xff.parquet")).write_bytes(b"PAR1")
    storage = open_storage(str(raw))
    entries = list(storage.files())
    monkeypatch.setattr(footer_tasks, "TASK_FILES", 2)
    here = sorted(inspected_here(storage, entries), key=lambda file: file.name)
    assert inspected_by(spark, storage, entries) == here
    monkeypatch.setattr(compaction, "MANY_FILES", 3)
    done = run_spark(raw, tmp_path / "store")
    assert (done.hours, done.rows, done.skipped) == (2, 5, 3)


def test_workers_that_do_not_see_the_folder(spark: "SparkSession", tmp_path: Path) -> None:
    """The job fails, and does not skip every file."""
    write_two_hours(tmp_path / "raw")
    storage = open_storage(str(tmp_path / "raw"))
    entries = list(storage.files())
    (tmp_path / "raw").rename(tmp_path / "elsewhere")
    with pytest.raises(Exception, match="raw: does not exist; expected the folder of the broker's metrics"):
        inspected_by(spark, storage, entries)
