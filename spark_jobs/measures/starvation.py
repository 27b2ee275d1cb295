"""Tables `starvation`, `starved_worst`, and `starved_sessions`: sessions that were sent nothing, and how long.

In a **starved interval** the session was connected at its end, deliveries were offered or waiting, and nothing was sent
at any QoS. A **run** is a sequence of starved intervals of one session without gaps (one second of tolerance), also
across hours. A session is **starved** if it has a run of at least `starved_after` intervals: a delivery may wait for
one interval by chance, but not for several in a row. Related: starvation as the absence of bounded waiting
(E. W. Dijkstra, "Hierarchical Ordering of Sequential Processes", 1971), with the interval as the unit of the bound.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_jobs.datasets.starvation import TOLERANCE_US
from spark_jobs.measures.numbers import ratio, seconds
from spark_jobs.measures.result import Row
from spark_jobs.measures.sessions import CLIENT
from spark_jobs.metrics import CLOCKS, DROP_REASONS

STARVED_AFTER: Final = 3
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


_NONE: Final = {
    **dict.fromkeys(("runs", "clients", "longest_intervals", "offered", "us", "episodes", "episodes_us"), 0),
    **dict.fromkeys(("episode_us", "first_us", "last_us")),
}
_OF_CLIENT: Final = (
    "begun",
    "listener",
    "client_prefix",
    "window_limit",
    "max_inflight",
    "mqueue_max",
    "paced_for_us",
    "duration_us",
    "connected_us",
    *(f"{clock}_us" for clock in CLOCKS),
    *(f"dropped_{reason}" for reason in DROP_REASONS),
)
"""What is told of a starved client, or explains why."""


def with_runs(pieces: DataFrame) -> DataFrame:
    """Add the columns run (the start of a piece's run) and run_intervals (the length of that run).

    Pieces are runs split at hours; adjacent pieces of a session belong to the same run.

    Args:
        pieces: rows by `store.schema.STARVATION_COLUMNS`.
    """
    in_time = Window.partitionBy(*CLIENT).orderBy("start_us", "end_us")
    before = F.lag("end_us").over(in_time)
    begins = F.when(before.isNull() | (F.col("start_us") - before > TOLERANCE_US), F.col("start_us"))
    return (
        pieces.withColumn("begins", begins)
        .withColumn("run", F.max("begins").over(in_time))
        .withColumn("run_intervals", F.sum("intervals").over(Window.partitionBy(*CLIENT, "run")))
        .drop("begins")
    )


def runs_of(pieces: DataFrame) -> DataFrame:
    """One row per run: key, run (its start), end_us, intervals, offered, and deliveries waiting at its end.

    Args:
        pieces: rows of `with_runs`.
    """
    return pieces.groupBy(*CLIENT, "run").agg(
        F.max("end_us").alias("end_us"),
        F.max_by("waiting", "end_us").alias("waiting"),
        F.sum("intervals").alias("intervals"),
        F.sum("offered").alias("offered"),
    )


def starved_sessions(pieces: DataFrame, clients: DataFrame, starved_after: int) -> DataFrame:
    """One row per starved client, over its long runs: the columns of `layout.STARVED_SESSIONS`, and what explains why.

    Args:
        pieces: rows of `with_runs`.
        clients: one row per client, see `sessions.per_client`.
        starved_after: see `starvation`.
    """
    length = F.col("end_us") - F.col("run")
    starved = (
        runs_of(pieces)
        .where(F.col("intervals") >= starved_after)
        .groupBy(*CLIENT)
        .agg(
            F.count(F.lit(1)).alias("runs"),
            F.max("intervals").alias("longest_intervals"),
            F.max(length).alias("longest_us"),
            F.max_by("run", F.struct(length, "end_us")).alias("longest_start_us"),
            F.sum(length).alias("starved_us"),
            F.min("run").alias("first_us"),
            F.max("end_us").alias("last_us"),
            F.sum("offered").alias("offered"),
            F.max_by("waiting", "end_us").alias("waiting"),
        )
    )
    in_range = [F.col(name).alias(f"{name}_in_range") for name in ("offered", "sent")]
    known = clients.select(*CLIENT, *_OF_CLIENT, "due", "sent", *in_range)
    return starved.join(known, list(CLIENT)).orderBy(F.desc("longest_us"), F.desc("starved_us"), *CLIENT)


def by_hour(pieces: DataFrame, starved_after: int) -> DataFrame:
    """`hour_us` and the number of its starved `clients`.

    Args:
        pieces: rows of `with_runs`.
        starved_after: see `starvation`.
    """
    long = pieces.where(F.col("run_intervals") >= starved_after)
    return long.groupBy("hour_us").agg(F.count_distinct(*CLIENT).alias("clients"))


def by_length(pieces: DataFrame, starved_after: int) -> DataFrame:
    """Sums over the runs of each length, see `starvation`.

    Args:
        pieces: rows of `with_runs`.
        starved_after: a run of so many intervals makes a session starved.
    """
    number = F.col("intervals")
    within = {ALL: number >= starved_after} | {
        name: (number >= least) & (number <= most if most else F.lit(True)) for name, least, most in LENGTHS
    }
    names = F.array_compact(F.array(*[F.when(inside, F.lit(name)) for name, inside in within.items()]))
    runs = runs_of(pieces).withColumn("length", F.explode(names))
    # An episode is a time in which at least one of the runs lasted.
    in_time = Window.partitionBy("length").orderBy("run", "end_us")
    reached = F.max("end_us").over(in_time.rowsBetween(Window.unboundedPreceding, -1))
    begins = F.when(reached.isNull() | (F.col("run") - reached > TOLERANCE_US), F.col("run"))
    again = F.lag("run").over(Window.partitionBy("length", *CLIENT).orderBy("run"))
    runs = runs.withColumns({"begins": begins, "again": again})
    episodes = (
        runs.withColumn("episode", F.max("begins").over(in_time))
        .groupBy("length", "episode")
        .agg(
            F.count(F.lit(1)).alias("runs"),
            F.count_if(F.col("again").isNull()).alias("clients"),
            F.max("intervals").alias("longest_intervals"),
            F.sum(F.col("end_us") - F.col("run")).alias("us"),
            F.sum("offered").alias("offered"),
            F.max("end_us").alias("last_us"),
        )
    )
    lasted = F.col("last_us") - F.col("episode")
    return episodes.groupBy("length").agg(
        *[F.sum(name).alias(name) for name in ("runs", "clients", "us", "offered")],
        F.max("longest_intervals").alias("longest_intervals"),
        F.count(F.lit(1)).alias("episodes"),
        F.median(lasted).alias("episode_us"),
        F.sum(lasted).alias("episodes_us"),
        F.min("episode").alias("first_us"),
        F.max("last_us").alias("last_us"),
    )


def starvation(sums: Iterable[Mapping[str, Any]], starved_after: int, covered_us: int) -> list[Row]:
    """The rows of the table: long runs together, then runs by their length.

    Args:
        sums: rows of `by_length`.
        starved_after: as there.
        covered_us: how long the rows are about.
    """
    found = {row["length"]: row for row in sums}
    rows = []
    for name, least, most in ((ALL, starved_after, None), *LENGTHS):
        own = found.get(name, _NONE)
        row: Row = {"length": name, "least_intervals": least, "most_intervals": most, "seconds": seconds(own["us"])}
        row |= {column: own[column] for column in ("runs", "clients", "longest_intervals", "offered", "episodes")}
        row |= {"first_us": own["first_us"], "last_us": own["last_us"]}
        row["episode_seconds"] = None if own["episode_us"] is None else seconds(int(own["episode_us"]))
        rows.append(row | {"episodes_share": ratio(own["episodes_us"], covered_us)})
    return rows
