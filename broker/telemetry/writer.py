"""Writes exports to the disk, and a file for each quarter of an hour; in a thread, because disks may be slow."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import pyarrow as pa
import structlog

from broker.runtime.os_errors import text_of
from broker.runtime.own_thread import in_own_thread
from broker.telemetry.collector import Rows
from broker.telemetry.modes import make_folder
from broker.telemetry.pending import QUARTER_US, Pending, exports_in
from broker.telemetry.quarter import read_exports, write_quarter
from broker.telemetry.schema import metrics_schema

T = TypeVar("T")

SLOW: Final = 30.0
"""Seconds after which a write that has not ended is reported."""


@dataclass(frozen=True, slots=True)
class _Damaged:
    """Exports that were set aside: where, how many, and what is wrong with the first."""

    folder: Path
    exports: int
    error: str


@dataclass(frozen=True, slots=True)
class _Troubles:
    """What has gone wrong while files were made: what is tried again, and what is not."""

    errors: list[OSError] = field(default_factory=list)
    damaged: list[_Damaged] = field(default_factory=list)


class Writer:
    """Writes one export at a time. Of several failures in a row the first is logged; each is counted."""

    def __init__(self, directory: Path, node: str, interval: float) -> None:
        """`interval`: seconds between two exports, as configured."""
        self.written = 0
        """Exports that are on the disk."""
        self.failed = 0
        """Exports that could not be written; their rows are lost."""
        self.not_filed = 0
        """How often files could not be made, or exports were found damaged."""
        self._quarter: int | None = None
        """Of the last export: files are made when it ends, and of what an earlier life has left."""
        self._directory = directory
        self._interval = interval
        self._pending = Pending(directory, node)
        self._failing = False
        self._left_out = ""
        """Why the group of the directory cannot read the metrics; empty = it can, or is not to."""
        self._told = False
        self._log = structlog.get_logger("sluice")

    async def write(self, rows: Rows) -> None:
        """Write the rows of an export, which the writer's thread makes a table of.

        Makes the files of quarters that are over. One call at a time. Does not raise OSError.
        """
        try:
            await self.run(partial(self._add, rows), f"to write the export of {len(rows)} rows")
        except OSError as error:
            self._lost(len(rows), error)
            return
        self._succeeded()
        if self._left_out and not self._told:
            self._told = True
            self._log.warning("metrics_not_shared", detail=self._left_out)
        if rows.wall_end // QUARTER_US != self._quarter:
            self._quarter = rows.wall_end // QUARTER_US
            await self._make_files(rows.wall_end)

    def _add(self, rows: Rows) -> int:
        added = self._pending.add(rows.table(), rows.wall_end)
        if not self._told:
            self._left_out = self._pending.left_out()
        pa.default_memory_pool().release_unused()  # Arrow keeps what it has had, and there may be nothing like it again
        return added

    async def finish(self) -> None:
        """Make files of all exports. Does not raise OSError."""
        await self._make_files(None)

    async def _make_files(self, now: int | None) -> None:
        """Make the files of every quarter except that of `now`. What fails stays on the disk, and is tried again."""
        try:
            troubles = await self.run(partial(self._file_due, now), "to make a metrics file")
        except OSError as error:
            troubles = _Troubles([error])
        self.not_filed += bool(troubles.errors) + len(troubles.damaged)
        if troubles.errors:
            more = f" (and of {len(troubles.errors) - 1} more)" if troubles.errors[1:] else ""
            detail = f"{troubles.errors[0]}{more}; it is tried again after this quarter of an hour"
            self._log.error("metrics_not_filed", detail=detail)
        for damaged in troubles.damaged:
            detail = f"damaged exports, set aside in {damaged.folder}: {damaged.error}"
            self._log.error("metrics_lost", exports=damaged.exports, detail=detail)

    def _file_due(self, now: int | None) -> "_Troubles":
        """Each folder by itself: what is wrong with one does not keep others from being filed."""
        troubles = _Troubles()
        due = [partial(self._file, folder, troubles) for folder in self._pending.due(now)]
        steps: list[Callable[[], None]] = [self._pending.clear, *due]
        for step in steps:
            try:
                step()
            except OSError as error:
                troubles.errors.append(error)
            pa.default_memory_pool().release_unused()
        return troubles

    def _file(self, folder: Path, troubles: "_Troubles") -> None:
        """Make a metrics file of the exports in a folder; those that cannot be read are set aside. Raises OSError."""
        folder = self._pending.named(folder)
        schema = metrics_schema()
        try:
            exports, damaged = read_exports(exports_in(folder), schema)
            if damaged:
                self._set_aside(folder, damaged, troubles)
            if exports:
                wall_end = int(folder.stem.rsplit("-", 2)[1])
                partition = self._directory / partition_of(wall_end)
                make_folder(partition, self._directory)
                write_quarter(exports, partition / folder.name, schema.of_file(self._interval))
        except (OSError, MemoryError) as error:
            raise OSError(text_of(error)) from error
        except Exception as error:  # whatever it is, this folder would never be filed, and none would be after it
            self._set_aside(folder, dict.fromkeys(exports_in(folder), error), troubles)
        self._pending.forget(folder)

    def _set_aside(self, folder: Path, exports: Mapping[Path, Exception], troubles: "_Troubles") -> None:
        aside = self._pending.set_aside(folder, exports)
        error = next(iter(exports.values()))
        troubles.damaged.append(_Damaged(aside, len(exports), _first_line(error)))

    async def run(self, function: Callable[[], T], name: str) -> T:
        """Run it in the writer's thread. `name`, such as "to make a file", is for the log if it takes long."""
        running = in_own_thread(function, "metrics")
        finished, _ = await asyncio.wait((running,), timeout=SLOW)
        if not finished:
            self._log.error("metrics_slow", detail=f"{name} takes longer than {SLOW:g} s")
        return await running

    def _lost(self, rows: int, error: OSError) -> None:
        self.failed += 1
        if not self._failing:
            self._failing = True
            self._log.error("metrics_lost", rows=rows, failed=self.failed, detail=text_of(error))

    def _succeeded(self) -> None:
        self.written += 1
        if self._failing:
            self._failing = False
            self._log.info("metrics_written_again", failed=self.failed)


def partition_of(wall_us: int) -> str:
    """The directory for a time in microseconds since 1970 UTC, such as `date=2026-11-21/hour=07`."""
    moment = datetime.fromtimestamp(wall_us / 1e6, UTC)
    return f"date={moment:%Y-%m-%d}/hour={moment:%H}"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
