"""Writes exports to the disk, and a file for each quarter of an hour; in a thread, because disks may be slow."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
import structlog

from broker.runtime.own_thread import in_own_thread
from broker.telemetry.collector import Rows
from broker.telemetry.pending import QUARTER_US, Pending, exports_in
from broker.telemetry.quarter import write_quarter
from broker.telemetry.schema import metrics_schema

SLOW: Final = 30.0
"""Seconds after which a write that has not ended is reported."""


class Writer:
    """Writes one export at a time. Of several failures in a row the first is logged; each is counted."""

    def __init__(self, directory: Path, node: str) -> None:
        self.written = 0
        """Exports that are on the disk."""
        self.failed = 0
        """Exports that could not be written; their rows are lost."""
        self._quarter: int | None = None
        """Of the last export: files are made when it ends, and of what an earlier life has left."""
        self._directory = directory
        self._pending = Pending(directory, node)
        self._failing = False
        self._log = structlog.get_logger("sluice")

    async def write(self, rows: Rows) -> None:
        """Write the rows of an export, which the writer's thread makes a table of.

        Makes the files of quarters that are over. One call at a time. Does not raise OSError.
        """
        try:
            await self._run(partial(self._add, rows), f"the export of {len(rows)} rows")
        except OSError as error:
            self._lost(len(rows), error)
            return
        self._succeeded()
        if rows.wall_end // QUARTER_US != self._quarter:
            self._quarter = rows.wall_end // QUARTER_US
            await self._make_files(rows.wall_end)

    def _add(self, rows: Rows) -> int:
        return self._pending.add(rows.table(), rows.wall_end)

    async def finish(self) -> None:
        """Make files of all exports. Does not raise OSError."""
        await self._make_files(None)

    async def _make_files(self, now: int | None) -> None:
        """Make the files of every quarter except that of `now`. What fails stays on the disk, and is tried again."""
        try:
            unread = await self._run(partial(self._file_due, now), "a metrics file")
        except OSError as error:
            self._log.error("metrics_not_filed", detail=f"{error}; it is tried again after this quarter of an hour")
            return
        if unread:
            self._log.error("metrics_lost", exports=unread, detail="damaged files under _pending, of an earlier life")

    def _file_due(self, now: int | None) -> int:
        """Returns the number of exports that could not be read."""
        unread = 0
        for folder in self._pending.due(now):
            if exports := exports_in(folder):
                wall_end = int(folder.stem.rsplit("-", 2)[1])
                path = self._directory / partition_of(wall_end) / folder.name
                unread += write_quarter(exports, path, metrics_schema().arrow)
            self._pending.forget(folder)
            pa.default_memory_pool().release_unused()
        return unread

    async def _run(self, function: Callable[[], int], name: str) -> int:
        running = in_own_thread(function, "metrics")
        finished, _ = await asyncio.wait((running,), timeout=SLOW)
        if not finished:
            self._log.error("metrics_slow", detail=f"{name} is still being written after {SLOW:g} s")
        return await running

    def _lost(self, rows: int, error: OSError) -> None:
        self.failed += 1
        if not self._failing:
            self._failing = True
            self._log.error("metrics_lost", rows=rows, failed=self.failed, detail=str(error))

    def _succeeded(self) -> None:
        self.written += 1
        if self._failing:
            self._failing = False
            self._log.info("metrics_written_again", failed=self.failed)


def partition_of(wall_us: int) -> str:
    """The directory for a time in microseconds since 1970 UTC, such as `date=2026-11-21/hour=07`."""
    moment = datetime.fromtimestamp(wall_us / 1e6, UTC)
    return f"date={moment:%Y-%m-%d}/hour={moment:%H}"
