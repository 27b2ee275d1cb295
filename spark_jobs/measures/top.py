"""The first sessions of each table by its order."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.arrays import Mask, ints
from spark_jobs.measures.fairness import poorly_served
from spark_jobs.measures.numbers import rate_connected, ratio
from spark_jobs.measures.result import Row
from spark_jobs.measures.sessions import CLIENT
from spark_jobs.measures.why import shares, why
from spark_jobs.metrics import QOS

MOST: Final = 20
FULL_SHARE_PER_CENT: Final = 10  # a session is blocked by its window if it is full for this share of the time

WORST: Final = "worst_sessions"
AWAY: Final = "away_clients"
DROPPED: Final = "dropped_clients"
INVERTED: Final = "inverted_sessions"
HEAD_OF_LINE: Final = "head_of_line_sessions"
STALLED: Final = "stalled_sessions"
PUBLISHERS: Final = "publishers"
PACED_FOR: Final = "paced_for_sessions"

_LISTED: Final = (*CLIENT, "begun", "listener", "client_prefix")
_PUBLISHING: Final = (
    "publish_refused",
    "publish_parked",
    "publish_paged",
    "publish_discarded",
    "publish_parked_us",
    "publish_throttled_us",
    "publish_paced_us",
    "reading_paused_us",
)
_SLOW: Final = ("window_full_share", "congested_share")


def window_full(sessions: pa.Table) -> Mask:
    """Whether a session's window was full for more than FULL_SHARE_PER_CENT of its time."""
    # In floating point, because whole numbers would overflow.
    full, whole = ints(sessions, "window_full_us"), ints(sessions, "duration_us")
    found: Mask = full * 100.0 > whole * float(FULL_SHARE_PER_CENT)
    return found


def _orders(sessions: pa.Table) -> dict[str, tuple[Mask, list[npt.NDArray[Any]]]]:
    """For each table: which sessions are candidates, and their sort key, lowest first."""

    def of(name: str) -> npt.NDArray[Any]:
        return ints(sessions, name)

    def share(part: str, whole: str) -> npt.NDArray[Any]:
        found: npt.NDArray[Any] = of(part) / np.maximum(of(whole), 1)
        return found

    reports = of("stalled_window") + of("slow_consumer")
    full = share("window_full_us", "duration_us")
    missed, lost = of("offered") - of("due"), of("dropped") - of("away_dropped")
    poor_first = ~poorly_served(sessions)
    return {
        WORST: (of("due") > 0, [poor_first, share("sent", "due"), -of("dropped"), -of("due")]),
        AWAY: (missed > 0, [-missed]),
        DROPPED: (lost > 0, [-lost]),
        INVERTED: (of("inverted_qos0") > 0, [-of("inverted_qos0")]),
        HEAD_OF_LINE: (of("window_full_us") > 0, [-full, -of("window_full_us")]),
        STALLED: (reports > 0, [-reports, -of("stalled_window")]),
        PUBLISHERS: (of("received") > 0, [-of("received"), -of("received_bytes")]),
        PACED_FOR: (of("paced_for_us") > 0, [-of("paced_for_us"), -of("dropped")]),
    }


def first_of_each(sessions: pa.Table) -> dict[str, list[Row]]:
    """Table -> the rows of its first MOST sessions, in order; ties are sorted by key, so that a re-run is the same.

    Args:
        sessions: one row per client, sorted by key, see `sessions.per_client`.
    """
    found = {}
    for table, (which, order) in _orders(sessions).items():
        candidates = np.flatnonzero(which)
        ranked = np.lexsort([column[candidates] for column in reversed(order)])  # it is stable
        found[table] = sessions.take(pa.array(candidates[ranked][:MOST])).to_pylist()
    return found


def _session(row: Row, *names: str) -> Row:
    return {name: row[name] for name in (*_LISTED, *names)}


def worst_session(row: Row) -> Row:
    """A row of `worst_sessions`, without its waiting times."""
    flow = [f"{name}_qos{qos}" for qos in QOS for name in ("offered", "sent", "dropped")]
    return {
        **_session(
            row,
            "offered",
            "due",
            "sent",
            "dropped",
            *flow,
            "gated",
            "paced_for_us",
            "mqueue_max",
            "mailbox_max",
            "starved_rows",
            "window_limit",
            "max_inflight",
        ),
        "delivery_ratio": ratio(row["sent"], row["due"]),
        "goodput": rate_connected(row["sent"], row["connected_us"]),
        **shares(row),
        "why": why(row),
    }


def away_client(row: Row) -> Row:
    """A row of `away_clients`."""
    missed = row["offered"] - row["due"]
    return {
        **_session(row, "offered"),
        "missed": missed,
        "missed_dropped": min(missed, row["away_dropped"]),
        "connected_share": ratio(row["connected_us"], row["duration_us"]),
    }


def dropped_client(row: Row, lost: int) -> Row:
    """A row of `dropped_clients`; lost is the total of all clients."""
    own = row["dropped"] - row["away_dropped"]
    return {**_session(row, "due"), "lost": own, "share_of_lost": ratio(own, lost), "why": why(row)}


def inverted_session(row: Row) -> Row:
    """A row of `inverted_sessions`."""
    return _session(row, "inverted_qos0", "blocked_rows", "sent_qos0")


def head_of_line_session(row: Row) -> Row:
    """A row of `head_of_line_sessions`."""
    return {**_session(row, "duration_us", "window_limit", "mqueue_max"), **shares(row)}


def stalled_session(row: Row) -> Row:
    """A row of `stalled_sessions`."""
    reports = _session(row, "stalled_window", "slow_consumer", "mqueue_max")
    return {**reports, "window_full_share": shares(row)["window_full_share"]}


def paced_for_session(row: Row) -> Row:
    """A row of `paced_for_sessions`."""
    return {
        **_session(row, "paced_for_us", "offered", "sent", "dropped", "mqueue_max"),
        "paced_for_share": ratio(row["paced_for_us"], row["duration_us"]),
        "delivery_ratio": ratio(row["sent"], row["due"]),
        **{name: share for name, share in shares(row).items() if name in _SLOW},
        "why": why(row),
    }


def publisher(row: Row, messages: int, payload: int) -> Row:
    """A row of `publishers`; messages and payload are the totals of all publishers, in messages and bytes."""
    return {
        **_session(row, "received", *[f"received_qos{qos}" for qos in QOS], "received_bytes", *_PUBLISHING),
        "share_of_received": ratio(row["received"], messages),
        "share_of_bytes": ratio(row["received_bytes"], payload),
        "received_per_second": rate_connected(row["received"], row["connected_us"]),
    }
