"""Histograms of powers of two, and percentiles read off them.

Bucket b counts the values v with v.bit_length() == b: bucket 0 holds 0, bucket b holds 2**(b-1) to 2**b - 1,
and the last bucket also holds everything above. Two histograms of the same kind merge by adding them bucket
by bucket.

**Percentiles and their error.** The p-th percentile of n values is the one at rank ceil(p * n) of the sorted
values (nearest rank). The histogram tells for certain in which bucket that value lies, so its bucket's bounds
enclose the exact percentile: they are reported as `low` and `high`. In between, `value` is interpolated by
rank, as if the values of a bucket lay evenly in it. As high < 2 * low in every bucket but the first and the
last, `value` is less than a factor of two away from the exact percentile. In the last bucket nothing bounds
it from above: `high` is null there and `value` is the lower bound.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from spark_jobs.metrics import BUCKETS

PERCENTILES: Final = (("p50", 500), ("p95", 950), ("p99", 990))  # name, per mille


def bucket_low(bucket: int) -> int:
    """The smallest value that the bucket holds."""
    return 0 if bucket == 0 else 1 << (bucket - 1)


def bucket_high(bucket: int) -> int | None:
    """The largest value that the bucket holds; None for the last bucket, which has no upper bound."""
    if bucket == BUCKETS - 1:
        return None
    return 0 if bucket == 0 else (1 << bucket) - 1


def added(name: str) -> Column:
    """Aggregate: the histograms of column `name` added up, null ones counting as empty.

    32 plain sums put back into one array: of the ways that need no Python on the executors this is by far the
    fastest.
    """
    return F.array(*[F.coalesce(F.sum(F.get(F.col(name), F.lit(b))), F.lit(0)) for b in range(BUCKETS)])


def merged(*names: str) -> Column:
    """The histograms of several columns of one row added up; null ones count as empty."""
    empty = F.array(*[F.lit(0).cast("bigint")] * BUCKETS)
    total = F.coalesce(F.col(names[0]), empty)
    for name in names[1:]:
        total = F.zip_with(total, F.coalesce(F.col(name), empty), lambda a, b: a + b)
    return total


def samples(histogram: Column) -> Column:
    """How many values the histogram counts."""
    return F.aggregate(histogram, F.lit(0).cast("bigint"), lambda total, count: total + count)


def _running(histogram: Column) -> Column:
    """Running sums, one more than there are buckets: element b is how many values lie before bucket b."""
    start = F.array(F.lit(0).cast("bigint"))
    return F.aggregate(
        histogram, start, lambda sums, count: F.array_append(sums, F.element_at(sums, -1) + count)
    )


def _bucket_of(rank: Column) -> Column:
    """The bucket of the value at a rank: the last one before which there are fewer values than that."""
    before = F.size(F.filter("_sums", lambda count: count < rank))
    return F.when(rank.isNotNull(), before - 1)


def bounds() -> tuple[Column, Column]:
    """The lowest and the highest value of each bucket, as two arrays."""
    lows = F.array(*[F.lit(bucket_low(b)).cast("bigint") for b in range(BUCKETS)])
    highs = F.array(*[F.lit(bucket_high(b)).cast("bigint") for b in range(BUCKETS)])
    return lows, highs


def with_percentiles(
    frame: DataFrame, histogram: str, names: Sequence[tuple[str, int]] = PERCENTILES
) -> DataFrame:
    """Add samples, and for each percentile <name>, <name>_low and <name>_high; and max_low and max_high.

    All are null where the histogram is null or empty. max is the highest bucket that holds anything.

    Args:
        frame: has the histogram as an array.
        histogram: the column's name.
        names: which percentiles: name and per mille.
    """
    # In steps, so that each costly part is computed once and not wherever it is mentioned.
    counted = frame.withColumn("_sums", _running(F.col(histogram)))
    counted = counted.withColumn("samples", F.coalesce(F.element_at("_sums", -1), F.lit(0)))
    ranked = counted
    for name, per_mille in (*names, ("max", 1000)):
        # Whole numbers all through: ceil(0.99 * n) in floating point is off by one for some n.
        rank = F.floor((F.col("samples") * per_mille + 999) / 1000)
        ranked = ranked.withColumn(f"_rank_{name}", F.when(F.col("samples") > 0, rank))
    placed = ranked
    for name in [*[name for name, _ in names], "max"]:
        placed = placed.withColumn(f"_bucket_{name}", _bucket_of(F.col(f"_rank_{name}")))
    lows, highs = bounds()
    found = placed
    for name in [*[name for name, _ in names], "max"]:
        bucket = F.col(f"_bucket_{name}")
        found = found.withColumn(f"{name}_low", F.get(lows, bucket)).withColumn(
            f"{name}_high", F.get(highs, bucket)
        )
    for name, _ in names:
        bucket, low, high = F.col(f"_bucket_{name}"), F.col(f"{name}_low"), F.col(f"{name}_high")
        place = (F.col(f"_rank_{name}") - F.get(F.col("_sums"), bucket) - 0.5) / F.get(
            F.col(histogram), bucket
        )
        found = found.withColumn(name, F.round(F.coalesce(low + (high - low) * place, low.cast("double")), 3))
    return found.drop(*[name for name in found.columns if name.startswith("_")])
