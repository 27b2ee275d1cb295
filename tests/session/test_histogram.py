"""Histograms: eight buckets to an octave, runs of equal buckets, merging by addition."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session.histogram import BUCKETS, Histogram
from tests.support.session.buckets import bucket_of, counts_of

VALUES = st.one_of(st.integers(0, 20), st.integers(0, 1 << 40), st.sampled_from([1 << n for n in range(40)]))


def filled(values: list[int]) -> Histogram:
    """A histogram of `values`."""
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    return histogram


def counted_in(value: int) -> int:
    """The bucket that counts a value."""
    (bucket,) = filled([value]).counts()
    return bucket


def low(bucket: int) -> int:
    """The lowest value of a bucket, as the exported schema defines it."""
    return bucket if bucket < 16 else bucket % 8 + 8 << bucket // 8 - 1


@pytest.mark.parametrize("bucket", range(BUCKETS))
def test_eight_buckets_to_an_octave(bucket: int) -> None:
    """The bounds of a bucket are in it, their neighbours are not; the mean of the bounds is within 6 % of both."""
    assert counted_in(low(bucket)) == bucket
    if bucket + 1 < BUCKETS:
        high = low(bucket + 1) - 1
        assert (counted_in(high), counted_in(high + 1)) == (bucket, bucket + 1)
        mean = 2 * low(bucket) * high / (low(bucket) + high) if high else 0
        assert 0.94 * high <= mean <= 1.06 * low(bucket)


def test_the_first_and_the_last_bucket() -> None:
    """The last bucket counts all larger values too, the first one all below 0: a clock has been set back."""
    assert counted_in(15 << 30) == counted_in(1 << 60) == BUCKETS - 1 == 255
    assert counted_in((15 << 30) - 1) == 254
    assert counted_in(-1) == 0


@given(VALUES)
def test_a_histogram_counts_where_the_definition_says(value: int) -> None:
    """Looking for the octave by halves finds the bucket that the bits of the value name."""
    assert filled([value]).counts() == {bucket_of(value): 1}


def test_negative_values_are_counted() -> None:
    """A value below 0 is counted in the first bucket, whatever was counted before."""
    assert filled([5, -3, -3, 0, 5]).counts() == counts_of([5, 0, 0, 0, 5])


@given(st.lists(st.tuples(VALUES, st.integers(1, 5))))
def test_runs_equal_the_naive_counts(runs: list[tuple[int, int]]) -> None:
    """The counts equal those of counting each value by itself, in any order of values."""
    values = [value for value, times in runs for _ in range(times)]

    assert filled(values).counts() == counts_of(values)


@given(st.lists(VALUES), st.lists(VALUES))
def test_counts_may_be_read_at_any_time(first: list[int], second: list[int]) -> None:
    """Reading the counts does not change them, nor what is added later."""
    histogram = filled(first)
    assert histogram.counts() == counts_of(first)

    for value in second:
        histogram.add(value)

    assert histogram.counts() == counts_of(first + second)


@given(st.lists(VALUES), st.lists(VALUES))
def test_merging_is_addition(first: list[int], second: list[int]) -> None:
    """The counts of two histograms, added bucket by bucket, are those of all values together."""
    merged = Counter(filled(first).counts())
    merged.update(filled(second).counts())

    assert dict(merged) == filled(first + second).counts()


@given(st.lists(VALUES))
def test_entries(values: list[int]) -> None:
    """What is exported are the buckets that counted something, in their order, each with its count."""
    entries = filled(values).entries()

    assert [(entry % 256, entry // 256) for entry in entries] == sorted(counts_of(values).items())


@given(st.lists(VALUES), st.lists(VALUES))
def test_sums_of_histograms(first: list[int], second: list[int]) -> None:
    """Adding histograms to sums counts all their values."""
    sums = [0] * BUCKETS
    filled(first).add_to(sums)
    filled(second).add_to(sums)
    assert {bucket: count for bucket, count in enumerate(sums) if count} == counts_of(first + second)
