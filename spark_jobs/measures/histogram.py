"""Histograms with power-of-two buckets, and percentiles with error bounds.

Bucket b counts the values v with v.bit_length() == b: bucket 0 counts 0, bucket b counts 2**(b-1) to 2**b - 1, and the
last bucket also all higher values. Histograms of the same kind are merged by adding them bucket by bucket.

The p-th percentile of n values is the one at rank ceil(p * n) of the sorted values (nearest rank; R. J. Hyndman,
Y. Fan, "Sample Quantiles in Statistical Packages", 1996, definition 1). Its bucket is known: `low` and `high` are the
bounds of that bucket. `value` is interpolated by rank, as if the values of a bucket were evenly distributed. As
high < 2 * low in every bucket except the first (which is exact) and the last, the error of `value` is less than a
factor of two. The last bucket has no upper bound: `high` is None and `value` is the lower bound.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spark_jobs.metrics import BUCKETS

PERCENTILES: Final = {"p50": 500, "p95": 950, "p99": 990}  # name -> per mille
_VALUE_DIGITS: Final = 3

Histogram = Sequence[int]


@dataclass(frozen=True)
class Percentile:
    """A percentile: interpolated value, and bounds of the exact one; no upper bound in the last bucket."""

    value: float
    low: int
    high: int | None


def bucket_low(bucket: int) -> int:
    """The smallest value of the bucket."""
    return 0 if bucket == 0 else 1 << (bucket - 1)


def bucket_high(bucket: int) -> int | None:
    """The largest value of the bucket; None for the last bucket."""
    if bucket == BUCKETS - 1:
        return None
    return 0 if bucket == 0 else (1 << bucket) - 1


def merged(histograms: Iterable[Histogram | None]) -> list[int]:
    """The sum of histograms, bucket by bucket; None counts as empty."""
    total = [0] * BUCKETS
    for histogram in histograms:
        for bucket, count in enumerate(histogram or ()):
            total[bucket] += count
    return total


def without(whole: Histogram, part: Histogram) -> list[int]:
    """The difference of a histogram and a part of it."""
    return [a - b for a, b in zip(whole, part, strict=True)]


def percentile(histogram: Histogram, per_mille: int) -> Percentile | None:
    """A percentile of the counted values; None without values."""
    samples = sum(histogram)
    if samples == 0:
        return None
    # In whole numbers: ceil(0.99 * n) in floating point is wrong by one for some n.
    rank = max(1, -(-samples * per_mille // 1000))
    before = 0
    for bucket, count in enumerate(histogram):
        if before + count >= rank:
            return _inside(bucket, count, rank - before)
        before += count
    raise ValueError(f"a histogram with counts below 0: {list(histogram)}")


def _inside(bucket: int, count: int, rank: int) -> Percentile:
    """The value at a rank within a bucket, from 1."""
    low, high = bucket_low(bucket), bucket_high(bucket)
    if high is None:
        return Percentile(float(low), low, None)
    # (high - low) * (rank - 1/2) / count, with one rounding only.
    place = (high - low) * (2 * rank - 1) / (2 * count)
    return Percentile(round(low + place, _VALUE_DIGITS), low, high)


def highest(histogram: Histogram) -> tuple[int, int | None] | None:
    """The bounds of the highest non-empty bucket; None if all are empty."""
    held = [bucket for bucket, count in enumerate(histogram) if count]
    return (bucket_low(held[-1]), bucket_high(held[-1])) if held else None


def bounded(name: str, histogram: Histogram, per_mille: int) -> Mapping[str, Any]:
    """The columns <name>, <name>_low and <name>_high of a percentile; null without values."""
    found = percentile(histogram, per_mille)
    if found is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    return {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}
