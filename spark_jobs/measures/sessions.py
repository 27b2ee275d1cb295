"""Merges the hours and sessions of each client: one row per client, with the columns for its measures.

**Due** is what was offered to a client less what it missed because it was away: what was dropped meanwhile, and what
still waits for it at the end (`datasets.raw.away_dropped` and `away_waiting`). To a client that never came nothing was
due.
"""

from typing import Final

import numpy as np
import pyarrow as pa

from spark_jobs.arrays import Groups, Ints, Mask, ints, total_of
from spark_jobs.metrics import DROP_REASONS, GATE_REASONS, QOS, drop_column

CLIENT: Final = ("broker", "client_id")
KEY: Final = (*CLIENT, "session_started_us")
_OVERLAP_PER_CENT: Final = 5  # tolerance of the sum of an hour's intervals over the time that they span

_BY_QOS: Final = ("offered", "sent", "dropped", "received", "waiting_start", "waiting", "away_dropped", "away_waiting")
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
_MAXIMA: Final = ("mqueue_max", "mailbox_max", "window_limit", "max_inflight")
CLOCKS: Final = ("window_full", "window_bytes_full", "rate_limited", "congested")


_ADDED: Final = (
    *_SUMS,
    "gated",
    *(f"dropped_{reason}" for reason in DROP_REASONS),
    "overlong_hours",
    "begun",
    *_BY_QOS,
)
_DUE: Final = ("due", *(f"due_qos{q}" for q in QOS))
_NAMES: Final = (*CLIENT, "hour_us", "listener", "client_prefix", *_ADDED, *_DUE, *_MAXIMA, "first_us", "last_us")
_GATED: Final = tuple(f"gated_{reason}" for reason in GATE_REASONS)
_DROPPED: Final = {
    reason: tuple(name for qos in QOS if (name := drop_column(reason, qos)) is not None) for reason in DROP_REASONS
}


def of_hours(rows: pa.Table) -> pa.Table:
    """One row for each session and hour, with the columns of `per_client`, session_started_us and hour_us.

    Args:
        rows: rows by `store.schema.SESSION_COLUMNS`.
    """
    # In floating point, because whole numbers would overflow. An interval belongs to the hour in which it ends.
    first = ints(rows, "first_us")
    span = ints(rows, "last_us") - first
    overlong = ints(rows, "duration_us") * 100.0 > span * (100.0 + _OVERLAP_PER_CENT)
    computed = {
        "gated": total_of(rows, _GATED),
        **{f"dropped_{reason}": total_of(rows, names) for reason, names in _DROPPED.items()},
        "overlong_hours": overlong.astype(np.int64),
        # The first row of a session begins with it.
        "begun": (first <= ints(rows, "session_started_us")).astype(np.int64),
        **{name: total_of(rows, [f"{name}_qos{q}" for q in QOS]) for name in _BY_QOS},
    }
    kept = (*KEY, "hour_us", "listener", "client_prefix", *_SUMS, *_MAXIMA, "first_us", "last_us")
    columns = {name: rows[name].combine_chunks() for name in kept} | {
        name: pa.array(values) for name, values in computed.items()
    }
    return pa.table(columns | _due(pa.table(columns))).select(("session_started_us", *_NAMES))


def per_client(hours: pa.Table) -> pa.Table:
    """One row per client, sorted by key: client_prefix, listener (of its last hour), sums and maxima, those over all
    QoS, due, gated, dropped_<reason>, the sessions that began, and hours with overlapping intervals.

    Args:
        hours: rows of `of_hours`, or of this function.
    """
    groups = Groups(hours, CLIENT, ["hour_us"])
    columns = groups.keys() | {name: groups.last(name) for name in ("hour_us", "listener", "client_prefix")}
    columns |= {name: pa.array(groups.sum(ints(hours, name))) for name in _ADDED}
    columns |= {name: pa.array(groups.max(ints(hours, name))) for name in (*_MAXIMA, "last_us")}
    columns["first_us"] = pa.array(groups.min(ints(hours, "first_us")))
    return pa.table(columns | _due(pa.table(columns))).select(_NAMES)


def _due(rows: pa.Table) -> dict[str, pa.Array]:
    """What was due at each QoS and over all, see the module."""
    was_there = ints(rows, "connected_us") > 0
    found: dict[str, Ints] = {}
    for q in QOS:
        offered, dropped, before, after, kept = (
            ints(rows, f"{name}_qos{q}")
            for name in ("offered", "away_dropped", "waiting_start", "waiting", "away_waiting")
        )
        missed = dropped + np.maximum(np.minimum(after - before, kept), 0)
        found[f"due_qos{q}"] = np.where(was_there, np.maximum(offered - missed, 0), 0)
    found["due"] = np.sum(list(found.values()), axis=0)
    return {name: pa.array(values) for name, values in found.items()}


def there(clients: pa.Table) -> Mask:
    """Which clients were there and had something offered or waiting: the ones that can be served well or badly."""
    found: Mask = (ints(clients, "connected_us") > 0) & (total_of(clients, ("offered", "waiting_start")) > 0)
    return found
