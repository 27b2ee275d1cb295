"""Histograms with eight buckets to an octave, and percentiles with error bounds.

Bucket b counts the value b if b is below 16; above, each octave from 2**n to 2**(n+1) - 1 has eight buckets of the same
width; the last bucket also counts all higher values. Here a histogram is a list of all BUCKETS counts. Histograms of
the same kind are merged by adding them bucket by bucket.

The p-th percentile of n values is the one at rank ceil(p * n) of the sorted values (nearest rank; R. J. Hyndman,
Y. Fan, "Sample Quantiles in Statistical Packages", 1996, definition 1). Its bucket is known: `low` and `high` are the
bounds of that bucket. `value` is the harmonic mean of both, which has the same relative error to either side: as high
is below 9/8 low, less than 6 % (1/17). The last bucket has no upper bound: `high` is None and `value` the lower bound.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from spark_jobs.metrics import BUCKETS, COUNT_SHIFT

PERCENTILES: Final = {"p50": 500, "p95": 950, "p99": 990}  # name -> per mille
_VALUE_DIGITS: Final = 3
_SINGLE: Final = 16  # values below have a bucket each
_STEPS: Final = 8  # buckets of an octave

Histogram = Sequence[int]
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Percentile:
    """A percentile: value, and bounds of the exact one; no upper bound in the last bucket."""

    value: float
    low: int
    high: int | None


def bucket_low(bucket: int) -> int:
    """The smallest value of the bucket."""
    return bucket if bucket < _SINGLE else (bucket % _STEPS + _STEPS) << (bucket // _STEPS - 1)


def bucket_high(bucket: int) -> int | None:
    """The largest value of the bucket; None for the last bucket."""
    return None if bucket == BUCKETS - 1 else bucket_low(bucket + 1) - 1


def bucket_of(value: int) -> int:
    """The bucket that counts a value, 0 or more."""
    if value < _SINGLE:
        return value
    octave = value.bit_length() - _SINGLE.bit_length() + 1
    return min(octave * _STEPS + (value >> octave), BUCKETS - 1)


def unpacked(entries: Iterable[int] | None) -> list[int]:
    """The counts of a histogram in its form in the store, see `metrics_schema.json`; None is empty."""
    counts = [0] * BUCKETS
    for entry in entries or ():
        counts[entry % BUCKETS] += entry >> COUNT_SHIFT
    return counts


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
    upto = 0
    for bucket, count in enumerate(histogram):
        upto += count
        if upto >= rank:
            return _inside(bucket)
    raise ValueError(f"a histogram with counts below 0: {list(histogram)}")


def _inside(bucket: int) -> Percentile:
    low, high = bucket_low(bucket), bucket_high(bucket)
    if high is None or high == low:
        return Percentile(float(low), low, high)
    return Percentile(round(2 * low * high / (low + high), _VALUE_DIGITS), low, high)


def percentile_values(histograms: Numbers, per_mille: int) -> Numbers:
    """The `value` of a percentile of each row, a histogram of whole numbers; not a number without values."""
    upto = histograms.cumsum(axis=1)
    samples = upto[:, -1]
    rank = np.maximum(1, np.ceil(samples * per_mille / 1000 - 1e-6))
    bucket = (upto < rank[:, None]).sum(axis=1)
    return np.where(samples > 0, _VALUES[np.minimum(bucket, BUCKETS - 1)], np.nan)


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


_VALUES: Final = np.array([_inside(bucket).value for bucket in range(BUCKETS)])
