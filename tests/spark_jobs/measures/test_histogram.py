"""Percentiles from histograms, compared with exact ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.measures import histogram as h
from spark_jobs.metrics import BUCKETS
from tests.support.session.buckets import bucket_of
from tests.support.spark.metrics_files import counts_of as histogram

pytestmark = pytest.mark.once

# Times of all magnitudes, as measured ones are: uniformly distributed numbers would hardly ever be small.
values = st.integers(0, 33).flatmap(lambda bits: st.integers(0, 2**bits))


def exact(sample: list[int], per_mille: int) -> int:
    """The value at rank ceil(p * n)."""
    return sorted(sample)[max(0, -(-len(sample) * per_mille // 1000) - 1)]


@given(st.lists(values, min_size=1, max_size=300), st.sampled_from([1, 500, 950, 990, 1000]))
def test_bounds_enclose_the_exact_percentile(sample: list[int], per_mille: int) -> None:
    """For any sample the exact percentile and the value are between the bounds, with an error of at most 6 %."""
    truth = exact(sample, per_mille)
    found = h.percentile(histogram(sample), per_mille)
    assert found is not None
    assert found.low <= truth
    assert found.low <= found.value
    if found.high is None:
        assert found.low == found.value == 15 * 2**30
    else:
        assert truth <= found.high
        assert found.value <= found.high
        assert abs(found.value - truth) <= 0.06 * truth


@given(st.lists(values, max_size=200), st.lists(values, max_size=200))
def test_merged_histograms_are_those_of_all_values(a: list[int], b: list[int]) -> None:
    """The sum of two histograms is that of both samples; the difference is the other one."""
    both = h.merged([histogram(a), None, histogram(b)])
    assert both == histogram(a + b)
    assert h.without(both, histogram(a)) == histogram(b)


def test_small_values_are_exact() -> None:
    """Below 16 each value has a bucket of its own."""
    found = h.percentile(histogram([8, 9, 10, 15]), 500)
    assert found == h.Percentile(9.0, 9, 9)


def test_nothing_has_no_percentiles() -> None:
    """An empty histogram gives nulls, not zeros."""
    assert h.percentile(histogram([]), 500) is None
    assert h.highest(histogram([])) is None
    assert h.bounded("p50", histogram([]), 500) == {"p50": None, "p50_low": None, "p50_high": None}


def test_the_highest_bucket_bounds_the_maximum() -> None:
    """The maximum is in the highest non-empty bucket; the last bucket has no upper bound."""
    assert h.highest(histogram([3, 100])) == (96, 103)
    assert h.highest(histogram([2**40])) == (15 * 2**30, None)


@pytest.mark.parametrize("bucket", range(BUCKETS))
def test_buckets_are_those_of_the_schema(bucket: int) -> None:
    """The bounds of a bucket are in it, their neighbours are not."""
    low, high = h.bucket_low(bucket), h.bucket_high(bucket)
    assert bucket_of(low) == h.bucket_of(low) == bucket
    if high is not None:
        assert bucket_of(high) == bucket
        assert h.bucket_low(bucket + 1) == high + 1
