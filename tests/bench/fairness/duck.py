"""DuckDB's side, in a process of its own: `python -m tests.bench.fairness.duck compact|report|nothing`."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import duckdb

from spark_jobs.store.schema import DATASETS
from tests.bench.fairness import measures, queries


def connect(threads: int) -> duckdb.DuckDBPyConnection:
    """A database in memory, with so many threads, in UTC."""
    connection = duckdb.connect()
    connection.execute(f"SET threads = {threads}; SET TimeZone = 'UTC'; SET enable_progress_bar = false")
    return connection


def write(connection: duckdb.DuckDBPyConnection, query: str, path: Path) -> None:
    """Write the result of a query to a Parquet file, with the compression that Spark uses."""
    connection.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet, COMPRESSION zstd)")


def compact(connection: duckdb.DuckDBPyConnection, metrics: Path, store: Path, slot_us: int) -> None:
    """Convert raw files to one Parquet file for each dataset."""
    store.mkdir(parents=True, exist_ok=True)
    connection.execute(queries.rows(str(metrics)))
    connection.execute(queries.files(str(metrics)))
    for name, query in queries.datasets(slot_us).items():
        write(connection, query, store / f"{name}.parquet")


def report(connection: duckdb.DuckDBPyConnection, store: Path, out: Path) -> None:
    """Convert those files to one small Parquet file for each table."""
    out.mkdir(parents=True, exist_ok=True)
    for name in DATASETS:
        connection.execute(f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM '{store / name}.parquet'")
    connection.execute(measures.per_client())
    least = connection.sql("SELECT (sum(duration_us) // sum(rows)) * 9 // 10 FROM sessions").fetchall()[0][0]
    for name, query in measures.tables(int(least)).items():
        write(connection, query, out / f"{name}.parquet")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one step."""
    parser = argparse.ArgumentParser()
    parser.add_argument("step", choices=("compact", "report", "nothing"))
    parser.add_argument("--metrics", type=Path)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--slot-us", type=int, default=60_000_000)
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args(arguments)
    connection = connect(asked.threads)
    if asked.step == "compact":
        compact(connection, asked.metrics, asked.store, asked.slot_us)
    elif asked.step == "report":
        report(connection, asked.store, asked.out)


if __name__ == "__main__":
    main()
