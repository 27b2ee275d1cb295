"""A store for users of Spark: tables as DataFrames, percentiles in SQL, and the notebook."""

import json
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from pyspark.sql import functions as F

from spark_jobs import frames
from spark_jobs.measures.histogram import percentile
from spark_jobs.metrics import BUCKETS
from tests.support.spark.compacting import Run
from tests.support.spark.metrics_files import row, write_metrics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NOON: Final = datetime(2026, 11, 21, 12, tzinfo=UTC)


def test_a_store_as_dataframes(spark: "SparkSession", two_hours: tuple[Path, Path], run: Run) -> None:
    """Each table has its rows, with times as timestamps; a version and a range have theirs only."""
    _, store = two_hours
    found = frames.open(spark, str(store))
    hours = found.sessions.selectExpr("client_id", "unix_seconds(hour_start) AS hour", "offered_qos1").orderBy("hour")
    noon = int(NOON.timestamp())
    assert [tuple(row) for row in hours.collect()] == [("a", noon, 6), ("a", noon + 3600, 3)]
    assert [found.timeline.count(), found.starvation.count()] == [3, 0]
    late = frames.open(spark, str(store), start=NOON + timedelta(hours=1), end=NOON + timedelta(hours=2))
    assert late.sessions.count() == 1
    assert frames.open(spark, str(store), version=0).sessions.count() == 0


def only(bucket: int) -> float:
    """Any percentile of one value."""
    found = percentile([0] * bucket + [1] + [0] * (BUCKETS - 1 - bucket), 500)
    assert found is not None
    return found.value


def test_percentiles_are_those_of_the_report(spark: "SparkSession", two_hours: tuple[Path, Path]) -> None:
    """Of every bucket the same value; of several histograms together the same rank; null without values."""
    frames.open(spark, str(two_hours[1]))
    each = spark.range(BUCKETS).selectExpr("id", "histogram_percentile(array(256 + id), 0.5D) AS value")
    values = [only(bucket) for bucket in range(BUCKETS)]
    assert [row.value for row in each.orderBy("id").collect()] == pytest.approx(values, rel=1e-12)
    parts = spark.createDataFrame([([90 << 8 | 3, 2 << 8 | 200],), ([9 << 8 | 20],), (None,)], "buckets array<bigint>")
    whole = F.flatten(F.collect_list("buckets"))
    shares = [F.call_function("histogram_percentile", whole, F.lit(share)) for share in (0, 0.8, 0.9, 0.98, 0.99, 1)]
    found = parts.agg(*shares, F.call_function("histogram_percentile", F.array(), F.lit(0.5))).first()
    assert found is not None
    assert list(found) == [*map(only, (3, 3, 20, 20, 200, 200)), None]


def test_the_notebook_tells_who_was_starved(
    spark: "SparkSession", run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its cells run; by Spark and by Polars they find the same client, on last Tuesday only."""
    today = datetime.now(UTC).date()
    tuesday = today - timedelta(days=(today.weekday() - 1) % 7 or 7)
    noon = datetime(tuesday.year, tuesday.month, tuesday.day, 12, tzinfo=UTC)
    since = (noon - NOON) // timedelta(seconds=1)
    fine = [row("fine", since + 60 * n, 60, offered_qos1=2, sent_qos1=2) for n in range(1, 5)]
    starved = [row("starved", since + 60 * n, 60, offered_qos1=2, waiting_qos1=2 * n) for n in range(1, 5)]
    before = [row("earlier", since - 86400 + 60 * n, 60, offered_qos1=2, waiting_qos1=2 * n) for n in range(1, 5)]
    write_metrics(tmp_path / "raw", fine + starved + before)
    run(tmp_path / "raw", tmp_path / "store")
    monkeypatch.setenv("STORE", str(tmp_path / "store"))
    cells = json.loads((files("spark_jobs") / "starved-last-tuesday.ipynb").read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    told = [(line.client_id, line.runs, line.intervals, line.seconds) for line in names["starved"].collect()]
    assert told == [("starved", 1, 4, 240.0)]
    assert names["by_polars"].select("client_id", "runs", "intervals", "seconds").rows() == told
