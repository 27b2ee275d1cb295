"""The first sessions of each table by its order, selected by Spark in one action for all tables."""

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from spark_jobs.measures.numbers import per_second, ratio
from spark_jobs.measures.result import Row
from spark_jobs.measures.sessions import KEY
from spark_jobs.measures.why import shares, why
from spark_jobs.metrics import QOS

MOST: Final = 20
FULL_SHARE_PER_CENT: Final = 10  # a session is blocked by its window if it is full for this share of the time

WORST: Final = "worst_sessions"
INVERTED: Final = "inverted_sessions"
HEAD_OF_LINE: Final = "head_of_line_sessions"
STALLED: Final = "stalled_sessions"
PUBLISHERS: Final = "publishers"
PACED_FOR: Final = "paced_for_sessions"

_LISTED: Final = (*KEY, "listener", "topic_group")
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


def window_full() -> Column:
    """Whether a session's window was full for more than FULL_SHARE_PER_CENT of its time."""
    return F.col("window_full_us") * 100.0 > F.col("duration_us") * float(FULL_SHARE_PER_CENT)  # whole numbers overflow


def _orders() -> dict[str, tuple[Column, list[Column]]]:
    """For each table: which sessions are candidates, and their sort key, lowest first."""
    delivered = F.when(F.col("offered") > 0, F.col("sent") / F.col("offered"))
    full = F.when(F.col("duration_us") > 0, F.col("window_full_us") / F.col("duration_us"))
    reports = F.col("stalled_window") + F.col("slow_consumer")
    return {
        WORST: (F.col("offered") > 0, [delivered, -F.col("dropped"), -F.col("offered")]),
        INVERTED: (F.col("inverted_qos0") > 0, [-F.col("inverted_qos0")]),
        HEAD_OF_LINE: (F.col("window_full_us") > 0, [-full, -F.col("window_full_us")]),
        STALLED: (reports > 0, [-reports, -F.col("stalled_window")]),
        PUBLISHERS: (F.col("received") > 0, [-F.col("received"), -F.col("received_bytes")]),
        PACED_FOR: (F.col("paced_for_us") > 0, [-F.col("paced_for_us"), -F.col("dropped")]),
    }


def first_of_each(sessions: DataFrame) -> dict[str, list[Row]]:
    """Table -> the rows of its first MOST sessions, in order; ties are sorted by key, so that a re-run is the same.

    Args:
        sessions: one row per session, see `sessions.per_session`.
    """
    parts = []
    for table, (which, place) in _orders().items():
        placed = sessions.where(which).withColumn(
            "place", F.array(*[column.cast("double") for column in place])
        )
        first = placed.orderBy("place", *KEY).limit(MOST)
        parts.append(first.withColumn("table", F.lit(table)))
    found: dict[str, list[Row]] = {table: [] for table in _orders()}
    for row in reduce(DataFrame.unionByName, parts).collect():
        found[row["table"]].append(row.asDict())
    for rows in found.values():  # a union keeps no order
        rows.sort(key=lambda row: (row["place"], *[row[name] for name in KEY]))
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
            "sent",
            "dropped",
            *flow,
            "gated",
            "paced_for_us",
            "mqueue_max",
            "mailbox_max",
            "starved_rows",
        ),
        "delivery_ratio": ratio(row["sent"], row["offered"]),
        "goodput": per_second(row["sent"], row["connected_us"]),
        **shares(row),
        "why": why(row),
    }


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
        "delivery_ratio": ratio(row["sent"], row["offered"]),
        **{name: share for name, share in shares(row).items() if name in _SLOW},
        "why": why(row),
    }


def publisher(row: Row, messages: int, payload: int) -> Row:
    """A row of `publishers`; messages and payload are the totals of all publishers, in messages and bytes."""
    return {
        **_session(row, "received", *[f"received_qos{qos}" for qos in QOS], "received_bytes", *_PUBLISHING),
        "share_of_received": ratio(row["received"], messages),
        "share_of_bytes": ratio(row["received_bytes"], payload),
        "received_per_second": per_second(row["received"], row["connected_us"]),
    }
