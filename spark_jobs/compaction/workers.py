"""What Spark's workers run: `kernel` aggregates the rows of a task, and puts the results of several tasks together.

Between two stages compacted rows are bytes, tables in Arrow's format: (target, dataset, rows). All rows of a broker and
hour have the same target, so whoever has all bytes of a target has everything that can be put together.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import numpy as np
import pyarrow as pa

from spark_jobs.arrays import Groups, Ints, ints
from spark_jobs.compaction import kernel
from spark_jobs.histograms import modern
from spark_jobs.store.schema import (
    DATASETS,
    HOUR_OF,
    HOUR_US,
    SESSIONS,
    STARVATION,
    TIMELINE,
    TIMES,
    arrow_types,
    earlier_name,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BATCH_ROWS: Final = 100_000
"""Raw rows that are aggregated at once."""
PACKED: Final = "target int, dataset string, rows binary"
MERGED: Final = (SESSIONS, TIMELINE, STARVATION)
"""The datasets that are made of raw rows."""

_MOST_PARTS: Final = 8
_MOST_PACKED: Final = 20_000  # rows in one piece of bytes

Batches = Iterator[pa.RecordBatch]
Made = Mapping[str, Sequence[pa.Table]]


def aggregated(rows: "DataFrame", slot_us: int, targets: int) -> "DataFrame":
    """Raw rows to compacted rows as bytes."""

    def run(batches: Batches) -> Batches:
        made: dict[str, list[pa.Table]] = {name: [] for name in MERGED}
        for raw in _together(batches):
            found = kernel.datasets(kernel.with_hour(kernel.raw_rows(raw)), slot_us)
            for name in MERGED:
                made[name].append(found[name])
                if len(made[name]) >= _MOST_PARTS:
                    made[name] = [kernel.merged(name, made[name])]
        yield from _packed(made, targets)

    return rows.mapInArrow(_imported(run), PACKED)


def timeline(intervals: "DataFrame", slot_us: int, targets: int) -> "DataFrame":
    """Rows of broker and interval to rows of the timeline as bytes."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            rows = kernel.interval_rows(pa.Table.from_batches([batch]))
            yield from _packed({TIMELINE: [kernel.timeline_of(rows, slot_us)]}, targets)

    return intervals.mapInArrow(_imported(run), PACKED)


def before(rows: "DataFrame", dataset: str, targets: int) -> "DataFrame":
    """Rows of a store's hour as bytes, to be put together with new ones."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            yield from _packed({dataset: [_as_here(dataset, pa.Table.from_batches([batch]))]}, targets)

    return rows.mapInArrow(_imported(run), PACKED)


def merged(packed: "DataFrame", targets: int) -> "DataFrame":
    """Compacted rows as bytes, those of the same key put together; one task for each target."""
    from pyspark.sql import functions as F  # noqa: N812  # its usual name

    def run(batches: Batches) -> Batches:
        made: dict[str, list[pa.Table]] = {name: [] for name in MERGED}
        for batch in batches:
            for name, data in zip(batch["dataset"].to_pylist(), batch["rows"].to_pylist(), strict=True):
                made[name].append(_opened(data))
        yield from _packed(made, 1)

    return packed.repartitionById(targets, F.col("target")).mapInArrow(_imported(run), PACKED)


def rows_of(packed: "DataFrame", dataset: str, ddl: str) -> "DataFrame":
    """The rows of one dataset."""
    from pyspark.sql import functions as F  # noqa: N812  # its usual name

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for data in batch["rows"].to_pylist():
                yield from _opened(data).to_batches()

    return packed.where(F.col("dataset") == dataset).mapInArrow(_imported(run), ddl)


def _imported(run: Callable[[Batches], Batches]) -> Callable[[Any], Any]:
    """The function as Spark takes it."""
    return run


def _together(batches: Batches) -> Iterator[pa.Table]:
    """Raw rows, about BATCH_ROWS at a time."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= BATCH_ROWS:
            yield pa.Table.from_batches(held)
            held, rows = [], 0
    if rows:
        yield pa.Table.from_batches(held)


def _as_here(dataset: str, rows: pa.Table) -> pa.Table:
    """Stored rows with the names and types of this program."""
    types = arrow_types(dataset)
    names = {TIMES.get(name, name): name for name in types}
    rows = modern(rows, {TIMES.get(name, name): earlier for name in types if (earlier := earlier_name(name))})
    rows = rows.select(list(names)).rename_columns(list(names.values()))
    columns = []
    for column in DATASETS[dataset]:
        values = rows[column.name].cast(types[column.name])
        is_count = pa.types.is_integer(values.type) and not column.name.startswith("fair_min_")
        columns.append(values.fill_null(0) if is_count and values.null_count else values)
    return pa.table(columns, schema=pa.schema(list(types.items())))


def _packed(made: Made, targets: int) -> Batches:
    """The rows of each dataset, put together, as bytes by target."""
    for name, tables in made.items():
        if not tables:
            continue
        rows = kernel.merged(name, tables) if len(tables) > 1 else tables[0]
        for target, part in _by_target(name, rows, targets):
            for piece in part.to_batches(max_chunksize=_MOST_PACKED):
                data = pa.BufferOutputStream()
                with pa.ipc.new_stream(data, piece.schema, options=_COMPRESSED) as out:
                    out.write(piece)
                columns = [pa.array([target], pa.int32()), pa.array([name]), pa.array([data.getvalue().to_pybytes()])]
                yield pa.RecordBatch.from_arrays(columns, names=["target", "dataset", "rows"])


_COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression="lz4")


def _by_target(name: str, rows: pa.Table, targets: int) -> Iterable[tuple[int, pa.Table]]:
    if targets == 1 or not rows.num_rows:
        return [(0, rows)]
    time: Ints = ints(rows, HOUR_OF[name])
    keyed = rows.select(["broker"]).append_column("hour", pa.array(time - time % HOUR_US))
    groups = Groups(keyed, ("broker", "hour"))
    keys = zip(*(column.to_pylist() for column in groups.keys().values()), strict=True)
    of_group = np.array([crc32(f"{broker}/{hour}".encode()) % targets for broker, hour in keys])
    target = of_group[groups.place]
    return [(each, rows.filter(pa.array(target == each))) for each in np.unique(target).tolist()]


def _opened(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all().combine_chunks()
