"""The two stages of a compaction: files become compacted rows, and those of the same hour become files of the store.

Between the stages compacted rows are bytes, tables in Arrow's format. A large hour has several parts, each made apart
from the others. What a stage gets and gives has the form that Spark wants, but nothing here needs Spark.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from zlib import crc32

import numpy as np
import pyarrow as pa

from spark_jobs.arrays import ints
from spark_jobs.compaction import kernel
from spark_jobs.compaction.aggregate import DROPPED, PARTS, Aggregation, Made
from spark_jobs.storage import Storage
from spark_jobs.store.delta import write_rows
from spark_jobs.store.schema import DATASETS, HOUR_OF, HOUR_US, SESSIONS, STARVATION
from spark_jobs.store.store import ALL, StoredRows, stored

TASKS: Final = pa.schema([("task", pa.int32()), ("groups", pa.string())])
"""What the first stage gets: the groups of files of a task as JSON; null are the rows that others are added to."""
PIECES: Final = pa.schema(
    [
        ("target", pa.int32()),
        ("dataset", pa.string()),
        ("hour_us", pa.int64()),
        ("part", pa.int32()),
        ("rows", pa.binary()),
    ]
)
"""What it gives; pieces of the same hour and part have the same target. PARTS and DROPPED are of no hour."""
WRITTEN: Final = pa.schema(
    [
        ("dataset", pa.string()),
        ("hour_us", pa.int64()),
        ("path", pa.string()),
        ("size", pa.int64()),
        ("count", pa.int64()),
        ("rows", pa.binary()),
    ]
)
"""What the second stage gives: files of the store, and PARTS and DROPPED as they are."""

MOST_TARGETS: Final = 200

_NO_HOUR: Final = -1
_COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression="lz4")

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class Stages:
    """Both stages, for some hours.

    Attributes:
        aggregation: what is made of files.
        store: the folder of the store.
        shares: hour -> number of its parts.
    """

    aggregation: Aggregation
    store: Storage
    shares: Mapping[int, int]

    @property
    def targets(self) -> int:
        """The number of tasks of the second stage."""
        return min(sum(self.shares.values()), MOST_TARGETS)

    def aggregated(self, batches: Iterable[pa.RecordBatch]) -> Batches:
        """The first stage: TASKS to PIECES."""
        for batch in batches:
            for text in batch["groups"].to_pylist():
                groups = json.loads(text)
                for dataset, rows in self.aggregation.of(groups) if groups else self._before():
                    for hour_us, part, piece in self._split(dataset, rows):
                        target = self._target(hour_us, part)
                        yield _batch(PIECES, target, dataset, hour_us, part, as_bytes(piece))

    def written(self, batches: Iterable[pa.RecordBatch]) -> Batches:
        """The second stage: PIECES to WRITTEN."""
        held: dict[tuple[int, int, str], list[bytes]] = defaultdict(list)
        for batch in batches:
            for row in batch.to_pylist():
                if row["dataset"] in DATASETS:
                    held[row["hour_us"], row["part"], row["dataset"]].append(row["rows"])
                else:
                    yield _batch(WRITTEN, row["dataset"], _NO_HOUR, "", 0, 0, row["rows"])
        while held:
            key = hour_us, _, dataset = next(iter(held))
            pieces = [opened(data) for data in held.pop(key)]
            rows = kernel.merged(dataset, pieces) if len(pieces) > 1 else pieces[0]
            path, size = write_rows(self.store, dataset, stored(dataset, rows), hour_us)
            yield _batch(WRITTEN, dataset, hour_us, path, size, rows.num_rows, b"")

    def _before(self) -> Made:
        """The rows of the hour that others are added to."""
        assert self.aggregation.before is not None
        for dataset in DATASETS:
            for rows in StoredRows(self.aggregation.before, dataset, ALL).parts():
                yield dataset, rows

    def _split(self, dataset: str, rows: pa.Table) -> Iterator[tuple[int, int, pa.Table]]:
        """Hour, part, and their rows."""
        if dataset in (PARTS, DROPPED):
            yield _NO_HOUR, 0, rows
            return
        time = ints(rows, HOUR_OF[dataset])
        hours = time - time % HOUR_US
        for hour_us in np.unique(hours).tolist():
            of_hour = rows.filter(pa.array(hours == hour_us))
            if (parts := self.shares[hour_us]) == 1:
                yield hour_us, 0, of_hour
                continue
            who = of_hour["client_id" if dataset in (SESSIONS, STARVATION) else "broker"].to_pylist()
            numbers = np.array([crc32(name.encode()) % parts for name in who])
            for part in np.unique(numbers).tolist():
                yield hour_us, part, of_hour.filter(pa.array(numbers == part))

    def _target(self, hour_us: int, part: int) -> int:
        return 0 if hour_us == _NO_HOUR else crc32(f"{hour_us}/{part}".encode()) % self.targets


def tasks_of(groups: Sequence[object]) -> pa.Table:
    """The groups of each task as TASKS."""
    numbers = pa.array(range(len(groups)), pa.int32())
    return pa.Table.from_arrays([numbers, pa.array([json.dumps(each) for each in groups])], schema=TASKS)


def as_bytes(rows: pa.Table) -> bytes:
    """A table in Arrow's format."""
    data = pa.BufferOutputStream()
    with pa.ipc.new_stream(data, rows.schema, options=_COMPRESSED) as out:
        out.write_table(rows.combine_chunks())
    return bytes(data.getvalue().to_pybytes())


def opened(data: bytes) -> pa.Table:
    """The table of `as_bytes`."""
    return pa.ipc.open_stream(data).read_all()


def _batch(schema: pa.Schema, *values: object) -> pa.RecordBatch:
    """One row."""
    arrays = [pa.array([value], field.type) for value, field in zip(values, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
