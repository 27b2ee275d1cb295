"""Makes the metrics file of a quarter of an hour from its exports, sorted by client, in little memory.

Each export is sorted already. A range of clients after the other is read from all of them, sorted and written, so that
only some RANGE rows are held, however many sessions there are.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from broker.telemetry.pending import INTERVAL, KEY, in_order

RANGE: Final = 20_000
"""Rows that are sorted at once, and a row group of the file, approximately."""

_FIRST: Final = KEY[0]
_OPTIONS: Final = pa.ipc.IpcReadOptions(use_threads=False)  # the batches are too small to share


class Export:
    """The rows of one export, read in ranges."""

    def __init__(self, path: Path) -> None:
        self._reader = pa.ipc.open_file(pa.memory_map(str(path)), options=_OPTIONS)
        self.interval: pa.Table = pa.ipc.open_stream(self._reader.schema.metadata[INTERVAL]).read_all()
        """The row of broker and interval."""
        self._batches = range(self._reader.num_record_batches)
        names = [self._reader.get_batch(number).column(_FIRST) for number in self._batches]
        self.clients = pa.chunked_array(names, pa.string())
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
                found.append(self._reader.get_batch(number).slice(skipped, min(stop, end) - start - skipped))
        return found


def write_quarter(exports: Sequence[Path], path: Path, schema: pa.Schema) -> int:
    """Write the rows of the exports as one file, whole or not at all; exports that cannot be read are left out.

    Returns:
        The number of those.

    Raises:
        OSError: the file cannot be written.
    """
    opened: list[Export] = []
    for export in exports:
        try:
            opened.append(Export(export))
        except (OSError, KeyError, TypeError, pa.ArrowException):  # a power cut may leave anything
            continue
    write_file(_ranges(opened, schema), path, schema)
    return len(exports) - len(opened)


def write_file(tables: Iterable[pa.Table], path: Path, schema: pa.Schema) -> None:
    """Write rows, sorted by KEY, as one metrics file, whole or not at all. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f"_{path.name}.tmp")  # Spark ignores names that begin with an underscore
    order = [pq.SortingColumn(schema.get_field_index(name)) for name in KEY]
    try:
        # Without checksums, a corrupted bit would mostly be read as another number.
        with pq.ParquetWriter(
            aside, schema, compression="zstd", write_page_checksum=True, sorting_columns=order
        ) as writer:
            for table in tables:
                writer.write_table(table)
        with aside.open("rb") as written:
            os.fsync(written.fileno())
        aside.replace(path)
    except (OSError, pa.ArrowException) as error:
        aside.unlink(missing_ok=True)
        raise OSError(f"metrics file {path} could not be written: {error}") from error


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
            table = in_order(pa.Table.from_batches(batches).replace_schema_metadata())
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
