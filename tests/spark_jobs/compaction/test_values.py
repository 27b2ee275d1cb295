"""The allowed values of a raw file, checked by its footer, or by its columns if the footer has no statistics."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.compaction.footers import inspect
from spark_jobs.compaction.values import MOST_COUNTED, MOST_US
from spark_jobs.storage.local import LocalStorage
from spark_jobs.store.taken import FileRecord
from tests.support.spark.metrics_files import Row, arrow_schema, at, histogram, row, write_file

DAY = 86_400
FAR = 9_223_372_036_854_775_807
"""The last moment in microseconds with 64 bits: some 290,000 years in the future."""


def nullable(schema: pa.Schema) -> pa.Schema:
    """The same columns, all nullable."""
    return pa.schema([field.with_nullable(True) for field in schema], schema.metadata)


def judged(path: Path) -> FileRecord:
    """The record of the only file of a folder."""
    storage = LocalStorage(path.parent)
    (entry,) = storage.files()
    return inspect(storage, entry)


def stated(path: Path, table: pa.Table) -> None:
    """Write a file as usual."""
    pq.write_table(table, path)


def unstated(path: Path, table: pa.Table) -> None:
    """Write a file without statistics in its footer, in several row groups."""
    pq.write_table(table, path, write_statistics=False, row_group_size=2)


WRONG: list[tuple[Row, str]] = [
    ({"broker": None}, "broker has nulls (1); expected a string in each row"),
    ({"connected": None}, "connected has nulls (1); expected a bool in each row"),
    ({"interval_end": None}, "interval_end has nulls (1); expected a timestamp in each row"),
    ({"received_bytes": None}, "received_bytes has nulls (1)"),
    ({"offered_qos0": -1}, "offered_qos0 is -1; expected 0 to 1,099,511,627,776"),
    ({"offered_qos1": 1 << 62}, "offered_qos1 is 4,611,686,018,427,387,904; expected 0 to"),
    ({"mqueue_max": MOST_COUNTED + 1}, "mqueue_max is 1,099,511,627,777; expected 0 to"),
    ({"congested_us": MOST_US + 1}, "congested_us is 281,474,976,710,657; expected 0 to 281,474,976,710,656"),
    ({"protocol_version": 1000}, "protocol_version is 1,000; expected 0 to 255"),
    ({"ack_qos1_buckets": [1 << 62]}, "an entry of ack_qos1_buckets is 4,611,686,018,427,387,904; expected 0 to"),
    ({"ack_qos1_buckets": [0] * 31 + [-5]}, "an entry of ack_qos1_buckets is -5; expected 0 to 281,474,976,710,911"),
    ({"interval_end": FAR}, "interval_end is 9,223,372,036,854,775,807 microseconds after 1970; expected a time"),
    ({"interval_start": -FAR}, "interval_start is -9,223,372,036,854,775,807 microseconds after 1970; expected a"),
    ({"interval_end": datetime(9999, 12, 31, tzinfo=UTC)}, "interval_end is 9999-12-31T00:00:00+00:00; expected"),
    ({"session_started": datetime(1970, 1, 1, tzinfo=UTC)}, "session_started is 1970-01-01T00:00:00+00:00; expected"),
    ({"interval_end": at(10 + 2 * DAY + 1)}, "interval_end is 2026-11-21T12:00:10+00:00 to 2026-11-23T12:00:11+00:00;"),
    ({"interval_start": at(-3300 * DAY)}, "interval_start is 2017-11-08T12:00:00+00:00, the end 2026-11-21"),
]


@pytest.mark.parametrize("write", [stated, unstated])
@pytest.mark.parametrize(("values", "message"), WRONG)
def test_what_cannot_be_is_said(
    tmp_path: Path, write: Callable[[Path, pa.Table], None], values: dict[str, Any], message: str
) -> None:
    """A file with one invalid value is skipped; the message has the column, the value, and what was expected."""
    rows = [row("a"), row("b") | values, row("c")]
    write(tmp_path / "a.parquet", pa.Table.from_pylist(rows, nullable(arrow_schema())))
    found = judged(tmp_path / "a.parquet")
    assert found.status == "impossible"
    assert found.why.startswith(f"impossible values: {message}")
    assert (found.rows, found.hours) == (3, ())


@pytest.mark.parametrize("write", [stated, unstated])
def test_the_most_that_can_be_is_right(tmp_path: Path, write: Callable[[Path, pa.Table], None]) -> None:
    """Two days in one file, a year's interval, the largest numbers, null or empty histograms are read."""
    rows = [
        row("a", offered_qos0=MOST_COUNTED, sent_qos0=MOST_COUNTED, publish_parked_us=MOST_US, protocol_version=255),
        row("b", length=365 * DAY, ack_qos1_buckets=histogram([5])),
        row("c", end=10 + 2 * DAY, ack_qos1_buckets=[]),
    ]
    path = write_file(tmp_path / "a.parquet", rows)
    write(path, pq.read_table(path))
    found = judged(path)
    assert (found.status, found.why) == ("read", "")
    assert len(found.hours) == 49


@pytest.mark.parametrize("write", [stated, unstated])
def test_a_file_without_rows_is_read(tmp_path: Path, write: Callable[[Path, pa.Table], None]) -> None:
    """It is of no hour."""
    path = tmp_path / "a.parquet"
    write(path, arrow_schema().empty_table())
    assert (judged(path).status, judged(path).hours) == ("read", ())
