"""Reads the footers of many files in Spark's workers."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from spark_jobs.compaction.footers import inspect, is_text
from spark_jobs.compaction.survey import require_folder
from spark_jobs.storage import Entry, Storage
from spark_jobs.store.taken import FileRecord, records_of, records_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_FILES: Final = 500
"""Files that one task inspects."""


def inspected_by(spark: "SparkSession", storage: Storage, entries: Sequence[Entry]) -> list[FileRecord]:
    """Read and validate footers in Spark's workers.

    Raises:
        PySparkException: the workers do not reach the folder.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        require_folder(storage)  # else every file would be skipped
        for batch in batches:
            records = [inspect(storage, Entry(**row)) for row in batch.to_pylist()]
            yield pa.RecordBatch.from_arrays([pa.array([_packed(records)])], names=["records"])

    job: Any = run
    asked = [entry for entry in entries if is_text(entry.name)]
    rows = pa.table({name: [getattr(entry, name) for entry in asked] for name in ("name", "size", "modified_us")})
    tasks = -(-len(asked) // TASK_FILES)
    found = spark.createDataFrame(rows).repartition(tasks).mapInArrow(job, "records binary").toArrow()
    records = [record for data in found["records"].to_pylist() for record in _opened(data)]
    records += [inspect(storage, entry) for entry in entries if not is_text(entry.name)]
    return sorted(records, key=lambda file: file.name)


def _packed(records: Sequence[FileRecord]) -> bytes:
    rows, data = records_table(records), pa.BufferOutputStream()
    with pa.ipc.new_stream(data, rows.schema) as out:
        out.write_table(rows)
    return bytes(data.getvalue().to_pybytes())


def _opened(data: bytes) -> list[FileRecord]:
    return records_of(pa.ipc.open_stream(data).read_all())
