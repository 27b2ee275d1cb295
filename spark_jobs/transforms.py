"""From rows (one per session and interval) to sums per slot, window and session: DataFrame in and out.

A **window** is what the plots and tables have a point for. A **slot** is a part of a window about as long as
the exporter's interval: the finest time that the rows can tell apart. Times are whole microseconds since
1970, UTC.

A slot is **under pressure** if in any session's row in it the send path was congested, the window was full (in
deliveries or in bytes), a rate was used up, the mailbox was sampled busy, or QoS 0 was gated. That can be said
of a broker without the gate too.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from spark_jobs import histograms
from spark_jobs.conditions import books_off, duration, gated, pressure, reasons_off
from spark_jobs.fairness import ALL_QOS, total
from spark_jobs.metrics import COUNTERS, HISTOGRAMS, QOS, SCHEMA, SESSION_KEY

# What the tables are made from; the other counters would only cost time.
_SUMMED: Final = tuple(
    name
    for name in COUNTERS
    if re.match("(offered|sent_qos|dropped|acknowledged|waiting|gated|resent|mailbox)_?", name)
    or name.endswith("_us")
)
MAXIMA: Final = ("mailbox_max", "mqueue_max", "mqueue_bytes_max", "window_max")
_SESSION_MAXIMA: Final = ("mqueue_max", "mailbox_max")
WAIT_HISTOGRAMS: Final = tuple(f"wait_qos{q}_hist" for q in QOS)


def in_range(rows: DataFrame, start: datetime | None, end: datetime | None) -> DataFrame:
    """Rows whose interval_end lies in [start, end); None leaves that side open."""
    if start is not None:
        rows = rows.where(F.col("interval_end") >= F.lit(start))
    if end is not None:
        rows = rows.where(F.col("interval_end") < F.lit(end))
    return rows


def overview(rows: DataFrame) -> DataFrame:
    """One row: number of rows, first and last interval_end, usual interval, in all and with deliveries."""
    active = (total("offered") > 0) | (total("sent") > 0)
    return rows.agg(
        F.count(F.lit(1)).alias("rows"),
        F.unix_micros(F.min("interval_end")).alias("first_us"),
        F.unix_micros(F.max("interval_end")).alias("last_us"),
        F.percentile_approx(F.when(active, duration()), 0.5, 200).alias("active_interval_us"),
        F.percentile_approx(duration(), 0.5, 200).alias("interval_us"),
    )


def with_clock(rows: DataFrame, window_us: int, slot_us: int) -> DataFrame:
    """Add window_us and slot_us (starts), duration_us of the interval, and whether there was pressure."""
    end = F.unix_micros(F.col("interval_end"))
    return (
        rows.withColumn("window_us", end - F.pmod(end, F.lit(window_us)))
        .withColumn("slot_us", end - F.pmod(end, F.lit(slot_us)))
        .withColumn("duration_us", duration())
        .withColumn("pressure", pressure())
    )


def by_slot(rows: DataFrame) -> DataFrame:
    """Counters added up, and gauges' maxima, per slot; and how many rows there were, and do not add up.

    Columns besides those: window_us, slot_us, rows, books_off, reasons_off, pressure (true if any row's was),
    and of sessions with something to deliver: QoS 0 and time of those under pressure themselves (pressed_*)
    and of the others (calm_*).
    """
    busy = (total("offered") > 0) | (total("waiting_start") > 0)
    pressed = F.col("pressure") & busy
    calm = ~F.col("pressure") & busy
    parts: list[Column] = []
    for name, which in (("pressed", pressed), ("calm", calm)):
        for counter in ("offered_qos0", "sent_qos0", "dropped_qos0"):
            parts.append(F.sum(F.when(which, F.col(counter)).otherwise(0)).alias(f"{name}_{counter}"))
        parts.append(F.sum(F.when(which, F.col("duration_us")).otherwise(0)).alias(f"{name}_duration_us"))
    return rows.groupBy("window_us", "slot_us").agg(
        F.count(F.lit(1)).alias("rows"),
        F.count_if(books_off(0) | books_off(1) | books_off(2)).alias("books_off"),
        *[F.count_if(books_off(q)).alias(f"books_off_qos{q}") for q in QOS],
        F.count_if(reasons_off()).alias("reasons_off"),
        F.bool_or("pressure").alias("pressure"),
        *[F.sum(name).alias(name) for name in _SUMMED],
        *[F.max(name).alias(name) for name in MAXIMA],
        *parts,
    )


def with_slot_seconds(slots: DataFrame, slot_us: int) -> DataFrame:
    """Add covered_us: how much time the slot's rows stand for.

    That is the time since the slot before, so that exports that fall twice into one slot and not at all into
    the next do not count double. It is at most two slots long: what is longer is a time in which no session
    had anything to report.
    """
    before = F.lag("slot_us").over(Window.orderBy("slot_us"))
    since = F.coalesce(F.col("slot_us") - before, F.lit(slot_us))
    return slots.withColumn("covered_us", F.least(since, F.lit(2 * slot_us)))


def by_window(slots: DataFrame) -> DataFrame:
    """Slots added up per window, and one row with a null window_us for all of them.

    Columns besides the sums and maxima: covered_us; pressure_us, the covered time under pressure; busy_us,
    the covered time with QoS 0 to deliver; and of the slots under pressure the QoS 0 counters and that time
    (tight_*).
    """
    sums = [name for name in slots.columns if name not in ("window_us", "slot_us", "pressure", *MAXIMA)]
    busy = (F.col("offered_qos0") > 0) | (F.col("sent_qos0") > 0)
    timed = slots.withColumn("busy_us", F.when(busy, F.col("covered_us")).otherwise(0))
    tight = [
        F.sum(F.when(F.col("pressure"), F.col(name)).otherwise(0)).alias(f"tight_{name}")
        for name in ("offered_qos0", "sent_qos0", "dropped_qos0", "busy_us")
    ]
    return timed.rollup("window_us").agg(
        *[F.sum(name).alias(name) for name in (*sums, "busy_us")],
        *[F.max(name).alias(name) for name in MAXIMA],
        F.sum(F.when(F.col("pressure"), F.col("covered_us")).otherwise(0)).alias("pressure_us"),
        *tight,
    )


def distributions(rows: DataFrame) -> DataFrame:
    """Histograms added up per window: columns window_us, metric, qos, unit, histogram.

    In passes of three histograms each: with more, the columns of a pass outgrow what Spark compiles into one
    loop, which then takes more than twice as long.
    """
    parts = [_distributions_of(rows, HISTOGRAMS[i : i + 3]) for i in range(0, len(HISTOGRAMS), 3)]
    return reduce(DataFrame.unionByName, parts)


def with_whole_range(distributions: DataFrame) -> DataFrame:
    """Add the rows with a null window_us: each metric's histogram over all windows."""
    # Not by a union with the sums: Spark flattens a union of unions into a new one, which then misses what is
    # kept of the first.
    both = F.explode(F.array(F.col("window_us"), F.lit(None).cast("bigint")))
    doubled = distributions.withColumn("window_us", both)
    return doubled.groupBy("window_us", "metric", "qos", "unit").agg(
        histograms.added("histogram").alias("histogram")
    )


def with_null_window(frame: DataFrame) -> DataFrame:
    """Mark rows as standing for the whole range: add window_us, null."""
    return frame.withColumn("window_us", F.lit(None).cast("bigint"))


def _distributions_of(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    sums = rows.groupBy("window_us").agg(*[histograms.added(name).alias(name) for name in names])
    entries = []
    for name in names:
        metric, qos = histogram_kind(name)
        unit = next(field.unit for field in SCHEMA.fields if field.name == name)
        entries.append(
            F.struct(
                F.lit(metric).alias("metric"),
                F.lit(qos).alias("qos"),
                F.lit(unit).alias("unit"),
                F.col(name).alias("histogram"),
            )
        )
    return sums.select("window_us", F.inline(F.array(*entries)))


def histogram_kind(name: str) -> tuple[str, str]:
    """What a histogram column is of: wait_qos1_hist is ("wait", "1"), mailbox_hist is ("mailbox", "all")."""
    metric, _, qos = name.removesuffix("_hist").partition("_qos")
    return metric, qos or ALL_QOS


def by_session_and_window(rows: DataFrame) -> DataFrame:
    """One row per session and window: deliveries by QoS, and what tells why a session fared badly."""
    counters = [f"{prefix}_qos{q}" for prefix in ("offered", "sent", "dropped") for q in QOS]
    return rows.groupBy("window_us", *SESSION_KEY).agg(
        *[F.sum(name).alias(name) for name in counters],
        F.sum(gated()).alias("gated"),
        F.sum("window_full_us").alias("window_full_us"),
        F.sum("congested_us").alias("congested_us"),
        F.sum("duration_us").alias("duration_us"),
        *[F.max(name).alias(name) for name in _SESSION_MAXIMA],
    )


def by_session(parts: DataFrame) -> DataFrame:
    """The windows of each session put together: one row per session."""
    sums = [name for name in parts.columns if name not in (*SESSION_KEY, "window_us", *_SESSION_MAXIMA)]
    return parts.groupBy(*SESSION_KEY).agg(
        *[F.sum(name).alias(name) for name in sums],
        *[F.max(name).alias(name) for name in _SESSION_MAXIMA],
    )


def waiting_times_of(sessions: DataFrame, rows: DataFrame) -> DataFrame:
    """Add wait_hist, the histogram of waiting times over all QoS, to a handful of sessions."""
    few = F.broadcast(sessions.select(*SESSION_KEY))
    sums = (
        rows.join(few, on=list(SESSION_KEY), how="inner")
        .groupBy(*SESSION_KEY)
        .agg(*[histograms.added(name).alias(name) for name in WAIT_HISTOGRAMS])
        .select(*SESSION_KEY, histograms.merged(*WAIT_HISTOGRAMS).alias("wait_hist"))
    )
    return sessions.join(sums, on=list(SESSION_KEY), how="left")
