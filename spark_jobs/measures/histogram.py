"""Histograms of powers of two, and percentiles read off them, with their error.

Bucket b counts the values v with v.bit_length() == b: bucket 0 holds 0, bucket b holds 2**(b-1) to 2**b - 1, and the
last bucket also holds everything above. Histograms of the same kind merge by adding them bucket by bucket.

The p-th percentile of n values is the one at rank ceil(p * n) of the sorted values (nearest rank; R. J. Hyndman,
Y. Fan, "Sample Quantiles in Statistical Packages", 1996, definition 1). The histogram tells for certain in which
bucket that value lies: its bounds enclose the exact percentile and are given as `low` and `high`. In between, `value`
is interpolated by rank, as if the values of a bucket lay evenly in it. As high < 2 * low in every bucket but the first
(which is exact) and the last, `value` is less than a factor of two away from the exact percentile. Nothing bounds the
last bucket from above: `high` is None there and `value` is the lower bound.
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
    """A percentile: interpolated value, and the bounds that enclose the exact one; no upper one in the last bucket."""

    value: float
    low: int
    high: int | None


def bucket_low(bucket: int) -> int:
    """The smallest value that the bucket holds."""
    return 0 if bucket == 0 else 1 << (bucket - 1)


def bucket_high(bucket: int) -> int | None:
    """The largest value that the bucket holds; None for the last bucket, which has no upper bound."""
    if bucket == BUCKETS - 1:
        return None
    return 0 if bucket == 0 else (1 << bucket) - 1


def merged(histograms: Iterable[Histogram | None]) -> list[int]:
    """Histograms added up bucket by bucket; those that are None count as empty."""
    total = [0] * BUCKETS
    for histogram in histograms:
        for bucket, count in enumerate(histogram or ()):
            total[bucket] += count
    return total


def without(whole: Histogram, part: Histogram) -> list[int]:
    """What is left of a histogram without a part of it."""
    return [a - b for a, b in zip(whole, part, strict=True)]


def percentile(histogram: Histogram, per_mille: int) -> Percentile | None:
    """The percentile of the values that the histogram counts; None if it counts none."""
    samples = sum(histogram)
    if samples == 0:
        return None
    # Whole numbers all through: ceil(0.99 * n) in floating point is off by one for some n.
    rank = max(1, -(-samples * per_mille // 1000))
    before = 0
    for bucket, count in enumerate(histogram):
        if before + count >= rank:
            return _inside(bucket, count, rank - before)
        before += count
    raise ValueError(f"a histogram with counts below 0: {list(histogram)}")


def _inside(bucket: int, count: int, rank: int) -> Percentile:
    """The value at a rank inside a bucket, counted from 1."""
    low, high = bucket_low(bucket), bucket_high(bucket)
    if high is None:
        return Percentile(float(low), low, None)
    # (high - low) * (rank - 1/2) / count, with one rounding only.
    place = (high - low) * (2 * rank - 1) / (2 * count)
    return Percentile(round(low + place, _VALUE_DIGITS), low, high)


def highest(histogram: Histogram) -> tuple[int, int | None] | None:
    """The bounds of the highest bucket that holds anything; None if none does."""
    held = [bucket for bucket, count in enumerate(histogram) if count]
    return (bucket_low(held[-1]), bucket_high(held[-1])) if held else None


def bounded(name: str, histogram: Histogram, per_mille: int) -> Mapping[str, Any]:
    """The columns <name>, <name>_low and <name>_high of a percentile; null where nothing was counted."""
    found = percentile(histogram, per_mille)
    if found is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    return {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}
