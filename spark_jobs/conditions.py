"""Conditions and values of one row of the metrics: columns in, a column out."""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from spark_jobs.metrics import DROP_REASONS, GATE_REASONS, QOS, drop_column


def duration() -> Column:
    """The length of the row's interval in microseconds; 0 if its clock ran backwards."""
    length = F.unix_micros(F.col("interval_end")) - F.unix_micros(F.col("interval_start"))
    return F.greatest(length, F.lit(0))


def gated() -> Column:
    """QoS 0 deliveries that the gate queued, for all reasons."""
    columns = [F.col(f"gated_{reason}") for reason in GATE_REASONS]
    return sum(columns[1:], columns[0])


def pressure() -> Column:
    """Whether the row's session was under pressure in the interval."""
    return (
        (F.col("congested_us") > 0)
        | (F.col("window_full_us") > 0)
        | (F.col("window_bytes_full_us") > 0)
        | (F.col("rate_limited_us") > 0)
        | (F.col("mailbox_busy_samples") > 0)
        | (gated() > 0)
    )


def books_off(qos: int) -> Column:
    """Whether the row breaks waiting_start + offered = sent + dropped + waiting at this QoS."""
    entered = F.col(f"waiting_start_qos{qos}") + F.col(f"offered_qos{qos}")
    left = F.col(f"sent_qos{qos}") + F.col(f"dropped_qos{qos}") + F.col(f"waiting_qos{qos}")
    return entered != left


def reasons_off() -> Column:
    """Whether at some QoS the sum of the row's drops by reason differs from its drops."""
    wrong = F.lit(False)
    for qos in QOS:
        names = [name for reason in DROP_REASONS if (name := drop_column(reason, qos)) is not None]
        wrong = wrong | (
            sum((F.col(name) for name in names[1:]), F.col(names[0])) != F.col(f"dropped_qos{qos}")
        )
    return wrong
