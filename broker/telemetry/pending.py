"""Rows that are not in a metrics file yet: one file for each export, from which the quarter's file is made.

    DIRECTORY/_pending/NODE/QUARTER/END-NUMBER.arrow      exports of a quarter of an hour that goes on
    DIRECTORY/_pending/NODE/NAME.parquet/...              exports of which NAME.parquet is made
    DIRECTORY/_pending/NODE/NAME.filed/...                exports that are in NAME.parquet: they are only removed
    DIRECTORY/_pending/NODE/NAME.damaged/...              exports that no file can be made of: left to the operator

A broker that is killed leaves them; the next one of this name goes on with them. The second form comes by one renaming,
and says what the file is called: who is killed while it is made makes the same file again, so no row is in two files.
The third one too: no file is made again of what a removal that was interrupted has left.
"""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from broker.runtime.os_errors import text_of
from broker.storage.fsync import sync_names
from broker.telemetry.interval_row import interval_row
from broker.telemetry.modes import create_file, left_out, make_folder
from broker.telemetry.schema import metrics_schema

FOLDER: Final = "_pending"
"""The report ignores names that begin with an underscore."""
QUARTER_US: Final = 900_000_000
KEY: Final = ("client_id", "session_started", "interval_end")
"""The order of the rows, in these files and in the quarter's file."""

INTERVAL: Final = b"interval"
"""The key of the row of broker and interval in the metadata of an export."""

_SUFFIX: Final = ".arrow"
_MADE: Final = ".parquet"
_FILED: Final = ".filed"
_DAMAGED: Final = ".damaged"
_BATCH: Final = 1000  # rows that are read at once
_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


class Pending:
    """The exports of one broker that are not in a metrics file. Every method may raise OSError."""

    def __init__(self, directory: Path, node: str) -> None:
        self._directory = directory
        self._folder = directory / FOLDER / node
        self._node = node
        self._number = 0

    def add(self, table: pa.Table, wall_end: int) -> int:
        """Keep the rows of an export that ended at `wall_end`, in microseconds since 1970 UTC: whole or not at all.

        Returns:
            The number of rows.
        """
        folder = self._folder / str(wall_end // QUARTER_US)
        make_folder(folder, self._directory)
        path = folder / f"{wall_end}-{self._number}{_SUFFIX}"
        self._number += 1
        aside = path.with_suffix(".tmp")
        interval = pa.BufferOutputStream()
        with pa.ipc.new_stream(interval, metrics_schema().arrow) as row:
            row.write_table(interval_row(table, metrics_schema()))
        table = in_order(table).replace_schema_metadata({INTERVAL: interval.getvalue().to_pybytes()})
        try:
            create_file(aside)
            with aside.open("wb") as file:
                with pa.ipc.new_file(file, table.schema, options=_OPTIONS) as writer:
                    writer.write_table(table, max_chunksize=_BATCH)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
        except (OSError, pa.ArrowException) as error:
            aside.unlink(missing_ok=True)
            raise OSError(f"metrics file {path} could not be written: {text_of(error)}") from error
        return int(table.num_rows)

    def left_out(self) -> str:
        """Why the group of the directory cannot read what is kept here; empty if it can, or is not to."""
        try:
            return left_out(self._folder, self._directory)
        except OSError:
            return ""  # somebody has removed it: the next export says so

    def due(self, now: int | None) -> list[Path]:
        """The folders of every quarter except that of `now`, of which metrics files are to be made. None: of every one.

        `named` says what the files are called.
        """
        kept = {_FILED, _DAMAGED}
        current = None if now is None else str(now // QUARTER_US)
        return [each for each in self._folders() if each.suffix not in kept and each.name != current]

    def named(self, folder: Path) -> Path:
        """A folder of `due`, named as the metrics file that is to be made of its exports from now on."""
        if folder.suffix == _MADE or not (files := exports_in(folder)):
            return folder
        # The number is for a broker that is restarted at once.
        name = f"{self._node}-{files[-1].stem.partition('-')[0]}-{len(files)}{_MADE}"
        return folder.rename(self._folder / name)

    def set_aside(self, folder: Path, exports: Iterable[Path]) -> Path:
        """Move exports of a folder that no file can be made of to where nothing reads them; returns where."""
        aside = _with_ending(folder, _DAMAGED)
        make_folder(aside, self._directory)
        for export in exports:
            export.rename(aside / export.name)
        return aside

    def forget(self, folder: Path) -> None:
        """Remove exports that are in a metrics file now."""
        filed = folder.rename(_with_ending(folder, _FILED))
        sync_names(self._folder)  # else a power cut might undo the renaming, but not each removal
        shutil.rmtree(filed)

    def clear(self) -> None:
        """Go on with removals that were interrupted."""
        for folder in self._folders():
            if folder.suffix == _FILED:
                shutil.rmtree(folder)

    def _folders(self) -> list[Path]:
        there = self._folder.iterdir() if self._folder.exists() else ()
        return sorted(each for each in there if each.is_dir())


def _with_ending(folder: Path, ending: str) -> Path:
    """Its name in another form."""
    return folder.with_name(folder.name.removesuffix(_MADE) + ending)


def exports_in(folder: Path) -> list[Path]:
    """The exports in a folder, in the order of time."""
    return sorted(folder.glob(f"*{_SUFFIX}"))


def in_order(table: pa.Table) -> pa.Table:
    """The rows sorted by KEY; texts by their bytes."""
    table = table.combine_chunks()  # taking from pieces costs twice as much
    return table.take(pc.sort_indices(table, [(name, "ascending") for name in KEY]))
