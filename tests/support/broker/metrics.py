"""Reads exported metrics, and checks that their counters reconcile."""

import contextlib
from collections import defaultdict
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Row = dict[str, Any]

DROP_REASONS = ("queue_full", "expired", "too_large", "session_ended", "not_permitted", "aged")


def metrics_files(directory: Path) -> list[Path]:
    """The files that Spark would read: nothing below `_pending`, where a folder is named like the file it becomes."""
    found = ((path, path.relative_to(directory).parts) for path in directory.rglob("*.parquet"))
    return sorted(path for path, parts in found if not any(part.startswith(("_", ".")) for part in parts))


def read_rows(directory: Path) -> list[Row]:
    """The rows of all sessions, each one's in order; also those that are not in a metrics file yet."""
    names = ("client_id", "session_started", "interval_end", "ended")
    return sorted(sessions_of(_all_rows(directory)), key=lambda row: [row[name] for name in names])


def group_rows(directory: Path, name: str) -> list[Row]:
    """The rows of one group, `$share/group/filter`, in order."""
    rows = [row for row in _all_rows(directory) if not row["client_id"] and row["share_groups"] == [name]]
    return sorted(rows, key=lambda row: row["interval_end"])


def _all_rows(directory: Path) -> list[Row]:
    rows: list[Row] = []
    files = metrics_files(directory)
    for path in files:
        rows += pq.ParquetFile(path).read().to_pylist()
    made = {path.name for path in files}
    for path in directory.glob("_pending/*/*/*.arrow"):
        if path.parent.with_suffix(".parquet").name not in made:
            with contextlib.suppress(FileNotFoundError):  # it is in a file now
                rows += pa.ipc.open_file(path.read_bytes()).read_all().to_pylist()
    return rows


def sessions_of(rows: list[Row]) -> list[Row]:
    """Without the rows of groups, and of broker and interval."""
    return [row for row in rows if row["client_id"]]


def by_session(rows: list[Row]) -> dict[tuple[str, Any], list[Row]]:
    """Rows by client id and start of the session."""
    sessions: dict[tuple[str, Any], list[Row]] = defaultdict(list)
    for row in rows:
        sessions[row["client_id"], row["session_started"]].append(row)
    return dict(sessions)


def of_client(rows: list[Row], client_id: str) -> list[Row]:
    """The rows of one client, all its sessions."""
    return [row for row in rows if row["client_id"] == client_id]


def total(rows: list[Row], column: str) -> int:
    """The sum of one column."""
    return sum(row[column] for row in rows)


def check_books(rows: list[Row]) -> None:
    """Offered = sent + dropped + waiting, in every row and from row to row, QoS by QoS, and intervals without gaps.

    Nobody is connected for longer than an interval is.
    """
    for row in rows:
        for qos in range(3):
            _check_row(row, qos)
        assert row["interval_start"] <= row["interval_end"], row
        assert row["session_started"] <= row["interval_start"], row
        length = (row["interval_end"] - row["interval_start"]) // timedelta(microseconds=1)
        assert 0 <= row["connected_us"] <= length, row
    for session in by_session(rows).values():
        assert session[0]["interval_start"] == session[0]["session_started"]
        assert not any(row["ended"] for row in session[:-1])
        for row, following in pairwise(session):
            assert following["interval_start"] == row["interval_end"]
            for qos in range(3):
                assert following[f"waiting_start_qos{qos}"] == row[f"waiting_qos{qos}"], (row, following)
        if session[-1]["ended"]:
            assert not session[-1]["connected"]
            assert [session[-1][f"waiting_qos{qos}"] for qos in range(3)] == [0, 0, 0]


def _check_row(row: Row, qos: int) -> None:
    came = row[f"waiting_start_qos{qos}"] + row[f"offered_qos{qos}"]
    went = sum(row[f"{name}_qos{qos}"] for name in ("sent", "dropped", "superseded", "waiting"))
    assert came == went, (qos, row)
    dropped = sum(row[f"dropped_{reason}_qos{qos}"] for reason in DROP_REASONS)
    if qos == 0:
        dropped += row["dropped_offline_qos0_qos0"]
    assert dropped == row[f"dropped_qos{qos}"], (qos, row)
    if not row["client_id"]:
        return  # a group takes no times
    assert _values(row[f"wait_qos{qos}_buckets"]) == row[f"sent_qos{qos}"], (qos, row)
    if qos:
        assert _values(row[f"ack_qos{qos}_buckets"]) == row[f"acknowledged_qos{qos}"], (qos, row)


def _values(histogram: list[int] | None) -> int:
    """How many values a histogram has counted."""
    return sum(entry // 256 for entry in histogram or [])
