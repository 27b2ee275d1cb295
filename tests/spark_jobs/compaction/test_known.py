"""Which raw files are not inspected again."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.compaction.known import Known
from spark_jobs.storage import Entry, open_storage
from spark_jobs.store.delta import open_snapshot
from spark_jobs.store.schema import HOUR_US
from tests.support.spark.compacted import NOON
from tests.support.spark.compacting import HOUR, NEXT, Run, minutes
from tests.support.spark.metrics_files import write_file

pytestmark = pytest.mark.once


def entry_of(raw: Path, name: str) -> Entry:
    """A file as it is listed."""
    [entry] = [entry for entry in open_storage(str(raw)).files() if entry.name == name]
    return entry


def test_a_file_is_known_if_the_store_has_all_its_rows(run: Run, tmp_path: Path) -> None:
    """A file with rows of two hours is not, while one of the hours has not been compacted; a changed file is not."""
    raw, store = tmp_path / "raw", tmp_path / "store"
    write_file(raw / HOUR / "both.parquet", minutes(59, 61))
    write_file(raw / HOUR / "one.parquet", minutes(2))
    run(raw, store, start_us=NOON, end_us=NOON + HOUR_US)
    both, one = (entry_of(raw, f"{HOUR}/{name}.parquet") for name in ("both", "one"))
    known = Known(open_snapshot(open_storage(str(store))), {})
    assert (known.has(one, NOON), known.has(both, NOON)) == (True, False)
    assert not known.has(replace(one, size=one.size + 1), NOON)
    assert run(raw, store).hours == 1
    known = Known(open_snapshot(open_storage(str(store))), {})
    assert known.has(both, NOON)


def test_other_hours_are_left_alone(run: Run, two_hours: tuple[Path, Path]) -> None:
    """A late file of one hour: only that hour is built again, from all its files, and the summary counts every file."""
    raw, store = two_hours
    shutil.copy(raw / NEXT / "b.parquet", raw / NEXT / "copy.parquet")
    done = run(raw, store)
    assert (done.hours, done.rows, done.files, done.duplicates) == (1, 1, 3, 1)
