"""Table `timeline`: deliveries, fairness and pressure over time, from the slots of all brokers.

A **window** is a whole number of slots and has one row for each QoS. Its `latency_p99` is the wait until first sent at
QoS 0, and the time from first sent to acknowledged at QoS 1 and 2; see `spark_jobs.measures.histogram` for its bounds.
Jain's index of a window is over the sessions' intervals (x = min(1, sent / offered) of the interval, in steps of
0.001 %), `lowest_delivery_ratio` the lowest x. `pressed_sessions` is the share of its session intervals under pressure.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_jobs.columns import maxima, sums
from spark_jobs.datasets.histograms import with_sums
from spark_jobs.datasets.raw import start_of
from spark_jobs.measures.evenness import Evenness
from spark_jobs.measures.histogram import bounded, unpacked
from spark_jobs.measures.numbers import per_second, ratio
from spark_jobs.measures.percentiles import kind_of
from spark_jobs.measures.result import Row
from spark_jobs.measures.sums import ALL_QOS, EACH_QOS
from spark_jobs.metrics import GATE_REASONS, QOS
from spark_jobs.store.schema import FAIR_ONE, FAIR_SCOPES, HOUR_US, TIMELINE_HISTOGRAMS

MOST_POINTS: Final = 400  # points that a plot of the page's width can resolve
_TIMES: Final = (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60)
_FLOW: Final = tuple(f"{name}_qos{q}" for name in ("offered", "due", "sent", "dropped", "away_dropped") for q in QOS)
_GATED: Final = tuple(f"gated_{reason}" for reason in GATE_REASONS)
_ROWS: Final = ("rows", "pressed_rows")
_MAXIMA: Final = ("last_us", "mailbox_max", "mqueue_max")
_LATENCY: Final = {kind_of(name)[1]: name for name in TIMELINE_HISTOGRAMS}  # by QoS
_FAIR: Final = tuple(f"fair_{what}_{scope}" for what in ("n", "x", "xx") for scope in FAIR_SCOPES)
_LOWEST: Final = tuple(f"fair_min_{scope}" for scope in FAIR_SCOPES)


def choose_window(first_us: int, last_us: int, slot_us: int) -> int:
    """The length of a window, a whole number of slots, in microseconds: the range has at most MOST_POINTS windows."""
    slots = -(-(last_us - first_us) // slot_us) + 1  # one more if the range does not begin with a slot
    factor = 1
    while True:
        for times in _TIMES:
            if slots <= (MOST_POINTS - 1) * times * factor:
                return times * factor * slot_us
        factor *= _TIMES[-1]


def count_of(window: Mapping[str, int], prefix: str, qos: str) -> int:
    """A window's counter of one QoS or of all."""
    return sum(window[f"{prefix}_qos{q}"] for q in (QOS if qos == ALL_QOS else (qos,)))


def lost_in(window: Mapping[str, int], qos: str) -> int:
    """What was dropped in a window for clients that were there, at one QoS or all."""
    return count_of(window, "dropped", qos) - count_of(window, "away_dropped", qos)


def gated_in(window: Mapping[str, int]) -> int:
    """How much QoS 0 was gated in a window."""
    return sum(window[name] for name in _GATED)


def by_window(rows: DataFrame, slot_us: int, window_us: int, first_us: int) -> DataFrame:
    """Merge the slots of all brokers, and sum them by window.

    `covered_us` is for the rates of one window: a slot covers the time from the last export of the slot before it to
    its own last one; but at most two slots, because in a longer gap no session had anything to report, and at most one
    as the first of a window. `passed_us` is for the rates of many windows together: the same, but at most an hour.

    Args:
        rows: rows by `store.schema.TIMELINE_COLUMNS`.
        slot_us: length of a slot.
        window_us: length of a window, a whole number of slots.
        first_us: the start of the first interval.
    """
    rows = rows.withColumn("start_us", start_of("slot", window_us))
    columns = [
        *sums((*_FLOW, *_GATED, *_ROWS)),
        # The sum of squares may be above 2**63.
        *[F.sum(F.col(name).cast("decimal(38,0)")).alias(name) for name in _FAIR],
        *[F.min(name).alias(name) for name in _LOWEST],
        *maxima(_MAXIMA),
    ]
    in_time = Window.orderBy("slot")
    last = F.col("last_us")
    since = last - F.coalesce(F.lag(last).over(in_time), F.greatest(F.lit(first_us), last - slot_us))
    same = F.col("start_us") == F.lag("start_us").over(in_time)
    slots = rows.groupBy("start_us", "slot").agg(*columns)
    slots = slots.withColumns(
        {
            "covered_us": F.least(since, F.when(same, 2 * slot_us).otherwise(slot_us)),
            "passed_us": F.least(since, F.lit(HOUR_US)),
        }
    )
    windows = slots.groupBy("start_us").agg(*columns, *sums(("covered_us", "passed_us")))
    return with_sums(windows, ["start_us"], [(rows, {name: name for name in TIMELINE_HISTOGRAMS})])


def windows_of(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """The same of rows of `by_window`, in order, with whole numbers and counts of all buckets."""
    return [
        {
            **row,
            **{name: int(row[name]) for name in _FAIR},
            **{name: unpacked(row[name]) for name in TIMELINE_HISTOGRAMS},
        }
        for row in sorted(rows, key=lambda row: row["start_us"])
    ]


def timeline(windows: Sequence[Row], window_us: int) -> list[Row]:
    """The rows of the table."""
    return [
        _point(window, qos, window_us) for window in windows for qos in EACH_QOS
    ]  # by time, then QoS


def _point(window: Row, qos: str, window_us: int) -> Row:
    n, x, xx = (window[f"fair_{what}_{qos}"] for what in ("n", "x", "xx"))
    sent, dropped = (count_of(window, name, qos) for name in ("sent", "dropped"))
    return {
        "qos": qos,
        "start_us": window["start_us"],
        "window_us": window_us,
        "offered": count_of(window, "offered", qos),
        "sent": sent,
        "dropped": dropped,
        "sent_per_second": per_second(sent, window["covered_us"]),
        "dropped_per_second": per_second(lost_in(window, qos), window["covered_us"]),
        "pressed_sessions": ratio(window["pressed_rows"], window["rows"]),
        "jain_delivery_ratio": Evenness(n, x, xx).jain,
        "lowest_delivery_ratio": ratio(window[f"fair_min_{qos}"], FAIR_ONE) if n else None,
        "gated": gated_in(window) if qos in {ALL_QOS, "0"} else 0,
        "mailbox_max": window["mailbox_max"],
        "mqueue_max": window["mqueue_max"],
        **(bounded("latency_p99", window[_LATENCY[qos]], 990) if qos in _LATENCY else {}),
    }
