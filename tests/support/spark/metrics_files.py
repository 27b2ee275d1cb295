"""Writes metrics files as a broker exports them, from literal rows of sessions."""

import json
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from broker.telemetry.interval_row import interval_row
from broker.telemetry.schema import metrics_schema
from tests.support.session import buckets

SCHEMA: dict[str, Any] = json.loads(files("spark_jobs").joinpath("metrics_schema.json").read_text(encoding="utf-8"))
NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
BUCKETS: int = SCHEMA["histogram_buckets"]

_DEFAULTS: dict[str, Any] = {"int32": 0, "int64": 0, "bool": False, "histogram": None, "strings": ()}

Row = dict[str, Any]


def at(seconds: float) -> datetime:
    """The time this many seconds after noon of the tests' day."""
    return NOON + timedelta(seconds=seconds)


def row(client_id: str = "a", end: float = 10, length: float = 10, **values: Any) -> Row:
    """One row with the given values and 0 elsewhere; waiting deliveries are set so that the counters reconcile.

    Who is connected was so for the whole interval, unless `connected_us` says otherwise.

    Args:
        client_id: the session's client id.
        end: interval_end in seconds after noon.
        length: seconds from interval_start to interval_end.
        values: any columns.
    """
    made: Row = {field["name"]: _DEFAULTS.get(field["type"]) for field in SCHEMA["fields"]}
    made |= {
        "broker": "b1",
        "client_id": client_id,
        "session_started": NOON,
        "listener": "tcp",
        "protocol_version": 5,
    }
    made |= {"connected": True, "interval_start": at(end - length), "interval_end": at(end)}
    unknown = values.keys() - made.keys()
    assert not unknown, f"no such columns: {unknown}"
    made |= values
    if made["connected"] and "connected_us" not in values:
        made["connected_us"] = max(0, (made["interval_end"] - made["interval_start"]) // timedelta(microseconds=1))
    for qos in range(3):
        if f"waiting_qos{qos}" not in values:
            came = made[f"waiting_start_qos{qos}"] + made[f"offered_qos{qos}"]
            gone = sum(made[f"{name}_qos{qos}"] for name in ("sent", "dropped", "superseded"))
            made[f"waiting_qos{qos}"] = came - gone
    return made


def group_row(name: str, end: float = 10, length: float = 10, **values: Any) -> Row:
    """One row of a group of a shared subscription, as `row` makes those of sessions."""
    nobody = {"listener": "", "protocol_version": 0, "connected": False, "session_started": at(end - length)}
    return row("", end, length, share_groups=[name], **nobody, **values)


def histogram(values: Iterable[int]) -> list[int]:
    """The histogram of some values, as the exporter computes it."""
    counts = buckets.counts_of(values)
    return [counts[bucket] * 256 + bucket for bucket in sorted(counts)]


def counts_of(values: Iterable[int]) -> list[int]:
    """The same histogram as counts of all buckets."""
    counts = [0] * BUCKETS
    for bucket, number in buckets.counts_of(values).items():
        counts[bucket] = number
    return counts


def arrow_schema(name: str | None = None, version: str | None = None, interval: float = 10) -> pa.Schema:
    """The file schema, with name, version and interval in its metadata; other ones to order."""
    names = {b"sluice.schema": name or SCHEMA["name"], b"sluice.schema_version": version or str(SCHEMA["version"])}
    schema = metrics_schema().of_file(interval)
    return schema.with_metadata({**schema.metadata, **names})


def usual_interval(rows: Iterable[Row]) -> float:
    """The usual length of the rows' intervals, in seconds."""
    lengths = [made["interval_end"] - made["interval_start"] for made in rows]
    return median(lengths).total_seconds() if lengths else 10


def of_intervals(rows: Iterable[Row]) -> list[Row]:
    """The rows of broker and interval for rows of sessions, as the exporter makes them."""
    exports: dict[tuple[str, datetime], list[Row]] = defaultdict(list)
    for made in rows:
        exports[made["broker"], made["interval_end"]].append(made)
    tables = [pa.Table.from_pylist(export, metrics_schema().sessions) for export in exports.values()]
    return [whole for table in tables for whole in interval_row(table, metrics_schema()).to_pylist()]


def write_file(
    path: Path, rows: Iterable[Row], schema: pa.Schema | None = None, compression: str = "zstd"
) -> Path:
    """Write rows of sessions, and those of broker and interval, as one file; the schema may be another one."""
    rows = list(rows)
    schema = schema or arrow_schema(interval=usual_interval(rows))
    table = pa.Table.from_pylist([*of_intervals(rows), *rows], schema)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression=compression, write_page_checksum=True)
    return path


def folder_of(root: Path, moment: datetime) -> Path:
    """The date and hour folder of a moment."""
    utc = moment.astimezone(UTC)
    return root / f"date={utc:%Y-%m-%d}" / f"hour={utc:%H}"


_sequence = count()


def write_metrics(root: Path, rows: Iterable[Row]) -> list[Path]:
    """Write rows below `root` as the exporter lays them out, one file per hour; returns the files."""
    hours: dict[Path, list[Row]] = {}
    for made in rows:
        hours.setdefault(folder_of(root, made["interval_end"]), []).append(made)
    return [write_file(folder / f"b1-{next(_sequence)}.parquet", part) for folder, part in hours.items()]
