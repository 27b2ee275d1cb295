"""Columns of histograms: sums by group, and histograms of earlier versions of the broker."""

from collections import Counter
from itertools import chain

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs import histograms as h
from spark_jobs.arrays import Groups
from tests.support.spark.metrics_files import counts_of, earlier_histogram, histogram

pytestmark = pytest.mark.once

values = st.integers(0, 36).flatmap(lambda bits: st.integers(0, 2**bits))
samples = st.lists(st.tuples(st.integers(0, 3), st.none() | st.lists(values, max_size=9), st.booleans()), max_size=12)


def table(rows: list[tuple[int, list[int] | None, bool]]) -> pa.Table:
    """A table of keys and histograms."""
    made = [None if sample is None else histogram(sample) for _, sample, _ in rows]
    return pa.table({"key": pa.array([key for key, _, _ in rows], pa.int64()), "h": pa.array(made, h.KIND)})


@given(samples)
def test_sums_are_the_histograms_of_all_values(rows: list[tuple[int, list[int] | None, bool]]) -> None:
    """By group, of all rows or of some; a group without a histogram has none, one without values an empty one."""
    given_rows = table(rows)
    groups = Groups(given_rows, ["key"])
    keys = groups.first("key").to_pylist()
    chosen = np.array([chosen for _, _, chosen in rows], np.bool_)
    for which, used in ((None, rows), (chosen, [row for row in rows if row[2]])):
        expected: list[list[int] | None] = []
        for key in keys:
            own = [sample for other, sample, _ in used if other == key and sample is not None]
            expected.append(histogram(chain.from_iterable(own)) if own else None)
        assert h.sums_by_group(groups, given_rows, "h", which).to_pylist() == expected
    dense = [counts_of(chain.from_iterable(s or () for other, s, _ in rows if other == key)) for key in keys]
    assert h.counts_by_group(groups, given_rows, "h").tolist() == dense


@given(st.lists(st.none() | st.lists(values, max_size=40), max_size=5))
def test_earlier_histograms_keep_their_counts_and_octaves(many: list[list[int] | None]) -> None:
    """Each value stays in its octave, however the counts are spread there; above 2^30 all are at its start."""
    made = [None if sample is None else histogram(sample) for sample in many]
    earlier = [earlier_histogram(entries) for entries in made]
    found = h.of_earlier(pa.array(earlier, h.KIND)).to_pylist()
    assert [entries is None for entries in found] == [sample is None for sample in many]
    for entries, counts in zip(found, earlier, strict=True):
        assert earlier_histogram(entries) == counts
        assert entries is None or entries == sorted(entries, key=lambda entry: entry % 256)


def test_earlier_counts_are_spread_evenly() -> None:
    """Of sixteen values from 64 to 127 each of the eight buckets gets two; a single one is in the middle."""
    earlier = [earlier_histogram(histogram([100] * number)) for number in (16, 1)]
    sixteen, one = h.of_earlier(pa.array(earlier, h.KIND)).to_pylist()
    assert Counter(entry // 256 for entry in sixteen) == {2: 8}
    assert one == histogram([96 - 1])
