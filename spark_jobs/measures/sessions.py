"""Merges the hours of each session: one row per session, with the columns for its measures."""

from typing import Final

import numpy as np
import pyarrow as pa

from spark_jobs.arrays import Groups, ints, total_of
from spark_jobs.metrics import DROP_REASONS, GATE_REASONS, QOS, drop_column

KEY: Final = ("broker", "client_id", "session_started_us")
_OVERLAP_PER_CENT: Final = 5  # tolerance of the sum of an hour's intervals over the time that they span

_BY_QOS: Final = ("offered", "sent", "dropped", "received")
_SUMS: Final = (
    *(f"{name}_qos{q}" for name in _BY_QOS for q in QOS),
    "rows",
    "duration_us",
    "connected_us",
    "received_bytes",
    "window_full_us",
    "window_bytes_full_us",
    "rate_limited_us",
    "congested_us",
    "reading_paused_us",
    "publish_throttled_us",
    "publish_paced_us",
    "paced_for_us",
    "publish_parked_us",
    "publish_refused",
    "publish_parked",
    "publish_paged",
    "publish_discarded",
    "stalled_window",
    "slow_consumer",
    "starved_rows",
    "inverted_qos0",
    "blocked_rows",
    "books_off_rows",
    "reasons_off_rows",
)
_MAXIMA: Final = ("mqueue_max", "mailbox_max", "window_limit")
CLOCKS: Final = ("window_full", "window_bytes_full", "rate_limited", "congested")


_ADDED: Final = (*_SUMS, "gated", *(f"dropped_{reason}" for reason in DROP_REASONS), "overlong_hours", *_BY_QOS)
_NAMES: Final = (*KEY, "hour_us", "listener", "topic_group", *_ADDED, *_MAXIMA)
_GATED: Final = tuple(f"gated_{reason}" for reason in GATE_REASONS)
_DROPPED: Final = {
    reason: tuple(name for qos in QOS if (name := drop_column(reason, qos)) is not None) for reason in DROP_REASONS
}


def of_hours(rows: pa.Table) -> pa.Table:
    """One row for each session and hour, with the columns of `per_session` and hour_us.

    Args:
        rows: rows by `store.schema.SESSION_COLUMNS`.
    """
    # In floating point, because whole numbers would overflow. An interval belongs to the hour in which it ends.
    span = ints(rows, "last_us") - ints(rows, "first_us")
    overlong = ints(rows, "duration_us") * 100.0 > span * (100.0 + _OVERLAP_PER_CENT)
    computed = {
        "gated": total_of(rows, _GATED),
        **{f"dropped_{reason}": total_of(rows, names) for reason, names in _DROPPED.items()},
        "overlong_hours": overlong.astype(np.int64),
        **{name: total_of(rows, [f"{name}_qos{q}" for q in QOS]) for name in _BY_QOS},
    }
    kept = (*KEY, "hour_us", "listener", "topic_group", *_SUMS, *_MAXIMA)
    columns = {name: rows[name].combine_chunks() for name in kept} | {
        name: pa.array(values) for name, values in computed.items()
    }
    return pa.table(columns).select(_NAMES)


def per_session(hours: pa.Table) -> pa.Table:
    """One row per session, sorted by key: topic_group, listener (of its last hour), sums and maxima, offered, sent,
    dropped and received over all QoS, gated, dropped_<reason>, and the number of hours with overlapping intervals.

    Args:
        hours: rows of `of_hours`, or of this function.
    """
    groups = Groups(hours, KEY, ["hour_us"])
    columns = groups.keys() | {name: groups.last(name) for name in ("hour_us", "listener", "topic_group")}
    columns |= {name: pa.array(groups.sum(ints(hours, name))) for name in _ADDED}
    columns |= {name: pa.array(groups.max(ints(hours, name))) for name in _MAXIMA}
    return pa.table(columns).select(_NAMES)
