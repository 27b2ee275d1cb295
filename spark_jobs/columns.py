"""Many columns at once, as Spark SQL: to make one with `pyspark.sql.functions` takes several calls of Java each."""

from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F


def sums(names: Iterable[str]) -> list[Column]:
    """The sum of each column, under its name."""
    return [F.expr(f"sum(`{name}`) AS `{name}`") for name in names]


def maxima(names: Iterable[str]) -> list[Column]:
    """The maximum of each column, under its name."""
    return [F.expr(f"max(`{name}`) AS `{name}`") for name in names]
