"""The compared measures: for each its value over the whole range, by hour, and from the sums of the timeline's windows.

Values that need all clients (starvation, evenness), shares of the sessions' time, and extremes cannot be computed from
the sums of windows; extremes, Jain's index of the delivery ratio and pressure have values by window instead.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from spark_jobs.comparison.bootstrap import Pooled, p99, share
from spark_jobs.measures.numbers import DIGITS, MICROSECONDS, ratio
from spark_jobs.measures.result import Result, Row
from spark_jobs.measures.sums import ALL_QOS
from spark_jobs.measures.timeline import count_of, gated_in, lost_in

Value = float | None


@dataclass(frozen=True)
class Measured:
    """One compared measure.

    Attributes:
        measure: its stable name.
        name: its displayed name.
        unit: share (a fraction), index, us, per_second, clients, deliveries.
        better: 1 if more is better, -1 if less is better, else 0.
        value: over the whole range.
        hour: from a row of table `hours`; None if there is no hourly value.
        window: from a row of `timeline` of all QoS; None if there is no value by window, or `pooled` is better.
        pooled: how `value` follows from the sums of windows; None if it does not.
        due: what the value should have been made of: if this is not 0 and there is no value, deliveries were offered
            and none was sent or acknowledged, and a limit is missed. None: no value means that there was nothing.
    """

    measure: str
    name: str
    unit: str
    better: int
    value: Callable[[Result], Value]
    hour: Callable[[Row], Value] | None = None
    window: Callable[[Row], Value] | None = None
    pooled: Pooled | None = None
    due: Callable[[Result], Value] | None = None


def _column(name: str) -> Callable[[Row], Value]:
    return lambda row: row[name]


def _in(table: str, column: str, **values: object) -> Callable[[Result], Value]:
    """A column of the first row of a table that has these values; None if there is no such row."""

    def found(result: Result) -> Value:
        row = result.maybe(table, **values)
        return None if row is None else row[column]

    return found


def _count(name: str, qos: str = ALL_QOS) -> Callable[[Row], int]:
    return lambda row: count_of(row, name, qos)


def _pooled_rate(count: Callable[[Row], int]) -> Pooled:
    return share(count, lambda row: row["passed_us"], MICROSECONDS)


def _hourly_rate(column: str) -> Callable[[Row], Value]:
    return lambda row: round(row[column] / row["seconds"], DIGITS) if row["seconds"] else None


def _gated(result: Result) -> Value:
    gated = sum(row["deliveries"] for row in result.rows_of("reasons") if row["what"] == "gated")
    return ratio(gated, result.one("totals", qos="0")["offered"])


def _latency(measure: str, name: str, metric: str, qos: str) -> Measured:
    value = _in("percentiles", "p99", metric=metric, qos=qos, scope="all")
    pooled = p99(f"{metric}_qos{qos}_buckets")
    return Measured(measure, name, "us", -1, value, _column(measure), pooled=pooled, due=_handled(qos))


def _handled(qos: str) -> Callable[[Result], Value]:
    """Deliveries of a QoS that were offered, or were sent from an earlier backlog."""

    def found(result: Result) -> Value:
        row = result.one("totals", qos=qos)
        return int(row["offered"]) + int(row["sent"])

    return found


def _even(measure: str, name: str, better: int) -> Measured:
    value, due = (_in("fairness", column, scope="all", qos="all") for column in (measure, "goodput_clients"))
    return Measured(measure, name, "index", better, value, _column(measure), due=due)


MEASURED: Final = (
    Measured(
        "jain_delivery_ratio",
        "Jain’s index of the delivery ratio",
        "index",
        1,
        _in("fairness", "jain_delivery_ratio", scope="all", qos="all"),
        _column("jain_delivery_ratio"),
        _column("jain_delivery_ratio"),
        due=_in("fairness", "clients", scope="all", qos="all"),
    ),
    Measured(
        "lowest_delivery_ratio",
        "Lowest delivery ratio",
        "share",
        1,
        _in("fairness", "lowest_delivery_ratio", scope="all", qos="all"),
        window=_column("lowest_delivery_ratio"),
    ),
    _even("jain_goodput", "Jain’s index of goodput", 1),
    _even("maxmin_goodput", "Max-min share of goodput", 1),
    _even("gini_goodput", "Gini’s coefficient of goodput", -1),
    Measured(
        "starved_sessions",
        "Starved clients",
        "clients",
        -1,
        _in("starvation", "clients", length="all"),
        _column("starved_sessions"),
    ),
    Measured(
        "inverted_qos0",
        "QoS 0 that overtook waiting QoS 1 and 2",
        "deliveries",
        -1,
        _in("inversion", "inverted_qos0"),
        _column("inverted_qos0"),
    ),
    _latency("ack_qos1_p99", "QoS 1 acknowledged, 99th percentile", "ack", "1"),
    _latency("ack_qos2_p99", "QoS 2 acknowledged, 99th percentile", "ack", "2"),
    _latency("wait_qos0_p99", "QoS 0 sent, 99th percentile", "wait", "0"),
    Measured(
        "delivery_ratio",
        "Sent of offered",
        "share",
        1,
        _in("totals", "delivery_ratio", qos="all"),
        _column("delivery_ratio"),
        pooled=share(_count("sent"), _count("due")),
    ),
    Measured(
        "delivery_ratio_qos0",
        "Sent of offered, QoS 0",
        "share",
        1,
        _in("totals", "delivery_ratio", qos="0"),
        pooled=share(_count("sent", "0"), _count("due", "0")),
    ),
    Measured(
        "sent_per_second",
        "Deliveries sent",
        "per_second",
        0,
        _in("totals", "sent_per_second", qos="all"),
        _hourly_rate("sent"),
        pooled=_pooled_rate(_count("sent")),
    ),
    Measured(
        "dropped_per_second",
        "Deliveries dropped",
        "per_second",
        -1,
        _in("totals", "dropped_per_second", qos="all"),
        _hourly_rate("lost"),
        pooled=_pooled_rate(lambda row: lost_in(row, ALL_QOS)),
    ),
    Measured(
        "pressure_share",
        "Sessions’ time under pressure",
        "share",
        -1,
        _in("totals", "pressure_share", qos="all"),
        _column("pressure_share"),
        _column("pressed_sessions"),
    ),
    Measured(
        "gated_share", "QoS 0 gated", "share", 0, _gated, pooled=share(gated_in, _count("offered", "0"))
    ),
    Measured(
        "mailbox_busy_share",
        "Mailboxes sampled busy",
        "share",
        -1,
        _in("queues", "mailbox_busy_share"),
        _column("mailbox_busy_share"),
    ),
    Measured(
        "groups_lost",
        "Deliveries lost by groups",
        "deliveries",
        -1,
        _in("queues", "groups_lost"),
    ),
    Measured(
        "mailbox_max",
        "Longest mailbox",
        "deliveries",
        -1,
        _in("queues", "mailbox_max"),
        window=_column("mailbox_max"),
    ),
)
