"""Table `worst_hours`: the worst sessions by hour, and their waiting times.

Only the rows of a few sessions are collected. In a range of more than MOST_POINTS hours, several consecutive hours
become one point.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.arrays import Groups, ints, total_of
from spark_jobs.histograms import counts_by_group
from spark_jobs.measures.histogram import bounded, merged, percentile
from spark_jobs.measures.numbers import ratio
from spark_jobs.measures.result import Row
from spark_jobs.measures.sessions import CLIENT
from spark_jobs.metrics import QOS
from spark_jobs.store.schema import HOUR_US

MOST_SHOWN: Final = 12
MOST_POINTS: Final = 400
_FLOW: Final = ("offered", "sent", "dropped")
_SUMS: Final = ("starved_rows", "window_full_us", "duration_us")
_HISTOGRAMS: Final = {
    "wait": ("wait_qos0_buckets", "wait_qos1_buckets", "wait_qos2_buckets"),
    "ack": ("ack_qos1_buckets", "ack_qos2_buckets"),
}
COLUMNS: Final = (
    *CLIENT,
    "hour_us",
    *(f"{name}_qos{q}" for name in _FLOW for q in QOS),
    *_SUMS,
    *(name for parts in _HISTOGRAMS.values() for name in parts),
)
"""The columns that `hours_of` reads."""


def hours_of(parts: Iterable[pa.Table], few: Sequence[Row], hours: int) -> list[Row]:
    """The hours of a few sessions: rank (from 1, their index in `few`), hour_us, sums, and histograms wait and ack.

    Args:
        parts: rows by `store.schema.SESSION_COLUMNS`, with COLUMNS.
        few: the sessions by their keys.
        hours: number of hours of the range.
    """
    if not few:
        return []
    ranks = {tuple(row[name] for name in CLIENT): rank for rank, row in enumerate(few, 1)}
    names = pa.array([row["client_id"] for row in few])
    own = pa.concat_tables([part.filter(pc.is_in(part["client_id"], names)) for part in parts])
    rank = [ranks.get(key, 0) for key in zip(*[own[name].to_pylist() for name in CLIENT], strict=True)]
    step = HOUR_US * -(-hours // MOST_POINTS)
    hour = ints(own, "hour_us")
    own = own.append_column("rank", pa.array(rank, pa.int64())).append_column("point", pa.array(hour - hour % step))
    own = own.filter(pa.array(np.array(rank, np.int64) > 0))
    groups = Groups(own, ("rank", "point"))
    found: dict[str, list[Any]] = {name: array.to_pylist() for name, array in groups.keys().items()}
    found["hour_us"] = found.pop("point")
    found |= {name: groups.sum(total_of(own, [f"{name}_qos{q}" for q in QOS])).tolist() for name in _FLOW}
    found |= {name: groups.sum(ints(own, name)).tolist() for name in _SUMS}
    for name, columns in _HISTOGRAMS.items():
        found[name] = np.sum([counts_by_group(groups, own, column) for column in columns], axis=0).tolist()
    return [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]


def latencies(hours: Sequence[Row], rank: int) -> Mapping[str, Any]:
    """Of one client over all its hours: the 99th percentile of waiting, the 1st and 50th of acknowledgement."""
    own = [row for row in hours if row["rank"] == rank]
    ack = merged(row["ack"] for row in own)
    found = {name: percentile(ack, per_mille) for name, per_mille in (("ack_p1", 10), ("ack_p50", 500))}
    values = {name: None if each is None else each.value for name, each in found.items()}
    return {**bounded("wait_p99", merged(row["wait"] for row in own), 990), **values}


def worst_hours(hours: Sequence[Row], few: Sequence[Row]) -> list[Row]:
    """The rows of the table: the first MOST_SHOWN of the few sessions, hour by hour."""
    rows = []
    for row in hours:
        if row["rank"] > MOST_SHOWN:
            continue
        rows.append(
            {
                **{name: few[row["rank"] - 1][name] for name in CLIENT},
                **{
                    name: row[name]
                    for name in ("rank", "hour_us", "offered", "sent", "dropped", "starved_rows")
                },
                "delivery_ratio": ratio(row["sent"], row["offered"]),
                **bounded("ack_p99", row["ack"], 990),
                **bounded("wait_p99", row["wait"], 990),
                "window_full_share": ratio(row["window_full_us"], row["duration_us"]),
            }
        )
    return rows
