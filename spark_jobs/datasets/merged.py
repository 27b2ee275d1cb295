"""Rows of a dataset with the same key as one, each column as its `How` says."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.store.schema import DATASETS, SESSIONS, How, keys
from spark_jobs.store.schema import Column as StoreColumn


def by_key(dataset: str, rows: DataFrame) -> DataFrame:
    """One row for each key, without histograms; of sessions the last listener and version."""
    columns = [column for column in DATASETS[dataset] if column.how not in (How.KEY, How.HISTOGRAM)]
    return rows.groupBy(*keys(dataset)).agg(*[_how(column, dataset).alias(column.name) for column in columns])


def _how(column: StoreColumn, dataset: str) -> Column:
    name = column.name
    match column.how:
        case How.SUM:
            return F.sum(name)
        case How.MAX:
            return F.max(name)
        case How.MIN:
            return F.min(name)
        case How.ANY:
            return F.bool_or(name)
        case How.LAST if dataset == SESSIONS:
            return F.max_by(name, "last_us")
    raise AssertionError(f"{dataset}.{name} has no sum")
