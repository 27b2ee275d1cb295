"""Histograms: powers of two, runs of equal buckets, merging by addition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session.histogram import BUCKETS, Histogram, bucket_of

VALUES = st.one_of(st.integers(0, 20), st.integers(0, 1 << 40), st.sampled_from([1 << n for n in range(40)]))


def naive(values: list[int]) -> list[int]:
    """The counts by the definition: bucket b holds values of b bits, the last one also all above."""
    counts = [0] * BUCKETS
    for value in values:
        counts[min(value.bit_length(), BUCKETS - 1)] += 1
    return counts


def filled(values: list[int]) -> Histogram:
    """A histogram of `values`."""
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    return histogram


@pytest.mark.parametrize(
    ("value", "bucket"),
    [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (7, 3), (8, 4), (255, 8), (256, 9), ((1 << 30) - 1, 30), (1 << 30, 31)],
)
def test_buckets_are_powers_of_two(value: int, bucket: int) -> None:
    """Bucket b counts values of b bits: 0, 1, 2 to 3, 4 to 7 ..."""
    assert bucket_of(value) == bucket


def test_bucket_of_the_extremes() -> None:
    """The last bucket takes everything above; a clock that went back counts as no time at all."""
    assert bucket_of(1 << 31) == BUCKETS - 1 == 31
    assert bucket_of(1 << 60) == BUCKETS - 1
    assert bucket_of(-1) == 0


def test_negative_values_are_counted() -> None:
    """A value below 0 ends up in the first bucket, whatever was counted before it."""
    assert filled([5, -3, -3, 0, 5]).counts() == naive([5, 0, 0, 0, 5])


@given(st.lists(st.tuples(VALUES, st.integers(1, 5))))
def test_runs_equal_the_naive_counts(runs: list[tuple[int, int]]) -> None:
    """However values follow one another, the counts are those of looking at each by itself."""
    values = [value for value, times in runs for _ in range(times)]

    assert filled(values).counts() == naive(values)


@given(st.lists(VALUES), st.lists(VALUES))
def test_counts_may_be_read_at_any_time(first: list[int], second: list[int]) -> None:
    """Reading the counts ends nothing: what is added afterwards is counted too."""
    histogram = filled(first)
    assert histogram.counts() == naive(first)

    for value in second:
        histogram.add(value)

    assert histogram.counts() == naive(first + second)


@given(st.lists(VALUES), st.lists(VALUES))
def test_merging_is_addition(first: list[int], second: list[int]) -> None:
    """The counts of two histograms, added bucket by bucket, are those of all values together."""
    merged = [a + b for a, b in zip(filled(first).counts(), filled(second).counts(), strict=True)]

    assert merged == filled(first + second).counts()
