"""Rows of a dataset with the same key as one, each column as its `How` says."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.store.schema import DATASETS, SESSIONS, Column, How, keys


def by_key(dataset: str, rows: DataFrame) -> DataFrame:
    """One row for each key, without histograms; of sessions the last listener and version."""
    columns = [column for column in DATASETS[dataset] if column.how not in (How.KEY, How.HISTOGRAM)]
    made = [F.expr(f"{_how(column, dataset)} AS `{column.name}`") for column in columns]
    return rows.groupBy(*keys(dataset)).agg(*made)


def _how(column: Column, dataset: str) -> str:
    name = column.name
    match column.how:
        case How.SUM:
            return f"sum(`{name}`)"
        case How.MAX:
            return f"max(`{name}`)"
        case How.MIN:
            return f"min(`{name}`)"
        case How.ANY:
            return f"bool_or(`{name}`)"
        case How.LAST if dataset == SESSIONS:
            return f"max_by(`{name}`, last_us)"
    raise AssertionError(f"{dataset}.{name} has no sum")
