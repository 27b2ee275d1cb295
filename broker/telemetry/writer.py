"""Parquet files that appear whole or not at all: written aside, then renamed."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from broker.telemetry.partition import partition_of


def write(directory: Path, table: pa.Table, file_name: str, wall_us: int) -> Path:
    """Write `table` under the date and hour of `wall_us`; returns the file's path. OSError leaves nothing behind."""
    folder = directory / partition_of(wall_us)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file_name
    aside = folder / f"_{file_name}.tmp"  # Spark passes over names that begin with an underscore
    try:
        pq.write_table(table, aside, compression="zstd")
        with aside.open("rb") as written:
            os.fsync(written.fileno())
        aside.replace(path)
    except (OSError, pa.ArrowException) as error:
        aside.unlink(missing_ok=True)
        raise OSError(f"metrics file {path} could not be written: {error}") from error
    return path
