"""The tables of the report, laid out from the sums of `transforms`: DataFrame in, DataFrame out.

Each takes the per-window sums, in which the row with a null window_us stands for the whole range, and keeps
window_us, so that one computation gives a table per window and a table in all. All are small: windows times a
constant.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from spark_jobs import histograms
from spark_jobs.fairness import ALL_QOS, ratio
from spark_jobs.metrics import COUNTERS, DROP_REASONS, GATE_REASONS, QOS, drop_column
from spark_jobs.transforms import MAXIMA

MICROSECONDS: Final = 1_000_000
_DIGITS: Final = 9


def _long(windows: DataFrame, entries: Sequence[dict[str, Column]], keep: Sequence[str] = ()) -> DataFrame:
    """One row per window and entry."""
    structs = [F.struct(*[column.alias(name) for name, column in entry.items()]) for entry in entries]
    return windows.select("window_us", *keep, F.inline(F.array(*structs)))


def _of_qos(prefix: str, qos: str) -> Column:
    """The counter of one QoS or of all; null for what a QoS does not have (acknowledged at QoS 0)."""
    wanted = map(str, QOS) if qos == ALL_QOS else (qos,)
    names = [f"{prefix}_qos{q}" for q in wanted if f"{prefix}_qos{q}" in COUNTERS]
    if not names:
        return F.lit(None).cast("bigint")
    return sum((F.col(name) for name in names[1:]), F.col(names[0]))


def _fraction(part: Column, whole: Column) -> Column:
    return F.round(ratio(part, whole), _DIGITS)


def deliveries(windows: DataFrame) -> DataFrame:
    """By QoS: offered, sent, dropped, acknowledged, how much more waits, delivery ratio, rates per second."""
    seconds = F.col("covered_us") / MICROSECONDS
    entries = []
    for qos in (ALL_QOS, *map(str, QOS)):
        offered, sent, dropped = (_of_qos(name, qos) for name in ("offered", "sent", "dropped"))
        entries.append(
            {
                "qos": F.lit(qos),
                "offered": offered,
                "sent": sent,
                "dropped": dropped,
                "acknowledged": _of_qos("acknowledged", qos),
                "waiting_growth": _of_qos("waiting", qos) - _of_qos("waiting_start", qos),
                "delivery_ratio": _fraction(sent, offered),
                "offered_per_second": _rate(offered, seconds),
                "sent_per_second": _rate(sent, seconds),
                "dropped_per_second": _rate(dropped, seconds),
            }
        )
    clock = windows.withColumn("seconds", seconds).withColumn(
        "pressure_seconds", F.col("pressure_us") / MICROSECONDS
    )
    return _long(clock, entries, keep=("seconds", "pressure_seconds"))


def _rate(count: Column, seconds: Column) -> Column:
    return F.round(ratio(count, seconds), 3)


def reasons(windows: DataFrame) -> DataFrame:
    """Deliveries gated (QoS 0) and dropped, by reason and QoS, and as a share of what was offered."""
    entries = []
    for reason in GATE_REASONS:
        entries.append(_reason("gated", "0", reason, f"gated_{reason}"))
    for reason in DROP_REASONS:
        for qos in QOS:
            if (name := drop_column(reason, qos)) is not None:
                entries.append(_reason("dropped", str(qos), reason, name))
    return _long(windows, entries)


def _reason(what: str, qos: str, reason: str, column: str) -> dict[str, Column]:
    return {
        "qos": F.lit(qos),
        "what": F.lit(what),
        "reason": F.lit(reason),
        "deliveries": F.col(column),
        "share_of_offered": _fraction(F.col(column), F.col(f"offered_qos{qos}")),
    }


def percentiles(distributions: DataFrame) -> DataFrame:
    """p50, p95 and p99 of each distribution with the bounds that enclose the exact value; highest bucket."""
    names = [f"{name}{part}" for name, _ in histograms.PERCENTILES for part in ("", "_low", "_high")]
    found = histograms.with_percentiles(distributions, "histogram")
    return found.select("window_us", "metric", "qos", "unit", "samples", *names, "max_low", "max_high")


def buckets(distributions: DataFrame) -> DataFrame:
    """Each distribution in all, bucket by bucket: low, high (null: no upper bound), count and share."""
    in_all = distributions.where(F.col("window_us").isNull())
    kinds = ("window_us", "metric", "qos", "unit")
    total = histograms.samples(F.col("histogram")).alias("samples")
    exploded = in_all.select(*kinds, total, F.posexplode("histogram").alias("bucket", "count"))
    lows, highs = histograms.bounds()
    return exploded.select(
        *kinds,
        "bucket",
        F.get(lows, F.col("bucket")).alias("low"),
        F.get(highs, F.col("bucket")).alias("high"),
        "count",
        _fraction(F.col("count"), F.col("samples")).alias("share"),
    )


def pressure(windows: DataFrame) -> DataFrame:
    """QoS 0 inside and outside of pressure, in all.

    The first two rows are of all sessions and split the time in which there was QoS 0 to deliver: the slots
    in which some session was under pressure, and the others. The last two split the sessions' own time:
    intervals in which the session itself was under pressure, and the other intervals in which it had
    something to deliver; their seconds are session seconds.
    """
    in_all = windows.where(F.col("window_us").isNull())
    scopes = [
        ("pressure_windows", F.col("tight_busy_us"), [F.col(f"tight_{name}_qos0") for name in _FLOW]),
        (
            "other_windows",
            F.col("busy_us") - F.col("tight_busy_us"),
            [F.col(f"{name}_qos0") - F.col(f"tight_{name}_qos0") for name in _FLOW],
        ),
        (
            "sessions_under_pressure",
            F.col("pressed_duration_us"),
            [F.col(f"pressed_{name}_qos0") for name in _FLOW],
        ),
        ("other_sessions", F.col("calm_duration_us"), [F.col(f"calm_{name}_qos0") for name in _FLOW]),
    ]
    entries = []
    for scope, duration, (offered, sent, dropped) in scopes:
        entries.append(
            {
                "scope": F.lit(scope),
                "seconds": duration / MICROSECONDS,
                "offered_qos0": offered,
                "sent_qos0": sent,
                "dropped_qos0": dropped,
                "delivery_ratio": _fraction(sent, offered),
                "sent_qos0_per_second": _rate(sent, duration / MICROSECONDS),
            }
        )
    return _long(in_all, entries)


_FLOW: Final = ("offered", "sent", "dropped")


def queues(windows: DataFrame) -> DataFrame:
    """How full mailbox, mqueue and window of any session were, and what waited for how long (session seconds)."""
    clocks = [name.removesuffix("_us") for name in COUNTERS if name.endswith("_us")]
    return windows.select(
        "window_us",
        "mailbox_samples",
        "mailbox_busy_samples",
        _fraction(F.col("mailbox_busy_samples"), F.col("mailbox_samples")).alias("mailbox_busy_share"),
        *MAXIMA,
        *[(F.col(f"{name}_us") / MICROSECONDS).alias(f"{name}_seconds") for name in clocks],
        "resent_publish",
        "resent_pubrel",
    )


def books(windows: DataFrame) -> DataFrame:
    """By QoS, in all: do the books balance?

    offered = sent + dropped + growth of what waits, over all rows; and in how many rows that fails.
    """
    in_all = windows.where(F.col("window_us").isNull())
    entries = []
    for qos in (ALL_QOS, *map(str, QOS)):
        offered, sent, dropped = (_of_qos(name, qos) for name in _FLOW)
        growth = _of_qos("waiting", qos) - _of_qos("waiting_start", qos)
        entries.append(
            {
                "qos": F.lit(qos),
                "rows": F.col("rows"),
                "rows_off": F.col("books_off" if qos == ALL_QOS else f"books_off_qos{qos}"),
                "offered": offered,
                "sent": sent,
                "dropped": dropped,
                "waiting_growth": growth,
                "difference": offered - sent - dropped - growth,
                "rows_off_by_reason": F.col("reasons_off") if qos == ALL_QOS else F.lit(None).cast("bigint"),
            }
        )
    return _long(in_all, entries)


def worst(sessions: DataFrame) -> DataFrame:
    """The worst sessions as a table; `sessions` from `worst_sessions` and `waiting_times_of`."""
    return histograms.with_percentiles(sessions, "wait_hist", [("wait_p99_us", 990)]).select(
        F.lit(None).cast("bigint").alias("window_us"),
        "broker",
        "client_id",
        "session_started",
        "offered",
        "sent",
        "dropped",
        "delivery_ratio",
        *[f"{name}_qos{q}" for q in QOS for name in _FLOW],
        "gated",
        "wait_p99_us",
        "wait_p99_us_high",
        _fraction(F.col("window_full_us"), F.col("duration_us")).alias("window_full_share"),
        _fraction(F.col("congested_us"), F.col("duration_us")).alias("congested_share"),
        "mqueue_max",
        "mailbox_max",
    )
