"""Compares Spark's results with DuckDB's."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow.dataset as ds
from deltalake import DeltaTable

from spark_jobs.store.schema import DATASETS, TIMES

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """The columns that identify a row of a table, and the allowed differences of its values (relative and absolute)."""

    key: Sequence[str]
    values: Sequence[str]
    tolerance: float = 0.0


TABLES: Final = {
    "totals": Table(("qos",), ("offered", "sent", "dropped", "delivery_ratio"), 1e-8),
    "fairness": Table(
        ("scope", "name", "qos"),
        ("clients", "jain_delivery_ratio", "jain_goodput", "maxmin_goodput", "lowest_delivery_ratio"),
        1e-5,
    ),
    "lorenz": Table(("what", "share_clients"), ("share",), 1e-3),
    "percentiles": Table(("metric", "qos", "scope"), ("samples", "p50_low", "p95_low", "p99_low")),
    "hours": Table(("hour_us",), ("clients", "jain_delivery_ratio", "jain_goodput"), 1e-5),
    "starved_sessions": Table(("broker", "client_id"), ("runs", "longest_intervals", "longest_us")),
    "inversion": Table((), ("inverted_qos0", "blocked_rows", "clients")),
}
"""What is compared. Spark's job cuts goodput to whole millionths of a delivery per second, so that sums do not depend
on their order, and counts Lorenz curves in narrow buckets: hence the tolerances."""


def stored_rows(store: Path, dataset: str) -> str:
    """The rows of one dataset in Spark's store, as a query, with times in microseconds; none without files."""
    files = DeltaTable(str(store / dataset)).file_uris()
    named = ", ".join(
        f"epoch_us({TIMES[column.name]}) AS {column.name}" if column.name in TIMES else column.name
        for column in DATASETS[dataset]
    )
    return f"SELECT {named} FROM read_parquet({files}, hive_partitioning = false)" if files else ""


def compacted(spark: Path, duck: Path) -> list[str]:
    """The differences between Spark's store and DuckDB's files, as text; none if they are the same."""
    found = []
    connection = duckdb.connect()
    for dataset, columns in DATASETS.items():
        names = ", ".join(column.name for column in columns)
        theirs = f"SELECT {names} FROM '{duck / dataset}.parquet'"
        ours = stored_rows(spark, dataset) or f"{theirs} WHERE false"
        missing, additional = (
            connection.sql(f"SELECT count(*) FROM ({one} EXCEPT ALL {other})").fetchall()[0][0]
            for one, other in ((theirs, ours), (ours, theirs))
        )
        if missing or additional:
            found.append(f"{dataset}: {additional} rows only Spark has, {missing} rows only DuckDB has")
            found += _where(connection, ours, theirs, dataset)
    return found


def _where(connection: duckdb.DuckDBPyConnection, ours: str, theirs: str, dataset: str) -> list[str]:
    """The columns in which rows with the same key differ, and how often."""
    from spark_jobs.store.schema import keys

    key = keys(dataset)
    names = [column.name for column in DATASETS[dataset] if column.name not in key]
    counts = ", ".join(f"count(*) FILTER (a.{name} IS DISTINCT FROM b.{name})" for name in names)
    query = f"SELECT count(*), {counts} FROM ({ours}) a JOIN ({theirs}) b USING ({', '.join(key)})"
    both, *different = connection.sql(query).fetchall()[0]
    return [
        f"{dataset}.{name}: differs in {count} of {both} rows with the same key"
        for name, count in zip(names, different, strict=True)
        if count
    ]


def reported(spark: Path, duck: Path) -> list[str]:
    """What differs between the tables of the two reports, in words.

    Args:
        spark: the report's folder.
        duck: DuckDB's folder of tables.
    """
    found = []
    for name, table in TABLES.items():
        ours = _read(spark / "tables" / f"{name}.parquet")
        theirs = [_named(row) for row in _read(duck / f"{name}.parquet")]
        found += _differences(name, table, ours, theirs)
    return found


def _read(path: Path) -> list[Row]:
    rows: list[Row] = ds.dataset(path, format="parquet").to_table().to_pylist()
    return rows


def _named(row: Row) -> Row:
    """A row named `name` of a histogram gets the name that the report uses."""
    if "p50_low" not in row:
        return row
    scope = "pressed" if row["name"].startswith("pressed_") else "all"
    metric, _, qos = row["name"].removeprefix("pressed_").removesuffix("_buckets").partition("_qos")
    return {**row, "metric": metric, "qos": qos or "all", "scope": scope}


def _differences(name: str, table: Table, ours: Iterable[Row], theirs: Iterable[Row]) -> list[str]:
    mine = {_key(row, table): row for row in ours}
    found = []
    for row in theirs:
        key = _key(row, table)
        if key not in mine:
            found.append(f"{name} {key}: Spark's report lacks it")
            continue
        for column in table.values:
            one, other = mine[key][column], row[column]
            if not _same(one, other, table.tolerance):
                found.append(f"{name} {key}: {column} is {one} by Spark, {other} by DuckDB")
    if name == "starved_sessions":
        listed = {_key(row, table) for row in theirs}
        found += [f"{name} {key}: only Spark's report has it" for key in mine.keys() - listed]
    return found


def _key(row: Row, table: Table) -> tuple[Any, ...]:
    values = [row[name] for name in table.key]
    return tuple(round(value, 6) if isinstance(value, float) else value for value in values)


def _same(one: Any, other: Any, tolerance: float) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)
