"""Writes Parquet files atomically: to a temporary file, then renamed; in a thread, because disks may be slow."""

import asyncio
import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import structlog

SLOW: Final = 30.0
"""Seconds after which a write that has not ended is reported."""


class Writer:
    """Writes one file at a time. Of several failures in a row the first is logged; each is counted."""

    def __init__(self, directory: Path, node: str) -> None:
        self.files_written = 0
        self.files_failed = 0
        """Files that could not be written; their rows are lost."""
        self._directory = directory
        self._node = node
        self._failing = False
        self._log = structlog.get_logger("sluice")

    async def write(self, table: pa.Table, wall_end: int) -> None:
        """Write the rows of an export that ended at `wall_end`, in microseconds since 1970 UTC.

        One call at a time. Does not raise OSError.
        """
        name = f"{self._node}-{wall_end}-{self.files_written + self.files_failed}.parquet"
        writing = _in_thread(lambda: write(self._directory, table, name, wall_end))
        finished, _ = await asyncio.wait((writing,), timeout=SLOW)
        if not finished:
            self._log.error("metrics_slow", detail=f"{name} is still being written after {SLOW:g} s")
        try:
            await writing
        except OSError as error:
            self._failed(table.num_rows, error)
        else:
            self._succeeded()

    def _failed(self, rows: int, error: OSError) -> None:
        self.files_failed += 1
        if not self._failing:
            self._failing = True
            self._log.error("metrics_lost", rows=rows, failed=self.files_failed, detail=str(error))

    def _succeeded(self) -> None:
        self.files_written += 1
        if self._failing:
            self._failing = False
            self._log.info("metrics_written_again", failed=self.files_failed)


def write(directory: Path, table: pa.Table, file_name: str, wall_us: int) -> None:
    """Write `table` under the date and hour of `wall_us`. Raises OSError, and leaves no file then."""
    folder = directory / partition_of(wall_us)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file_name
    aside = folder / f"_{file_name}.tmp"  # Spark ignores names that begin with an underscore
    try:
        # Without checksums, a corrupted bit would mostly be read as another number.
        pq.write_table(table, aside, compression="zstd", write_page_checksum=True)
        with aside.open("rb") as written:
            os.fsync(written.fileno())
        aside.replace(path)
    except (OSError, pa.ArrowException) as error:
        aside.unlink(missing_ok=True)
        raise OSError(f"metrics file {path} could not be written: {error}") from error


def _in_thread(function: Callable[[], None]) -> "asyncio.Future[None]":
    """Run `function` in a daemon thread: a disk that hangs must not prevent the broker from stopping.

    (The interpreter waits for the threads of a ThreadPoolExecutor when it exits.)
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def finish(error: Exception | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def run() -> None:
        raised: Exception | None = None
        try:
            function()
        except Exception as error:
            raised = error
        try:
            loop.call_soon_threadsafe(finish, raised)
        except RuntimeError:
            pass  # the loop is closed: the broker has stopped without this write

    threading.Thread(target=run, name="metrics", daemon=True).start()
    return done


def partition_of(wall_us: int) -> str:
    """The directory for a time in microseconds since 1970 UTC, such as `date=2026-11-21/hour=07`."""
    moment = datetime.fromtimestamp(wall_us / 1e6, UTC)
    return f"date={moment:%Y-%m-%d}/hour={moment:%H}"
