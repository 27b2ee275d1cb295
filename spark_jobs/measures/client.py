"""Table `client`: everything about one client, one row for each of its sessions and hours (`--client`)."""

from collections.abc import Iterable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.measures.histogram import bounded
from spark_jobs.measures.layout import CLIENT
from spark_jobs.measures.numbers import ratio
from spark_jobs.measures.result import Row
from spark_jobs.measures.sessions import KEY, of_hours
from spark_jobs.measures.why import shares, why
from spark_jobs.metrics import BUCKETS, COUNT_SHIFT, HISTOGRAMS

NAME: Final = "client"
_COLUMNS: Final = tuple(name for name, _ in CLIENT.columns)


def client_hours(parts: Iterable[pa.Table], client_id: str) -> list[Row]:
    """The rows of the table, by broker, start of the session and hour.

    Args:
        parts: rows by `store.schema.SESSION_COLUMNS`.
        client_id: of all brokers.
    """
    own = pa.concat_tables([part.filter(pc.equal(part["client_id"], client_id)) for part in parts])
    rows = []
    for counted, summed in zip(own.to_pylist(), of_hours(own).to_pylist(), strict=True):
        row: Row = {**counted, **summed}
        row |= shares(row) | {"why": why(row), "connected_share": ratio(row["connected_us"], row["duration_us"])}
        row["delivery_ratio"] = ratio(row["sent"], row["due"])
        for name in HISTOGRAMS:
            row |= bounded(f"{name.removesuffix('_buckets')}_p99", _counts(counted[name]), 990)
        rows.append({name: row[name] for name in _COLUMNS})
    return sorted(rows, key=lambda row: [row[name] for name in (*KEY, "hour_us")])


def _counts(entries: Iterable[int] | None) -> list[int]:
    counts = [0] * BUCKETS
    for entry in entries or ():
        counts[entry % BUCKETS] += entry >> COUNT_SHIFT
    return counts
