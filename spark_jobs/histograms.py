"""Columns of histograms in Arrow: their form in files and in the store, and sums by group.

A histogram is a list of those buckets that have counted something: `count << COUNT_SHIFT | bucket`, by bucket in
ascending order (`metrics_schema.json`). Null is none at all.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_jobs.arrays import Groups, Ints, Mask
from spark_jobs.metrics import BUCKETS, COUNT_SHIFT

KIND: Final = pa.list_(pa.int64())
_BUCKET: Final = BUCKETS - 1  # the bits of an entry that are its bucket


def sums_by_group(groups: Groups, table: pa.Table, name: str, which: Mask | None = None) -> pa.Array:
    """The sums of histograms; null for a group without one. `which`: only of these rows."""
    there = _there(table, name, which)
    if not there.any():
        return pa.nulls(len(groups), KIND)
    codes, counts = _summed(groups, table, name, which)
    held = groups.max(there)
    lengths = np.bincount(codes >> COUNT_SHIFT, minlength=len(groups))
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    entries = counts << COUNT_SHIFT | codes & _BUCKET
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(entries), KIND, mask=pa.array(~held))


def counts_by_group(groups: Groups, table: pa.Table, name: str) -> Ints:
    """The sums of histograms as one row of BUCKETS counts for each group: for few groups."""
    codes, counts = _summed(groups, table, name, None)
    found = np.zeros(len(groups) * BUCKETS, np.int64)
    found[codes] = counts
    return found.reshape(-1, BUCKETS)


def _there(table: pa.Table, name: str, which: Mask | None) -> Mask:
    there: Mask = table[name].is_valid().to_numpy()
    return there if which is None else there & which


def _summed(groups: Groups, table: pa.Table, name: str, which: Mask | None) -> tuple[Ints, Ints]:
    """`group << COUNT_SHIFT | bucket` in ascending order, and the sum of its counts."""
    column: Any = table[name].combine_chunks()
    lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    entries = column.flatten().to_numpy(zero_copy_only=False)
    row = np.repeat(np.arange(len(column)), lengths)
    if which is not None:
        kept = which[row]
        entries, row = entries[kept], row[kept]
    codes = groups.place[row] << COUNT_SHIFT | entries & _BUCKET
    if not len(codes):
        return codes, codes
    order = np.argsort(codes, kind="stable")
    codes = codes[order]
    starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
    return codes[starts], np.add.reduceat((entries >> COUNT_SHIFT)[order], starts)
