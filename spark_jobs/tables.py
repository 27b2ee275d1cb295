"""Writing the result tables, each as one Parquet file and one CSV file, whole or not at all."""

import csv
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_jobs.errors import ReportError

FOLDER: Final = "tables"


def prepare_folder(out: Path) -> None:
    """Make the output folder and try it out, before any work is done.

    Raises:
        ReportError: it cannot be made or written to.
    """
    try:
        (out / FOLDER).mkdir(parents=True, exist_ok=True)
        write_whole(out / ".writable", lambda path: path.write_text("", encoding="utf-8"))
        (out / ".writable").unlink()
    except OSError as error:
        reason = error.strerror or str(error)
        raise ReportError(
            f"--out {out}: cannot be written to: {reason}; give a folder that may be written"
        ) from error


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Have `write` make a file beside `path`, and put it in place once it is complete."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write(beside)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def write_table(table: pa.Table, out: Path, name: str) -> None:
    """Write OUT/tables/<name>.parquet and .csv."""
    folder = out / FOLDER
    write_whole(folder / f"{name}.parquet", lambda path: pq.write_table(table, path, compression="zstd"))
    text = to_csv(table)
    write_whole(folder / f"{name}.csv", lambda path: path.write_text(text, encoding="utf-8", newline=""))


def to_csv(table: pa.Table) -> str:
    """RFC 4180 with a header; times in ISO 8601 with Z, nothing for null."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(table.column_names)
    for row in table.to_pylist():
        writer.writerow([_csv_value(value) for value in row.values()])
    return text.getvalue()


def _csv_value(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, bool):
        return "true" if value else "false"
    return value


def split(table: pa.Table, label: str, sort: Sequence[str]) -> tuple[pa.Table, pa.Table]:
    """Part a table with a window_us column into the rows per window and the rows in all.

    Both get `run` (the label) as first column; the first has window_start instead of window_us. The first
    is sorted by time and `sort`, the second by `sort`; without, it keeps its order.
    """
    is_total = pc.is_null(table["window_us"])
    per_window = table.filter(pc.invert(is_total))
    in_all = table.filter(is_total).drop_columns(["window_us"])
    start = per_window["window_us"].cast(pa.timestamp("us", tz="UTC"))
    per_window = per_window.drop_columns(["window_us"]).add_column(0, "window_start", start)
    keys = [(name, "ascending") for name in sort]
    if keys:
        in_all = in_all.sort_by(keys)
    per_window = per_window.sort_by([("window_start", "ascending"), *keys])
    return _with_run(per_window, label), _with_run(in_all, label)


def _with_run(table: pa.Table, label: str) -> pa.Table:
    return table.add_column(0, "run", pa.array([label] * table.num_rows, pa.string()))
