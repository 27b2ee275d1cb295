"""Sums of histograms by group.

A histogram is a list of the buckets that have counted something, `count << COUNT_SHIFT | bucket`, ascending by bucket.
To add them, each entry becomes a row with the number of its histogram and its bucket in one integer. Spark sums the
counts by group and integer, and collects them into lists again.

A group is named by two hashes of its key: with the key itself in each of those rows it takes half as long again. Two of
a billion groups have the same hashes with a probability of 1 to 10 ** 10.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.datasets.limits import MOST_ENTRY
from spark_jobs.metrics import BUCKETS, COUNT_SHIFT

_GROUP: Final = ("group", "group2")
_COUNT_BITS: Final = 63 - COUNT_SHIFT  # of `bucket << _COUNT_BITS | count`, which sorts by bucket


Part = tuple[DataFrame, Mapping[str, str]]
"""Rows with histograms; and name of a sum -> the histogram of a row that is added to it, or null, as Spark SQL."""


def with_sums(rows: DataFrame, key: Sequence[str], parts: Sequence[Part]) -> DataFrame:
    """Add the sums of histograms to rows with one row for each group; null is the sum of none.

    Args:
        rows: one row for each group.
        key: the columns that name a group; those that are added up have them too.
        parts: what is added up, by the same names.
    """
    names = list(parts[0][1])
    entries = [_entries(part, key, [lists[name] for name in names]) for part, lists in parts]
    sums = _collected(reduce(DataFrame.unionAll, entries), names)
    named = rows.withColumns(dict(zip(_GROUP, _hashes(key), strict=True)))
    return named.join(sums, list(_GROUP), "left").drop(*_GROUP)


def _hashes(key: Sequence[str]) -> tuple[Column, Column]:
    return F.xxhash64(*key), F.hash(*key)


def _entries(rows: DataFrame, key: Sequence[str], lists: Sequence[str]) -> DataFrame:
    """One row for each entry: the group, `place` (number of the histogram and bucket) and `count`."""
    each_of = ", ".join(f"struct({number * BUCKETS} AS at, {sql} AS list)" for number, sql in enumerate(lists))
    named = F.expr(f"array({each_of})")
    group = [column.alias(name) for column, name in zip(_hashes(key), _GROUP, strict=True)]
    lists_each = rows.select(*group, F.explode(named).alias("one")).where(F.col("one.list").isNotNull())
    each = lists_each.select(*_GROUP, F.col("one.at").alias("at"), F.explode("one.list").alias("entry"))
    entry = F.col("entry")
    count = F.when(entry.between(0, MOST_ENTRY), F.shiftright(entry, COUNT_SHIFT))
    place = F.col("at") + entry.bitwiseAND(F.lit(BUCKETS - 1)).cast("int")
    wrong = F.raise_error(F.lit("an entry of a histogram is impossible"))
    return each.select(*_GROUP, place.alias("place"), count.otherwise(wrong).alias("count"))


def _collected(entries: DataFrame, names: Sequence[str]) -> DataFrame:
    """One row for each group, with the sums of its histograms."""
    counts = entries.groupBy(*_GROUP, "place").agg(F.sum("count").alias("count"))
    packed = f"shiftleft(CAST(place & {BUCKETS - 1} AS BIGINT), {_COUNT_BITS}) | count"
    lists = [
        F.expr(f"collect_list(IF(shiftright(place, {COUNT_SHIFT}) = {number}, {packed}, NULL)) AS `{name}`")
        for number, name in enumerate(names)
    ]
    return counts.groupBy(*_GROUP).agg(*lists).select(*_GROUP, *[F.expr(_list(name)) for name in names])


def _list(name: str) -> str:
    """A list of packed counts as a histogram."""
    count = f"shiftleft(one & {(1 << _COUNT_BITS) - 1}L, {COUNT_SHIFT})"
    entries = f"transform(array_sort(`{name}`), one -> {count} | shiftright(one, {_COUNT_BITS}))"
    return f"IF(size(`{name}`) > 0, {entries}, NULL) AS `{name}`"
