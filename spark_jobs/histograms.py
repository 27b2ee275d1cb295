"""Columns of histograms in Arrow: their form in files and in the store, sums by group, and that of earlier versions.

A histogram is a list of those buckets that have counted something: `count << COUNT_SHIFT | bucket`, by bucket in
ascending order (`metrics_schema.json`). Null is none at all.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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


def modern(table: pa.Table, earlier: Mapping[str, str]) -> pa.Table:
    """A table with histograms in today's form only: name -> what a column of 32 counts is called there."""
    for name, before in earlier.items():
        if before not in table.column_names:
            continue
        if table[before].null_count < table.num_rows:
            found = of_earlier(table[before])
            if name in table.column_names:
                place = table.column_names.index(name)
                table = table.set_column(place, name, pc.coalesce(table[name].combine_chunks(), found))
            else:
                table = table.append_column(name, found)
        table = table.drop_columns([before])
    return table


def of_earlier(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Histograms of schema versions 1 to 3, lists of 32 counts by powers of two, in today's form.

    The counts of a bucket are spread evenly over the buckets that it has become; of the last one, which had no upper
    bound, all go into its lowest.
    """
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    array = array.cast(KIND)
    lengths = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    flat = array.flatten().to_numpy(zero_copy_only=False)
    row = np.repeat(np.arange(len(array)), lengths)
    place = np.arange(len(flat)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    filled = np.flatnonzero(flat)
    row, place, counts = row[filled], np.minimum(place[filled], _EARLIER - 1), flat[filled]
    pieces = _PIECES[place]
    source = np.repeat(np.arange(len(filled)), pieces)
    number = np.arange(len(source)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    count, parts = counts[source], pieces[source]
    share = _upto(count, number + 1, parts) - _upto(count, number, parts)
    kept = share > 0
    ends = np.concatenate([[0], np.cumsum(np.bincount(row[source[kept]], minlength=len(array)))]).astype(np.int32)
    entries = share[kept] << COUNT_SHIFT | (_FIRST[place[source]] + number)[kept]
    mask = array.is_null()
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(entries), KIND, mask=mask)


_EARLIER: Final = 32  # buckets up to version 3: bucket b of values with b bits
_FIRST: Final = np.array([(1 << bits) >> 1 if bits < 5 else 8 * (bits - 3) for bits in range(_EARLIER)])
"""The first of the buckets that an earlier one has become."""
_PIECES: Final = np.array([1, *(min(8, 1 << bits - 1) for bits in range(1, _EARLIER - 1)), 1])
"""How many of them there are."""


def _upto(count: Ints, number: Ints, parts: Ints) -> Ints:
    """How much of a count is in the first `number` of its parts, rounded."""
    found: Ints = (2 * count * number + parts) // (2 * parts)
    return found


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
