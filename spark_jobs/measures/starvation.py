"""Tables `starvation`, `starved_worst`, and `starved_sessions`: sessions that were sent nothing, and how long.

In a **starved interval** the session was connected at its end, deliveries were offered or waiting, and nothing was sent
at any QoS. A **run** is a sequence of starved intervals of one session without gaps (one second of tolerance), also
across hours. A session is **starved** if it has a run of at least `starved_after` intervals: a delivery may wait for
one interval by chance, but not for several in a row. Related: starvation as the absence of bounded waiting
(E. W. Dijkstra, "Hierarchical Ordering of Sequential Processes", 1971), with the interval as the unit of the bound.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from spark_jobs.measures.numbers import seconds
from spark_jobs.measures.result import Row
from spark_jobs.measures.sessions import KEY

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


def with_runs(pieces: DataFrame) -> DataFrame:
    """Add the columns run (the start of a piece's run) and run_intervals (the length of that run).

    Pieces are runs split at hours; adjacent pieces of a session belong to the same run.

    Args:
        pieces: rows by `compaction.schema.STARVATION_COLUMNS`.
    """
    in_order = Window.partitionBy(*KEY).orderBy("start_us")
    gap = F.col("start_us") - F.lag("end_us").over(in_order)
    begins = F.when(gap.isNull() | (gap > TOLERANCE_US), F.col("start_us"))
    with_run = pieces.withColumn("run", begins).withColumn(
        "run", F.last("run", ignorenulls=True).over(in_order)
    )
    whole = Window.partitionBy(*KEY, "run")
    return with_run.withColumn("run_intervals", F.sum("intervals").over(whole))


def runs_of(pieces: DataFrame) -> DataFrame:
    """One row per run: key, run (its start), end_us, intervals, offered, and deliveries waiting at its end."""
    return pieces.groupBy(*KEY, "run").agg(
        F.max("end_us").alias("end_us"),
        F.sum("intervals").alias("intervals"),
        F.sum("offered").alias("offered"),
        F.max_by("waiting", "end_us").alias("waiting"),
    )


def starved_sessions(runs: DataFrame, starved_after: int) -> DataFrame:
    """One row per starved session, over its long runs: `layout.STARVED_SESSIONS` without run and labels."""
    return (
        runs.where(F.col("intervals") >= starved_after)
        .groupBy(*KEY)
        .agg(
            F.count(F.lit(1)).alias("runs"),
            F.max("intervals").alias("longest_intervals"),
            F.max(F.col("end_us") - F.col("run")).alias("longest_us"),
            F.sum(F.col("end_us") - F.col("run")).alias("starved_us"),
            F.min("run").alias("first_us"),
            F.max("end_us").alias("last_us"),
            F.sum("offered").alias("offered"),
            F.max_by("waiting", "end_us").alias("waiting"),
        )
    )


def worst_starved(starved: DataFrame) -> DataFrame:
    """The sessions with the longest runs, at most MOST_WORST."""
    order = [F.desc("longest_us"), F.desc("starved_us"), *[F.asc(name) for name in KEY]]
    return starved.orderBy(*order).limit(MOST_WORST)


def per_hour(pieces: DataFrame, starved_after: int) -> DataFrame:
    """The number of starved sessions by hour: hour_us, sessions."""
    counted = pieces.where(F.col("run_intervals") >= starved_after)
    return (
        counted.select("hour_us", *KEY).distinct().groupBy("hour_us").agg(F.count(F.lit(1)).alias("sessions"))
    )


def by_length(runs: DataFrame, starved_after: int) -> DataFrame:
    """Runs by their length, and long runs together: the columns of the table; seconds as time_us."""
    length = F.lit(LENGTHS[-1][0])
    for name, _, most in reversed(LENGTHS[:-1]):
        length = F.when(F.col("intervals") <= most, F.lit(name)).otherwise(length)
    counts = F.when(F.col("intervals") >= starved_after, F.lit(ALL))
    both = F.explode(F.array_compact(F.array(length, counts)))
    timed = runs.withColumns({"length": both, "runs": F.lit(1), "time_us": F.col("end_us") - F.col("run")})
    # Sessions are counted by grouping twice: a distinct count would keep every key.
    sums = [F.sum(name).alias(name) for name in ("runs", "time_us", "offered")]
    sums.append(F.max("intervals").alias("intervals"))
    each = timed.groupBy("length", *KEY).agg(*sums)
    return each.groupBy("length").agg(*sums, F.count(F.lit(1)).alias("sessions"))


def starvation(lengths: DataFrame, starved_after: int) -> list[Row]:
    """The rows of `starvation`: all long runs, then every length, from `by_length`."""
    found = {row["length"]: row.asDict() for row in lengths.collect()}
    rows = []
    for name, least, most in ((ALL, starved_after, None), *LENGTHS):
        row = found.get(name, {"runs": 0, "sessions": 0, "intervals": 0, "time_us": 0, "offered": 0})
        rows.append(
            {
                "length": name,
                "least_intervals": least,
                "most_intervals": most,
                "runs": row["runs"],
                "sessions": row["sessions"],
                "longest_intervals": row["intervals"],
                "seconds": seconds(row["time_us"]),
                "offered": row["offered"],
            }
        )
    return rows
