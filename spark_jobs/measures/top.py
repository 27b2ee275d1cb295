"""The first sessions of each table by its order."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

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


def window_full() -> Column:
    """Whether a session's window was full for more than FULL_SHARE_PER_CENT of its time."""
    # In floating point, because whole numbers would overflow.
    return F.col("window_full_us") * 100.0 > F.col("duration_us") * float(FULL_SHARE_PER_CENT)


def _orders() -> dict[str, tuple[Column, list[Column]]]:
    """For each table: which clients are candidates, and their sort key, lowest first; all keys have these types."""
    number, nothing = F.col, F.lit(0.0)

    def share(part: str, whole: str) -> Column:
        return number(part) / F.greatest(number(whole), F.lit(1))

    def most(first: Column, second: Column | None = None) -> list[Column]:
        return [nothing, nothing, -first, F.lit(0).cast("bigint") if second is None else -second]

    due, sent, dropped = (number(name) for name in ("due", "sent", "dropped"))
    missed, lost = number("offered") - due, dropped - number("away_dropped")
    poor_first = F.when(poorly_served(due, sent), 0.0).otherwise(1.0)
    full = number("window_full_us")
    reports = number("stalled_window") + number("slow_consumer")
    return {
        WORST: (due > 0, [poor_first, share("sent", "due"), -dropped, -due]),
        AWAY: (missed > 0, most(missed)),
        DROPPED: (lost > 0, most(lost)),
        INVERTED: (number("inverted_qos0") > 0, most(number("inverted_qos0"))),
        HEAD_OF_LINE: (full > 0, [nothing, -share("window_full_us", "duration_us"), -full, F.lit(0).cast("bigint")]),
        STALLED: (reports > 0, most(reports, number("stalled_window"))),
        PUBLISHERS: (number("received") > 0, most(number("received"), number("received_bytes"))),
        PACED_FOR: (number("paced_for_us") > 0, most(number("paced_for_us"), dropped)),
    }


def first_of_each(clients: DataFrame) -> DataFrame:
    """The first MOST clients of each `table` by `rank`; ties are sorted by key, so that a re-run is the same.

    Args:
        clients: one row per client, see `sessions.per_client`.
    """
    candidates = []
    for table, (which, key) in _orders().items():
        place = [F.lit(table).alias("table"), *[column.alias(f"by{number}") for number, column in enumerate(key)]]
        candidates.append(F.when(which, F.struct(*place)))
    named = clients.select(*CLIENT, F.inline(F.array_compact(F.array(*candidates))))
    in_order = Window.partitionBy("table").orderBy("by0", "by1", "by2", "by3", *CLIENT)
    first = named.withColumn("rank", F.row_number().over(in_order)).where(F.col("rank") <= MOST)
    return clients.join(F.broadcast(first.select(*CLIENT, "table", "rank")), list(CLIENT))


def by_table(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Row]]:
    """Table -> its clients in order, from rows of `first_of_each`."""
    found: dict[str, list[Row]] = {table: [] for table in _orders()}
    for row in sorted(rows, key=lambda row: row["rank"]):
        found[row["table"]].append(dict(row))
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
