"""Columns of histograms: sums by group."""

from itertools import chain

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs import histograms as h
from spark_jobs.arrays import Groups
from tests.support.spark.metrics_files import counts_of, histogram

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
