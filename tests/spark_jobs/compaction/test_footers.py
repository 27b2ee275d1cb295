"""Footers with flipped bits: the file is named, and the process survives."""

import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.compaction.footers import FOREIGN, IMPOSSIBLE, TRUNCATED, UNREADABLE, inspect
from spark_jobs.storage import Entry, open_storage
from spark_jobs.store.taken import NEWER, READ, FileRecord
from tests.support.spark.metrics_files import arrow_schema, at, row, write_file

FLIPS = 400
INT64, BYTE_ARRAY = b"\x15\x04\x195", b"\x15\x0c\x195"  # a column's struct: its type, then its encodings


def judged(path: Path) -> FileRecord:
    """The record of a file."""
    status = path.stat()
    return inspect(open_storage(str(path.parent)), Entry(path.name, status.st_size, status.st_mtime_ns // 1000))


def footer_of(path: Path) -> bytes:
    """A file's footer."""
    data = path.read_bytes()
    return data[-8 - int.from_bytes(data[-8:-4], "little") : -8]


def table(**columns: Any) -> pa.Table:
    """A row of metrics, with some columns added behind the others."""
    made = pa.Table.from_pylist([row()], arrow_schema())
    for name, values in columns.items():
        made = made.append_column(name.removesuffix("_again"), pa.array(values))
    return made


def with_type(data: bytes, column: bytes, kind: bytes) -> bytes:
    """A file whose only row group has another type for a column of whole numbers."""
    name = data.rindex(column)  # the last occurrence is in the row group
    place = data.rindex(INT64, 0, name)
    return data[:place] + kind + data[place + len(INT64) :]


def test_a_flipped_bit_stops_nothing(tmp_path: Path) -> None:
    """With any flipped bit in the footer the file is read or named."""
    path = write_file(tmp_path / "x.parquet", [row(end=10 * (n + 1), offered_qos0=n, sent_qos0=n) for n in range(3)])
    whole, footer = path.read_bytes(), len(footer_of(path))
    chance = random.Random(1)
    seen = set()
    for _ in range(FLIPS):
        data = bytearray(whole)
        data[chance.randrange(len(data) - 8 - footer, len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
        file = judged(path)
        seen.add(file.status)
        assert file.why or file.status == READ
    assert {READ, UNREADABLE, TRUNCATED} <= seen


def test_what_ends_the_process_in_pyarrow_does_not_here(tmp_path: Path) -> None:
    """A type that differs from the schema, on which pyarrow's column class aborts; a name that is not UTF-8."""
    path = write_file(tmp_path / "x.parquet", [row()])
    data = path.read_bytes()
    path.write_bytes(with_type(data, b"interval_end", BYTE_ARRAY))
    file = judged(path)
    assert (file.status, "does not match" in file.why) == (UNREADABLE, True)
    path.write_bytes(with_type(data, b"stalled_window", BYTE_ARRAY))
    assert judged(path).status == READ  # Spark finds it when it reads the column
    path.write_bytes(data.replace(b"interval_end", b"interval_\xe9nd"))
    assert judged(path).why.startswith("cannot be read: 'utf-8' codec can't decode byte 0xe9")


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    """A file whose name is not UTF-8 cannot be opened by Java and is skipped."""
    path = write_file(tmp_path / "x.parquet", [row()]).rename(tmp_path / os.fsdecode(b"b1-\xff\xfe.parquet"))
    file = judged(path)
    assert (file.status, os.fsencode(file.name)) == (UNREADABLE, b"b1-\xff\xfe.parquet")
    assert "its name is not UTF-8" in file.why


def test_a_file_that_goes_is_named(tmp_path: Path) -> None:
    """A file that is deleted between listing and inspection is skipped with the reason."""
    storage = open_storage(str(tmp_path))
    path = write_file(tmp_path / "x.parquet", [row()])
    [entry] = storage.files()
    path.unlink()
    file = inspect(storage, entry)
    assert (file.status, file.name) == (UNREADABLE, "x.parquet")
    assert file.why == "cannot be read: No such file or directory"


@pytest.mark.parametrize(
    ("names", "said"), [(("client_id_again",), "client_id and client_id"), (("Client_ID",), "client_id and Client_ID")]
)
def test_two_columns_of_one_name(tmp_path: Path, names: tuple[str, ...], said: str) -> None:
    """Spark ignores case, so it cannot tell the columns apart."""
    pq.write_table(table(**{name: ["x"] for name in names}), tmp_path / "x.parquet")
    file = judged(tmp_path / "x.parquet")
    assert file.status == FOREIGN
    assert f"columns {said}; expected names that differ in more than case" in file.why


@pytest.mark.parametrize("column", ["stalled_window", "pressed_rows"])
@pytest.mark.parametrize(("version", "newer"), [("1", ""), ("2", "schema version 2 is newer than 1, and ")])
def test_a_file_without_a_column_is_foreign(tmp_path: Path, column: str, version: str, newer: str) -> None:
    """A newer file is read only if it has all our columns, of sessions and of intervals."""
    for names, status in (((), READ if not newer else NEWER), ((column,), FOREIGN)):
        made = table().replace_schema_metadata(arrow_schema(version=version).metadata).drop_columns(list(names))
        pq.write_table(made, tmp_path / "x.parquet")
        assert judged(tmp_path / "x.parquet").status == status
    assert judged(tmp_path / "x.parquet").why == f"foreign schema: {newer}lacks 1 columns, the first is {column}"


def test_a_version_as_long_as_a_book_is_shortened(tmp_path: Path) -> None:
    """The message about a foreign file is one line, whatever its footer says."""
    odd = {"sluice.schema": "a\nb", "sluice.schema_version": "9" * 5000}
    pq.write_table(table().replace_schema_metadata(odd), tmp_path / "x.parquet")
    file = judged(tmp_path / "x.parquet")
    assert file.status == FOREIGN
    assert "a\\u000ab version 999" in file.why
    assert len(file.why) < 200


@pytest.mark.parametrize("hours", [0, 23, 25, 24 * 365 * 60])
def test_rows_that_are_later_than_their_file(tmp_path: Path, hours: int) -> None:
    """A clock that is wrong by a day or more makes impossible rows; a copy that lost its time is read."""
    path = write_file(tmp_path / "x.parquet", [row(end=3600)])
    os.utime(path, (0, at(3600 - 3600 * hours).timestamp()))
    file = judged(path)
    assert file.status == (IMPOSSIBLE if hours == 25 else READ)
    if hours == 25:
        assert "interval_end is 2026-11-21T13:00:00+00:00, but the file was written by 2026-11-20T12:00:00" in file.why


def test_rows_of_the_future(tmp_path: Path) -> None:
    """A file of 2098 is refused, also if its modification time is of that year."""
    path = write_file(tmp_path / "x.parquet", [row(end=72 * 365 * 86_400)])
    os.utime(path, (0, at(72 * 365 * 86_400).timestamp()))
    file = judged(path)
    assert (file.status, "but the file was written by 20" in file.why) == (IMPOSSIBLE, True)
