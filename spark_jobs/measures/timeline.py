"""Table `timeline`: deliveries, fairness and pressure over time, from the slots of all brokers.

A **window** is a whole number of slots and has one row for each QoS. Its `latency_p99` is the wait until first sent at
QoS 0, and the time from first sent to acknowledged at QoS 1 and 2; see `spark_jobs.measures.histogram` for its bounds.
Jain's index of a window is over the sessions' intervals (x = min(1, sent / offered) of the interval, in steps of
0.001 %), `lowest_delivery_ratio` the lowest x. `pressed_sessions` is the share of its session intervals under pressure.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from spark_jobs.arrays import Groups, Ints, ints
from spark_jobs.histograms import counts_by_group, sums_by_group
from spark_jobs.measures.evenness import Evenness
from spark_jobs.measures.histogram import bounded
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
_NONE: Final = np.iinfo(np.int64).max  # the lowest value of nothing
COLUMNS: Final = ("slot", *_FLOW, *_GATED, *_ROWS, *_FAIR, *_LOWEST, *_MAXIMA, *TIMELINE_HISTOGRAMS)
"""The columns that `by_window` reads."""


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


def by_window(parts: Iterable[pa.Table], slot_us: int, window_us: int, first_us: int) -> list[Row]:
    """Merge the slots of all brokers, and sum them by window.

    `covered_us` is for the rates of one window: a slot covers the time from the last export of the slot before it to
    its own last one; but at most two slots, because in a longer gap no session had anything to report, and at most one
    as the first of a window. `passed_us` is for the rates of many windows together: the same, but at most an hour.

    Args:
        parts: rows by `store.schema.TIMELINE_COLUMNS`, with COLUMNS.
        slot_us: length of a slot.
        window_us: length of a window, a whole number of slots.
        first_us: the start of the first interval.
    """
    merged = [_slots(part) for part in parts]
    slots = _slots(pa.concat_tables(merged)) if merged else None
    if slots is None or not slots.num_rows:
        return []
    slot = ints(slots, "slot")
    slots = slots.append_column("start_us", pa.array(slot - slot % window_us))
    groups = Groups(slots, ["start_us"])  # the slots are in order already
    last = ints(slots, "last_us")
    since = np.diff(last, prepend=max(first_us, int(last[0]) - slot_us))
    covered = np.minimum(since, 2 * slot_us)
    covered[groups.starts] = np.minimum(since[groups.starts], slot_us)
    columns = {"start_us": groups.first("start_us").to_pylist(), "covered_us": groups.sum(covered).tolist()}
    columns["passed_us"] = groups.sum(np.minimum(since, HOUR_US)).tolist()
    columns |= {name: groups.sum(ints(slots, name)).tolist() for name in (*_FLOW, *_GATED, *_ROWS)}
    # The sum of squares may be above 2**63: as whole numbers of Python.
    columns |= {name: groups.sum(ints(slots, name).astype(object)).tolist() for name in _FAIR}
    columns |= {name: groups.min(_lowest(slots, name)).tolist() for name in _LOWEST}
    columns |= {name: groups.max(ints(slots, name)).tolist() for name in _MAXIMA}
    columns |= {name: counts_by_group(groups, slots, name).tolist() for name in TIMELINE_HISTOGRAMS}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _slots(rows: pa.Table) -> pa.Table:
    """The slots of several brokers, or parts of them, merged."""
    groups = Groups(rows, ["slot"])
    columns = groups.keys() | {
        name: pa.array(groups.sum(ints(rows, name))) for name in (*_FLOW, *_GATED, *_ROWS, *_FAIR)
    }
    columns |= {name: pa.array(groups.min(_lowest(rows, name))) for name in _LOWEST}
    columns |= {name: pa.array(groups.max(ints(rows, name))) for name in _MAXIMA}
    for name in TIMELINE_HISTOGRAMS:
        columns[name] = sums_by_group(groups, rows, name)
    return pa.table(columns)


def _lowest(rows: pa.Table, name: str) -> Ints:
    column = rows[name].combine_chunks()
    return np.where(column.is_valid().to_numpy(zero_copy_only=False), ints(rows, name), _NONE)


def timeline(windows: Sequence[Row], window_us: int) -> list[Row]:
    """The rows of the table."""
    return [
        _point(window, qos, window_us) for window in windows for qos in EACH_QOS
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
        "dropped_per_second": per_second(lost_in(window, qos), window["covered_us"]),
        "pressed_sessions": ratio(window["pressed_rows"], window["rows"]),
        "jain_delivery_ratio": Evenness(n, x, xx).jain,
        "lowest_delivery_ratio": ratio(window[f"fair_min_{qos}"], FAIR_ONE) if n else None,
        "gated": gated_in(window) if qos in {ALL_QOS, "0"} else 0,
        "mailbox_max": window["mailbox_max"],
        "mqueue_max": window["mqueue_max"],
        **(bounded("latency_p99", window[_LATENCY[qos]], 990) if qos in _LATENCY else {}),
    }
