"""Footers with flipped bits: the file is named, and the process survives."""

import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.compaction.footers import FOREIGN, IMPOSSIBLE, TRUNCATED, UNREADABLE, damage_of, inspect
from spark_jobs.compaction.thrift import Chunk, DamagedError, row_groups
from spark_jobs.storage import Entry, open_storage
from spark_jobs.store.taken import NEWER, READ, FileRecord
from tests.support.spark.metrics_files import NOON, arrow_schema, at, row, write_file

FLIPS = 400
CODECS = {"zstd": READ, "snappy": READ, "gzip": READ, "lz4": READ, "none": READ, "brotli": UNREADABLE}
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
    """With any flipped bit in the footer the file is read or named, by `inspect` and by `damage_of`."""
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
        if file.status == READ:
            damage_of(open_storage(str(tmp_path)), file)
        else:
            assert file.why
    assert {READ, UNREADABLE, TRUNCATED} <= seen


def test_what_ends_the_process_in_pyarrow_does_not_here(tmp_path: Path) -> None:
    """A type that differs from the schema, on which pyarrow's column class aborts; a name that is not UTF-8."""
    path = write_file(tmp_path / "x.parquet", [row()])
    data = path.read_bytes()
    path.write_bytes(with_type(data, b"interval_end", BYTE_ARRAY))
    file = judged(path)
    assert (file.status, "does not match" in file.why) == (UNREADABLE, True)
    path.write_bytes(with_type(data, b"stalled_window", BYTE_ARRAY))
    file = judged(path)
    if file.status == READ:  # then it is found when the column is read
        file = damage_of(open_storage(str(tmp_path)), file) or file
    assert (file.status, "does not match" in file.why) == (UNREADABLE, True)
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


def test_codecs(tmp_path: Path) -> None:
    """A file that Spark cannot decompress is skipped; the message says what was expected."""
    for codec, status in CODECS.items():
        pq.write_table(table(), tmp_path / f"{codec}.parquet", compression=codec)
        assert judged(tmp_path / f"{codec}.parquet").status == status
    assert "its codec is BROTLI; expected zstd" in judged(tmp_path / "brotli.parquet").why


def test_what_a_footer_states(tmp_path: Path) -> None:
    """Lowest, highest and null values of whole numbers and times by row group are the same as pyarrow's."""
    made = pa.table(
        {
            "n": pa.array([3, None, -7, 1 << 40], pa.int64()),
            "i": pa.array([1, 2, 3, 4], pa.int32()),
            "t": pa.array([NOON, at(10), at(1), None], pa.timestamp("us", tz="UTC")),
            "s": ["a", "b", None, "d"],
            "l": [[1], [], None, [4, 5]],
        }
    )
    pq.write_table(made, tmp_path / "x.parquet", row_group_size=3, compression="gzip")
    first, second = row_groups(footer_of(tmp_path / "x.parquet"))
    assert [(chunk.nulls, chunk.low, chunk.high) for chunk in first] == [
        (1, -7, 3),
        (0, 1, 3),
        (0, int(NOON.timestamp()) * 1_000_000, int(at(10).timestamp()) * 1_000_000),
        (1, None, None),
        (2, 1, 1),
    ]
    assert second[0] == Chunk("GZIP", 1, 0, 1 << 40, 1 << 40)
    assert second[4] == Chunk("GZIP", 2, 0, 4, 5)


def test_what_is_no_footer() -> None:
    """Truncated bytes, numbers in place of a list, and unterminated structs are refused."""
    for data in (b"", b"\x15\x04", b"\x15\x04\x00", b"\x45\x04\x00", b"\x1c" * 99_999, b"\x1b\x00", b"\x19\xf1\xff"):
        with pytest.raises(DamagedError, match="footer is damaged"):
            row_groups(data)


def test_a_list_cannot_be_longer_than_its_footer() -> None:
    """A huge length from a flipped bit is refused before memory is allocated."""
    huge = b"\x49\xf7" + b"\xff" * 8 + b"\x7f\x00"  # field 4: a list of so many doubles
    with pytest.raises(DamagedError, match="a list of"):
        row_groups(huge)


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
