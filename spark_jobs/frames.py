"""The tables of a store as DataFrames, and percentiles of their histograms, for everybody with Spark or SQL.

    from spark_jobs import frames

    store = frames.open(spark, "STORE")
    store.sessions.createOrReplaceTempView("sessions")
    spark.sql("SELECT client_id, histogram_percentile(flatten(collect_list(ack_qos1_buckets)), 0.99) AS p99_us"
              " FROM sessions GROUP BY client_id ORDER BY p99_us DESC").show()

STORE.md describes the columns. In a program `pyspark.sql.functions.call_function` calls `histogram_percentile`.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from spark_jobs.store.frames import timed_rows
from spark_jobs.store.schema import GROUPS, INTERVALS, SESSIONS, STARVATION, TIMELINE
from spark_jobs.store.store import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BUCKET: Final = "found.bucket"
_WIDTH: Final = f"power(2D, {_BUCKET} DIV 8 - 1)"
_LOW: Final = f"(8 + {_BUCKET} % 8) * {_WIDTH}"
_HIGH: Final = f"({_LOW} + {_WIDTH} - 1)"
_COUNT_BITS: Final = 55  # of `bucket << _COUNT_BITS | count`, which sorts by bucket
_PERCENTILE: Final = f"""
CREATE OR REPLACE TEMPORARY FUNCTION histogram_percentile(buckets ARRAY<BIGINT>, share DOUBLE) RETURNS DOUBLE
COMMENT 'The value at rank ceil(share * count) within 6 %; of several histograms by flatten(collect_list(...)).'
RETURN aggregate(
    array_sort(transform(buckets, entry -> ((entry & 255) << {_COUNT_BITS}) | (entry >> 8))),
    named_struct(
        'left', CAST(greatest(1, ceil(
            CAST(share AS DECIMAL(10, 9)) * aggregate(buckets, 0L, (count, entry) -> count + (entry >> 8))
        )) AS BIGINT),
        'bucket', CAST(NULL AS BIGINT)
    ),
    (found, entry) -> named_struct(
        'left', found.left - (entry & {(1 << _COUNT_BITS) - 1}L),
        'bucket', IF(found.left > 0, entry >> {_COUNT_BITS}, {_BUCKET})
    ),
    found -> CASE
        WHEN {_BUCKET} < 16 THEN CAST({_BUCKET} AS DOUBLE)
        WHEN {_BUCKET} = 255 THEN {_LOW}
        ELSE round(2 * {_LOW} * {_HIGH} / ({_LOW} + {_HIGH}), 3)
    END
)"""
"""As `metrics_schema.json` describes histograms, and MEASURES.md percentiles."""


@dataclass(frozen=True)
class Frames:
    """The tables of one state of a store, without partition columns; times are timestamps."""

    sessions: "DataFrame"
    timeline: "DataFrame"
    starvation: "DataFrame"
    intervals: "DataFrame"
    groups: "DataFrame"


def open(  # noqa: A001  # like gzip.open
    spark: "SparkSession",
    uri: str,
    version: int | None = None,
    start: datetime | None = None,
    end: datetime | None = None,
) -> Frames:
    """Open a store, and register `histogram_percentile` in the session.

    Args:
        spark: any session of Spark 4, one of Spark Connect too if its server reaches the store.
        uri: the store's folder.
        version: of `sessions`; None: the newest. The other tables are as they were then.
        start, end: only files of hours that overlap [start, end); None: open.

    Raises:
        ReportError: there is no store, or no such version.
    """
    snapshot = open_store(uri, version).snapshot
    spark.sql(_PERCENTILE)
    start_us, end_us = _micros(start), _micros(end)

    def frame(dataset: str) -> "DataFrame":
        return timed_rows(spark, snapshot, dataset, snapshot.files(dataset, start_us, end_us))

    return Frames(frame(SESSIONS), frame(TIMELINE), frame(STARVATION), frame(INTERVALS), frame(GROUPS))


def _micros(time: datetime | None) -> int | None:
    return None if time is None else int(time.timestamp()) * 1_000_000
