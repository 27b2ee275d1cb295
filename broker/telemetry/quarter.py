"""Makes the metrics file of a quarter of an hour from its exports, sorted by client, in little memory.

Each export is sorted already. A range of clients after the other is read from all of them, sorted and written, so that
only some RANGE rows are held, however many sessions there are.
"""

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from broker.runtime.os_errors import text_of
from broker.storage.fsync import sync_names
from broker.telemetry.modes import create_file
from broker.telemetry.pending import INTERVAL, KEY, in_order
from broker.telemetry.schema import MetricsSchema

RANGE: Final = 20_000
"""Rows that are sorted at once, and a row group of the file, approximately."""

_FIRST: Final = KEY[0]
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_OPTIONS: Final = pa.ipc.IpcReadOptions(use_threads=False)  # the batches are too small to share


class Export:
    """The rows of one export, read in ranges. Making it reads all of them: who has one can read it to its end.

    A newer broker may have written it: columns are found by name, and those that this one does not know are left out.

    Raises:
        OSError, ValueError, KeyError, TypeError, pa.ArrowException: it cannot be read; a power cut may leave anything.
    """

    def __init__(self, path: Path, schema: MetricsSchema) -> None:
        # Not mapped: a sector that the disk does not give would end the process.
        self._reader = pa.ipc.open_file(pa.OSFile(str(path)), options=_OPTIONS)
        self._schema = schema.sessions
        interval = pa.ipc.open_stream(self._reader.schema.metadata[INTERVAL]).read_all().combine_chunks()
        self._batches = range(self._reader.num_record_batches)
        self.interval = pa.Table.from_batches([_as(schema.arrow, batch) for batch in interval.to_batches()])
        """The row of broker and interval."""
        names = [self._batch(number).column(_FIRST) for number in self._batches]
        self.clients = pa.chunked_array(names, pa.string())
        if len(self.clients) > 1 and not pc.all(pc.less_equal(self.clients[:-1], self.clients[1:])).as_py():
            raise ValueError("its rows are not in order")
        self._starts = [0]
        for part in names:
            self._starts.append(self._starts[-1] + len(part))

    def rows(self, first: int, end: int) -> list[pa.RecordBatch]:
        """The rows from `first` to below `end`."""
        found = []
        for number in self._batches:
            start, stop = self._starts[number], self._starts[number + 1]
            if start < end and stop > first:
                skipped = max(0, first - start)
                found.append(self._batch(number).slice(skipped, min(stop, end) - start - skipped))
        return found

    def _batch(self, number: int) -> pa.RecordBatch:
        return _as(self._schema, self._reader.get_batch(number))


def read_exports(paths: Sequence[Path], schema: MetricsSchema) -> tuple[list[Export], dict[Path, Exception]]:
    """The exports, and why those that cannot be read cannot.

    Raises:
        OSError, MemoryError: it is not the export's fault.
    """
    opened: list[Export] = []
    damaged: dict[Path, Exception] = {}
    for path in paths:
        try:
            opened.append(Export(path, schema))
        except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
            if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _EXHAUSTED):
                raise
            damaged[path] = error
    return opened, damaged


def write_quarter(exports: Sequence[Export], path: Path, schema: pa.Schema) -> None:
    """Write the rows of the exports as one file, whole or not at all.

    Raises:
        OSError: the file cannot be written.
    """
    write_file(_ranges(exports, schema), path, schema)


def write_file(tables: Iterable[pa.Table], path: Path, schema: pa.Schema) -> None:
    """Write rows, sorted by KEY, as one metrics file, whole or not at all. Its folder has to be there.

    Raises OSError, and what the rows raise.
    """
    aside = path.with_name(f"_{path.name}.tmp")  # Spark ignores names that begin with an underscore
    order = [pq.SortingColumn(schema.get_field_index(name)) for name in KEY]
    try:
        create_file(aside)
        # Without checksums, a corrupted bit would mostly be read as another number.
        with pq.ParquetWriter(
            aside, schema, compression="zstd", write_page_checksum=True, sorting_columns=order
        ) as writer:
            for table in tables:
                writer.write_table(table)
        with aside.open("rb") as written:
            os.fsync(written.fileno())
        aside.replace(path)
        sync_names(path.parent)
    except BaseException as error:
        aside.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OSError(f"metrics file {path} could not be written: {text_of(error)}") from error
        raise


def _ranges(exports: Sequence[Export], schema: pa.Schema) -> Iterator[pa.Table]:
    """All rows in order, a range of clients after the other."""
    if exports:
        yield in_order(pa.concat_tables(export.interval for export in exports))
    firsts = [0] * len(exports)
    for bound in (*_bounds(exports), None):
        batches: list[pa.RecordBatch] = []
        for number, export in enumerate(exports):
            end = len(export.clients) if bound is None else _before(export.clients, bound)
            batches += export.rows(firsts[number], end)
            firsts[number] = end
        if batches:
            table = in_order(pa.Table.from_batches(batches))
            nothing = [pa.nulls(table.num_rows, kind) for kind in schema.types[table.num_columns :]]
            yield pa.Table.from_arrays([*table.columns, *nothing], schema=schema)


def _bounds(exports: Sequence[Export]) -> list[pa.Scalar]:
    """Clients that cut all rows into ranges of about RANGE rows, by the export that has most.

    Arrow's own values: to make one of Python's imports pandas where that is installed.
    """
    largest = max((export.clients for export in exports), key=len, default=pa.chunked_array([], pa.string()))
    rows = sum(len(export.clients) for export in exports)
    step = max(1, len(largest) * RANGE // max(rows, 1))
    return [largest[place] for place in range(step, len(largest), step)]


def _before(clients: pa.ChunkedArray, bound: pa.Scalar) -> int:
    """How many of the sorted clients are before the bound."""
    return int(pc.sum(pc.less(clients, bound)).as_py() or 0)


def _as(schema: pa.Schema, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Checked rows with the columns of a schema."""
    rows.validate(full=True)  # damage that decompresses would end the process
    columns = []
    for field in schema:
        place = rows.schema.get_field_index(field.name)
        if place < 0:
            raise ValueError(f"{field.name} is missing")
        column = rows.column(place).cast(field.type)
        if column.null_count and not field.nullable:
            raise ValueError(f"{field.name} has nulls")
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)
