"""Table `timeline`: deliveries, fairness and pressure over time, from the slots of all brokers.

A **slot** is under pressure if any session's send path was congested, its window full (in deliveries or bytes), its
rate used up, its mailbox sampled busy, or its QoS 0 gated. A **window** is a whole number of slots and has one row for
each QoS. Its `latency_p99` is the wait until first sent at QoS 0, and the time from first sent to acknowledged at QoS 1
and 2; see `spark_jobs.measures.histogram` for its bounds. Jain's index of a window is over the sessions' intervals
(x = min(1, sent / offered) of the interval, in steps of 0.001 %), `lowest_delivery_ratio` the lowest x.
`pressure_share` is the share of the window's time with a session under pressure, `pressed_sessions` the share of its
session intervals under pressure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from spark_jobs.compaction.schema import FAIR_ONE, FAIR_SCOPES, TIMELINE_HISTOGRAMS
from spark_jobs.measures.evenness import Evenness
from spark_jobs.measures.histogram import bounded
from spark_jobs.measures.numbers import per_second, ratio
from spark_jobs.measures.percentiles import kind_of
from spark_jobs.measures.result import Row
from spark_jobs.measures.sums import ALL_QOS, EACH_QOS
from spark_jobs.metrics import BUCKETS, GATE_REASONS, QOS

MOST_POINTS: Final = 400  # points that a plot of the page's width can resolve
_TIMES: Final = (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60)
_FLOW: Final = tuple(f"{name}_qos{q}" for name in ("offered", "sent", "dropped") for q in QOS)
_GATED: Final = tuple(f"gated_{reason}" for reason in GATE_REASONS)
_ROWS: Final = ("rows", "pressed_rows")
_MAXIMA: Final = ("mailbox_max", "mqueue_max")
_LATENCY: Final = {kind_of(name)[1]: name for name in TIMELINE_HISTOGRAMS}  # by QoS
_EXACT: Final = "decimal(38,0)"


def choose_window(first_us: int, last_us: int, slot_us: int) -> int:
    """The length of a window, a whole number of slots, in microseconds: the range has at most MOST_POINTS windows."""
    slots = -(-(last_us - first_us) // slot_us) + 1  # one more if the range does not begin with a slot
    factor = 1
    while True:
        for times in _TIMES:
            if slots <= (MOST_POINTS - 1) * times * factor:
                return times * factor * slot_us
        factor *= _TIMES[-1]


@dataclass(frozen=True)
class Clock:
    """The windows of a timeline, the time that they cover, and their time under pressure."""

    windows: Sequence[Row]
    covered_us: int
    pressure_us: int

    def count(self, prefix: str, qos: str) -> int:
        """A counter of one QoS or of all, over all windows."""
        return sum(count_of(window, prefix, qos) for window in self.windows)


def count_of(window: Mapping[str, int], prefix: str, qos: str) -> int:
    """A window's counter of one QoS or of all."""
    return sum(window[f"{prefix}_qos{q}"] for q in (QOS if qos == ALL_QOS else (qos,)))


def by_window(timeline: DataFrame, slot_us: int, window_us: int) -> Clock:
    """Merge the slots of all brokers, and sum them by window.

    A slot covers the time since the previous slot, so that two exports in one slot and none in the next do not count
    twice; but at most two slots, because in a longer gap no session had anything to report. The first slot of a window
    covers itself.

    Args:
        timeline: rows by `compaction.schema.TIMELINE_COLUMNS`.
        slot_us: length of a slot.
        window_us: length of a window, a whole number of slots.
    """
    fair = [f"fair_{what}_{scope}" for what in ("n", "x", "xx") for scope in FAIR_SCOPES]
    lowest = [f"fair_min_{scope}" for scope in FAIR_SCOPES]
    slots = timeline.groupBy("slot").agg(
        *[F.sum(name).alias(name) for name in (*_FLOW, *_GATED, *_ROWS)],
        *[F.sum(F.col(name).cast(_EXACT)).cast(_EXACT).alias(name) for name in fair],
        *[F.min(name).alias(name) for name in lowest],
        *[F.max(name).alias(name) for name in _MAXIMA],
    )
    slots = slots.withColumn("start_us", F.col("slot") - F.pmod(F.col("slot"), F.lit(window_us)))
    before = F.lag("slot").over(Window.partitionBy("start_us").orderBy("slot"))
    since = F.least(F.coalesce(F.col("slot") - before, F.lit(slot_us)), F.lit(2 * slot_us))
    slots = slots.withColumn("covered_us", since)
    pressed = F.when(F.col("pressed_rows") > 0, F.col("covered_us")).otherwise(0)
    windows = slots.groupBy("start_us").agg(
        *[F.sum(name).alias(name) for name in (*_FLOW, *_GATED, *_ROWS, "covered_us")],
        F.sum(pressed).alias("pressure_us"),
        *[F.sum(name).cast(_EXACT).alias(name) for name in fair],
        *[F.min(name).alias(name) for name in lowest],
        *[F.max(name).alias(name) for name in _MAXIMA],
    )
    rows = sorted(windows.toArrow().to_pylist(), key=lambda row: int(row["start_us"]))
    latencies = _latencies(timeline, window_us)
    rows = [row | latencies[row["start_us"]] for row in rows]
    return Clock(rows, sum(row["covered_us"] for row in rows), sum(row["pressure_us"] for row in rows))


def _latencies(timeline: DataFrame, window_us: int) -> dict[int, Row]:
    """The histograms of every window, by its start."""
    # As one text: building a hundred expressions one by one takes longer than the query.
    sums = [
        f"array({', '.join(f'coalesce(sum(get({name}, {bucket})), 0L)' for bucket in range(BUCKETS))}) AS {name}"
        for name in TIMELINE_HISTOGRAMS
    ]
    start = F.col("slot") - F.pmod(F.col("slot"), F.lit(window_us))
    windows = timeline.groupBy(start.alias("start_us")).agg(*[F.expr(text) for text in sums])
    return {row.pop("start_us"): row for row in windows.toArrow().to_pylist()}


def timeline(clock: Clock, window_us: int) -> list[Row]:
    """The rows of the table."""
    return [
        _point(window, qos, window_us) for window in clock.windows for qos in EACH_QOS
    ]  # by time, then QoS


def _point(window: Row, qos: str, window_us: int) -> Row:
    n, x, xx = (int(window[f"fair_{what}_{qos}"]) for what in ("n", "x", "xx"))
    sent, dropped = (count_of(window, name, qos) for name in ("sent", "dropped"))
    return {
        "qos": qos,
        "start_us": window["start_us"],
        "window_us": window_us,
        "offered": count_of(window, "offered", qos),
        "sent": sent,
        "dropped": dropped,
        "sent_per_second": per_second(sent, window["covered_us"]),
        "dropped_per_second": per_second(dropped, window["covered_us"]),
        "pressure_share": ratio(window["pressure_us"], window["covered_us"]),
        "pressed_sessions": ratio(window["pressed_rows"], window["rows"]),
        "jain_delivery_ratio": Evenness(n, x, xx).jain,
        "lowest_delivery_ratio": ratio(window[f"fair_min_{qos}"], FAIR_ONE) if n else None,
        "gated": sum(window[name] for name in _GATED) if qos in {ALL_QOS, "0"} else 0,
        "mailbox_max": window["mailbox_max"],
        "mqueue_max": window["mqueue_max"],
        **(bounded("latency_p99", window[_LATENCY[qos]], 990) if qos in _LATENCY else {}),
    }
