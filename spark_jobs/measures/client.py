"""Table `client`: everything about one client, one row for each of its sessions and hours (`--client`)."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.measures.histogram import bounded, unpacked
from spark_jobs.measures.layout import CLIENT
from spark_jobs.measures.numbers import ratio
from spark_jobs.measures.result import Row
from spark_jobs.measures.sessions import CLIENT as KEY
from spark_jobs.measures.sessions import due, totals_of
from spark_jobs.measures.why import shares, why
from spark_jobs.metrics import HISTOGRAMS

NAME: Final = "client"
_COLUMNS: Final = tuple(name for name, _ in CLIENT.columns)


def of_client(rows: DataFrame, client_id: str) -> DataFrame:
    """The hours of one client, on all brokers.

    Args:
        rows: rows by `store.schema.SESSION_COLUMNS`.
        client_id: its name.
    """
    return rows.where(F.col("client_id") == client_id).withColumns(totals_of() | due())


def client_hours(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """The rows of the table, by broker, start of the session and hour.

    Args:
        rows: rows of `of_client`.
    """
    made = []
    for counted in rows:
        row: Row = dict(counted)
        row |= shares(row) | {"why": why(row), "connected_share": ratio(row["connected_us"], row["duration_us"])}
        row["delivery_ratio"] = ratio(row["sent"], row["due"])
        for name in HISTOGRAMS:
            row |= bounded(f"{name.removesuffix('_buckets')}_p99", unpacked(row[name]), 990)
        made.append({name: row[name] for name in _COLUMNS})
    return sorted(made, key=lambda row: [row[name] for name in (*KEY, "session_started_us", "hour_us")])
