"""Percentiles read off histograms, compared with exact ones."""

import random
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs import histograms
from spark_jobs.metrics import BUCKETS
from tests.support_spark.metrics_files import histogram

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def exact(values: list[int], per_mille: int) -> int:
    """The value at rank ceil(p * n)."""
    return sorted(values)[-(-len(values) * per_mille // 1000) - 1]


def percentiles_of(spark: "SparkSession", hists: list[list[int] | None]) -> list[dict[str, Any]]:
    """What with_percentiles says of each histogram, in their order."""
    frame = spark.createDataFrame(list(enumerate(hists)), "id int, h array<bigint>")
    rows = histograms.with_percentiles(frame, "h").orderBy("id").collect()
    return [row.asDict() for row in rows]


def test_bounds_enclose_the_exact_percentiles(spark: "SparkSession") -> None:
    """For samples of many shapes and sizes, exact percentile and value lie between low and high."""
    rng = random.Random(7)
    sets = [[rng.randrange(2 ** rng.randrange(1, 30)) for _ in range(n)] for n in (1, 2, 3, 19, 20, 21, 700)]
    sets += [[int(rng.lognormvariate(8, 2)) for _ in range(n)] for n in (99, 100, 101, 1000, 1001)]
    sets += [[0] * 50, [5] * 7, [0, 1], [2**20] * 99 + [1]]
    for values, found in zip(sets, percentiles_of(spark, [histogram(v) for v in sets]), strict=True):
        assert found["samples"] == len(values)
        for name, per_mille in histograms.PERCENTILES:
            truth = exact(values, per_mille)
            assert found[f"{name}_low"] <= truth <= found[f"{name}_high"], (name, len(values))
            assert found[f"{name}_low"] <= found[name] <= found[f"{name}_high"]
            assert found[name] <= 2 * truth
            assert truth <= 2 * max(found[name], 0)
        assert found["max_low"] <= max(values) <= found["max_high"]


def test_the_last_bucket_is_open(spark: "SparkSession") -> None:
    """What is above every bucket has a lower bound only, and that is the value."""
    [found] = percentiles_of(spark, [histogram([2**40])])
    assert found["p50"] == found["p50_low"] == found["max_low"] == 2**30
    assert found["p50_high"] is None
    assert found["max_high"] is None


def test_nothing_has_no_percentiles(spark: "SparkSession") -> None:
    """An empty histogram and none at all give nulls, not zeros."""
    for found in percentiles_of(spark, [histogram([]), None]):
        assert found["samples"] == 0
        assert {found[name] for name in ("p50", "p99", "p99_low", "p99_high", "max_low", "max_high")} == {
            None
        }


def test_interpolation_goes_by_rank(spark: "SparkSession") -> None:
    """Four values in the bucket 8 to 15: the second lies at three eighths of it."""
    [found] = percentiles_of(spark, [histogram([8, 9, 10, 15])])
    assert found["p50"] == pytest.approx(8 + 7 * 1.5 / 4, abs=0.001)


def test_histograms_add_up(spark: "SparkSession") -> None:
    """Added over rows, null ones count as empty, and short ones as ending early."""
    hists = [histogram([0, 5, 5]), None, histogram([5, 2**40]), [1, 1]]
    frame = spark.createDataFrame([(h,) for h in hists], "h array<bigint>")
    expected = histogram([0, 0, 1, 5, 5, 5, 2**40])
    assert frame.agg(histograms.added("h").alias("h")).collect()[0]["h"] == expected


def test_histograms_of_a_row_merge(spark: "SparkSession") -> None:
    """Several columns of one row are added bucket by bucket, null ones counting as empty."""
    frame = spark.createDataFrame(
        [(histogram([1]), None, histogram([1, 4]))], "a array<bigint>, b array<bigint>, c array<bigint>"
    )
    merged = frame.select(histograms.merged("a", "b", "c").alias("h")).collect()[0]["h"]
    assert merged == histogram([1, 1, 4])


@pytest.mark.parametrize("bucket", range(BUCKETS))
def test_buckets_are_bit_lengths(bucket: int) -> None:
    """The bounds of a bucket fall into it, and their neighbours do not."""
    low, high = histograms.bucket_low(bucket), histograms.bucket_high(bucket)
    assert min(low.bit_length(), BUCKETS - 1) == bucket
    if high is not None:
        assert high.bit_length() == bucket
        assert histograms.bucket_low(bucket + 1) == high + 1
