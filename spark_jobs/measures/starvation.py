"""Tables `starvation`, `starved_worst`, and `starved_sessions`: sessions that were sent nothing, and how long.

In a **starved interval** the session was connected at its end, deliveries were offered or waiting, and nothing was sent
at any QoS. A **run** is a sequence of starved intervals of one session without gaps (one second of tolerance), also
across hours. A session is **starved** if it has a run of at least `starved_after` intervals: a delivery may wait for
one interval by chance, but not for several in a row. Related: starvation as the absence of bounded waiting
(E. W. Dijkstra, "Hierarchical Ordering of Sequential Processes", 1971), with the interval as the unit of the bound.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.arrays import Groups, Ints, ints
from spark_jobs.measures.numbers import ratio, seconds
from spark_jobs.measures.result import Row
from spark_jobs.measures.sessions import CLIENT

STARVED_AFTER: Final = 3
TOLERANCE_US: Final = 1_000_000
MOST_WORST: Final = 50
ALL: Final = "all"
LENGTHS: Final = (
    ("1", 1, 1),
    ("2", 2, 2),
    ("3-5", 3, 5),
    ("6-10", 6, 10),
    ("11-30", 11, 30),
    ("31+", 31, None),
)


def with_runs(pieces: pa.Table) -> pa.Table:
    """Add the columns run (the start of a piece's run) and run_intervals (the length of that run).

    Pieces are runs split at hours; adjacent pieces of a session belong to the same run.

    Args:
        pieces: rows by `store.schema.STARVATION_COLUMNS`.
    """
    groups = Groups(pieces, CLIENT, ["start_us"])
    ordered = pieces.take(pa.array(groups.order))
    start, end = ints(ordered, "start_us"), ints(ordered, "end_us")
    begins = np.ones(len(start), np.bool_)
    begins[1:] = start[1:] - end[:-1] > TOLERANCE_US
    begins[groups.starts] = True
    numbers = np.cumsum(begins) - 1
    lengths = np.bincount(numbers, ints(ordered, "intervals")).astype(np.int64)
    run = pa.array(start[begins][numbers] if len(start) else start)
    return ordered.append_column("run", run).append_column("run_intervals", pa.array(lengths[numbers]))


def runs_of(pieces: pa.Table) -> pa.Table:
    """One row per run: key, run (its start), end_us, intervals, offered, and deliveries waiting at its end."""
    groups = Groups(pieces, (*CLIENT, "run"), ["end_us"])
    columns = groups.keys() | {name: groups.last(name) for name in ("end_us", "waiting")}
    columns |= {name: pa.array(groups.sum(ints(pieces, name))) for name in ("intervals", "offered")}
    return pa.table(columns)


def starved_sessions(runs: pa.Table, starved_after: int) -> pa.Table:
    """One row per starved session, over its long runs, sorted: `layout.STARVED_SESSIONS` without run and labels."""
    long = runs.filter(pc.greater_equal(runs["intervals"], starved_after))
    length = ints(long, "end_us") - ints(long, "run")
    groups = Groups(long, CLIENT, ["end_us"])
    by_length = Groups(long.append_column("length", pa.array(length)), CLIENT, ["length", "end_us"])
    starved = groups.keys() | {
        "runs": pa.array(groups.count()),
        "longest_intervals": pa.array(groups.max(ints(long, "intervals"))),
        "longest_us": pa.array(groups.max(length)),
        "longest_start_us": by_length.last("run"),
        "starved_us": pa.array(groups.sum(length)),
        "first_us": pa.array(groups.min(ints(long, "run"))),
        "last_us": groups.last("end_us"),
        "offered": pa.array(groups.sum(ints(long, "offered"))),
        "waiting": groups.last("waiting"),
    }
    order = [("longest_us", "descending"), ("starved_us", "descending"), *[(name, "ascending") for name in CLIENT]]
    return pa.table(starved).sort_by(order)


def per_hour(pieces: pa.Table, starved_after: int) -> dict[int, int]:
    """Hour -> number of starved sessions."""
    counted = pieces.filter(pc.greater_equal(pieces["run_intervals"], starved_after))
    clients = pa.table(Groups(counted, ("hour_us", *CLIENT)).keys())
    hours, numbers = np.unique(ints(clients, "hour_us"), return_counts=True)
    return dict(zip(hours.tolist(), numbers.tolist(), strict=True))


def episodes(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """The times in which at least one of these lasted: their starts and ends."""
    order = np.argsort(starts)
    starts, reached = starts[order], np.maximum.accumulate(ends[order])
    begins = np.append(True, starts[1:] - reached[:-1] > TOLERANCE_US)[: len(starts)]
    return starts[begins], reached[np.append(begins[1:], True)[: len(starts)]]


def starvation(runs: pa.Table, starved_after: int, covered_us: int) -> list[Row]:
    """The rows of the table: long runs together, then runs by their length.

    Args:
        runs: see `runs_of`.
        starved_after: the least length of a long run.
        covered_us: how long the rows are about.
    """
    length = ints(runs, "intervals")
    rows = []
    for name, least, most in ((ALL, starved_after, None), *LENGTHS):
        inside = runs.filter(pa.array((length >= least) & (length <= (most or length.max(initial=0)))))
        starts, ends = ints(inside, "run"), ints(inside, "end_us")
        first, last = episodes(starts, ends)
        rows.append(
            {
                "length": name,
                "least_intervals": least,
                "most_intervals": most,
                "runs": inside.num_rows,
                "clients": len(Groups(inside, CLIENT)),
                "longest_intervals": int(ints(inside, "intervals").max(initial=0)),
                "seconds": seconds(int((ends - starts).sum())),
                "offered": int(ints(inside, "offered").sum()),
                "episodes": len(first),
                "episode_seconds": seconds(int(np.median(last - first))) if len(first) else None,
                "episodes_share": ratio(int((last - first).sum()), covered_us),
                "first_us": int(first[0]) if len(first) else None,
                "last_us": int(last[-1]) if len(first) else None,
            }
        )
    return rows
