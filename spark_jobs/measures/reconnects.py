"""Table `reconnecting_clients`: clients of which many sessions began within an hour."""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.arrays import Groups, ints
from spark_jobs.measures.numbers import ratio
from spark_jobs.measures.result import Row
from spark_jobs.measures.sessions import CLIENT

LEAST: Final = 10
MOST: Final = 20
LONGEST_US: Final = 60_000_000
"""From one start to the next, at most, on average."""
COLUMNS: Final = ("hour_us", *CLIENT, "session_started_us", "begun", "connected_us")


def reconnecting(sessions: pa.Table) -> list[Row]:
    """The rows of the table: each client with its worst hour, most sessions first.

    `connected_share` is the share of the time from the first to the last start in which those sessions were connected.

    Args:
        sessions: one row per session and hour, with COLUMNS.
    """
    began = sessions.filter(pc.greater(sessions["begun"], 0))
    groups = Groups(began, ("hour_us", *CLIENT))
    count, connected = (groups.sum(ints(began, name)) for name in ("begun", "connected_us"))
    started = ints(began, "session_started_us")
    first, last = groups.min(started), groups.max(started)
    many = (count >= LEAST) & (last - first <= LONGEST_US * count)
    columns = {**groups.keys(), "begun": count, "first_us": first, "last_us": last, "connected": connected}
    rows = pa.table(columns).filter(pa.array(many)).to_pylist()
    found: dict[tuple[str, str], Row] = {}
    for row in sorted(rows, key=lambda row: (-row["begun"], row["broker"], row["client_id"], row["hour_us"])):
        share = ratio(min(row["connected"], row["last_us"] - row["first_us"]), row["last_us"] - row["first_us"])
        names = (*CLIENT, "begun", "first_us", "last_us")
        found.setdefault(
            (row["broker"], row["client_id"]), {name: row[name] for name in names} | {"connected_share": share}
        )
    return list(found.values())[:MOST]
