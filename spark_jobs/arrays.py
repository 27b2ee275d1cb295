"""Columns of Arrow tables as NumPy arrays, and rows that are grouped by keys and reduced."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
TEXT: Final = pa.dictionary(pa.int32(), pa.string())
"""Texts of which each is held once: a client id may have 65,535 bytes."""
_LIMB: Final = 17  # bits; the sum of products of two limbs over 2**29 rows is below 2**63


def ints(table: pa.Table, name: str) -> Ints:
    """A column of whole numbers, bools or times; null is 0."""
    column = table[name].combine_chunks().cast(pa.int64())
    if column.null_count:
        column = column.fill_null(0)
    values: Ints = column.to_numpy(zero_copy_only=False)
    return values


def total_of(table: pa.Table, names: Sequence[str]) -> Ints:
    """The sum of several columns, row by row."""
    found: Ints = np.sum([ints(table, name) for name in names], axis=0, dtype=np.int64)
    return found


def places(column: pa.ChunkedArray | pa.Array) -> Ints:
    """For each value its place among the distinct values of the column in their order; texts are sorted as UTF-8.

    Texts that only the dictionary of an encoded column has count too.
    """
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(array.type):  # one that a file has may name a text twice
        ranked: Ints = places(array.dictionary)[array.indices.to_numpy(zero_copy_only=False)]
        return ranked
    if not pa.types.is_string(array.type):
        return np.unique(array.cast(pa.int64()).to_numpy(zero_copy_only=False), return_inverse=True)[1].astype(np.int64)
    distinct = array.dictionary_encode()
    order = pc.sort_indices(distinct.dictionary).to_numpy()
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    found: Ints = rank[distinct.indices.to_numpy(zero_copy_only=False)]
    return found


def encoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of texts as TEXT."""
    if column.type == TEXT:
        return column
    if not pa.types.is_dictionary(column.type):
        return column.cast(pa.string()).dictionary_encode()
    chunks = [
        pa.DictionaryArray.from_arrays(chunk.indices.cast(pa.int32()), chunk.dictionary.cast(pa.string()))
        for chunk in column.chunks
    ]
    return pa.chunked_array(chunks, TEXT)


def equals(column: pa.ChunkedArray, text: str) -> Mask:
    """In which rows a column of texts has this one."""
    array = encoded(column).combine_chunks()
    same = pc.equal(array.dictionary, text).to_numpy(zero_copy_only=False)
    found: Mask = same[array.indices.to_numpy(zero_copy_only=False)]
    return found


def text_bytes(column: pa.ChunkedArray) -> Ints:
    """The bytes of each text of a column."""
    array = encoded(column).combine_chunks()
    lengths = pc.binary_length(array.dictionary).to_numpy(zero_copy_only=False).astype(np.int64)
    lengths = np.append(lengths, 0)  # of null
    found: Ints = lengths[array.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
    return found


class Groups:
    """The rows of a table grouped by keys, in the order of the keys; within a group they are ordered by `then`."""

    def __init__(self, table: pa.Table, keys: Sequence[str], then: Sequence[str] = ()) -> None:
        self._table = table
        self._keys = keys
        code = np.zeros(table.num_rows, np.int64)
        for name in keys:
            place = places(table[name])
            combined = code * (int(place.max(initial=0)) + 1) + place
            code = np.unique(combined, return_inverse=True)[1].astype(np.int64)  # stays below the number of rows
        self.place = code
        """For each row the place of its group."""
        self.order = np.lexsort([*[ints(table, name) for name in reversed(then)], code])
        ordered = code[self.order]
        begins = np.empty(len(ordered), np.bool_)
        begins[:1] = True
        np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
        self.starts = np.flatnonzero(begins)
        self.lasts = np.append(self.starts[1:], len(ordered))[: len(self.starts)] - 1

    def __len__(self) -> int:
        return len(self.starts)

    def keys(self) -> dict[str, pa.Array]:
        """The key columns, one value for each group."""
        return {name: self.first(name) for name in self._keys}

    def first(self, name: str) -> pa.Array:
        """The value of each group's first row."""
        return self._table[name].combine_chunks().take(pa.array(self.order[self.starts]))

    def last(self, name: str) -> pa.Array:
        """The value of each group's last row."""
        return self._table[name].combine_chunks().take(pa.array(self.order[self.lasts]))

    def count(self) -> Ints:
        """The number of each group's rows."""
        return self.lasts - self.starts + 1

    def sum(self, values: Any) -> Any:
        """The sum over each group: of numbers, or of rows of an array with two dimensions."""
        return self._reduced(np.add, values)

    def max(self, values: Any) -> Any:
        """The greatest value of each group."""
        return self._reduced(np.maximum, values)

    def min(self, values: Any) -> Any:
        """The least value of each group."""
        return self._reduced(np.minimum, values)

    def _reduced(self, how: np.ufunc, values: Any) -> Any:
        return how.reduceat(values[self.order], self.starts, axis=0) if len(self.starts) else values[:0]


def exact_sum(values: Ints, weights: Ints | None = None) -> int:
    """The sum of values, or of their products with weights; all of them at least 0 and below 2**51. It is exact."""
    other = np.ones(1, np.int64) if weights is None else weights
    found = 0
    for i, one in enumerate(_limbs(values)):
        for j, two in enumerate(_limbs(other)):
            found += int((one * two).sum(dtype=np.int64)) << (_LIMB * (i + j))
    return found


def _limbs(values: Ints) -> list[Ints]:
    mask = (1 << _LIMB) - 1
    return [(values >> (_LIMB * place)) & mask for place in range(3)]
