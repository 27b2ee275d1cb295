"""Rows that are not in a metrics file yet: one file for each export, from which the quarter's file is made.

    DIRECTORY/_pending/NODE/QUARTER/END-NUMBER.arrow      exports of a quarter of an hour that goes on
    DIRECTORY/_pending/NODE/NAME.parquet/...              exports of which NAME.parquet is made

A broker that is killed leaves them; the next one of this name goes on with them. The second form comes by one renaming,
and says what the file is called: who is killed while it is made makes the same file again, so no row is in two files.
"""

import os
import shutil
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from broker.telemetry.interval_row import interval_row
from broker.telemetry.schema import metrics_schema

FOLDER: Final = "_pending"
"""The report ignores names that begin with an underscore."""
QUARTER_US: Final = 900_000_000
KEY: Final = ("client_id", "session_started", "interval_end")
"""The order of the rows, in these files and in the quarter's file."""

INTERVAL: Final = b"interval"
"""The key of the row of broker and interval in the metadata of an export."""

_SUFFIX: Final = ".arrow"
_BATCH: Final = 1000  # rows that are read at once
_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


class Pending:
    """The exports of one broker that are not in a metrics file. Every method may raise OSError."""

    def __init__(self, directory: Path, node: str) -> None:
        self._folder = directory / FOLDER / node
        self._node = node
        self._number = 0

    def add(self, table: pa.Table, wall_end: int) -> int:
        """Keep the rows of an export that ended at `wall_end`, in microseconds since 1970 UTC: whole or not at all.

        Returns:
            The number of rows.
        """
        folder = self._folder / str(wall_end // QUARTER_US)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{wall_end}-{self._number}{_SUFFIX}"
        self._number += 1
        aside = path.with_suffix(".tmp")
        interval = pa.BufferOutputStream()
        with pa.ipc.new_stream(interval, metrics_schema().arrow) as row:
            row.write_table(interval_row(table, metrics_schema()))
        table = in_order(table).replace_schema_metadata({INTERVAL: interval.getvalue().to_pybytes()})
        try:
            with aside.open("wb") as file:
                with pa.ipc.new_file(file, table.schema, options=_OPTIONS) as writer:
                    writer.write_table(table, max_chunksize=_BATCH)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
        except (OSError, pa.ArrowException) as error:
            aside.unlink(missing_ok=True)
            raise OSError(f"metrics file {path} could not be written: {error}") from error
        return int(table.num_rows)

    def due(self, now: int | None) -> list[Path]:
        """Folders, named as the metrics file that is to be made of their files, of every quarter except that of `now`.

        None: of every one.
        """
        current = None if now is None else str(now // QUARTER_US)
        due = []
        for folder in sorted(self._folder.iterdir()) if self._folder.exists() else ():
            if folder.suffix == ".parquet":
                due.append(folder)
            elif folder.name != current and (files := exports_in(folder)):
                # The number is for a broker that is restarted at once.
                name = f"{self._node}-{files[-1].stem.partition('-')[0]}-{len(files)}.parquet"
                due.append(folder.rename(self._folder / name))
        return due

    def forget(self, folder: Path) -> None:
        """Remove exports that are in a metrics file now."""
        shutil.rmtree(folder)


def exports_in(folder: Path) -> list[Path]:
    """The exports in a folder, in the order of time."""
    return sorted(folder.glob(f"*{_SUFFIX}"))


def in_order(table: pa.Table) -> pa.Table:
    """The rows sorted by KEY; texts by their bytes."""
    table = table.combine_chunks()  # taking from pieces costs twice as much
    return table.take(pc.sort_indices(table, [(name, "ascending") for name in KEY]))
