"""The export: every interval, the counters of all sessions that have something new, as one Parquet file."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import structlog

from broker.clock import monotonic_us, wall_us
from broker.telemetry.collector import Columns
from broker.telemetry.schema import metrics_schema
from broker.telemetry.writer import write
from config.models import Config

if TYPE_CHECKING:
    from broker.broker import Broker

SLICE = 50
"""Sessions collected before the loop gets its turn: well under a millisecond, interpreted too."""


class Exporter:
    """Collects on the loop in slices, writes in a thread of its own. A disk that fails is reported and survived."""

    def __init__(self, broker: "Broker", config: Config) -> None:
        directory = config.metrics.directory
        assert directory is not None  # the server makes no exporter otherwise
        self.files_written = 0
        self.files_failed = 0
        """Exports that could not be written; their rows are lost, the broker goes on."""
        self._broker = broker
        self._directory = directory
        self._node = config.node_name
        self._interval = config.metrics.interval
        self._heartbeat = config.metrics.heartbeat
        self._log = structlog.get_logger("sluice")
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="metrics")
        self._task: asyncio.Task[None] | None = None
        self._failing = False
        broker.keep_ended = True

    def start(self) -> None:
        """Export every interval from now on."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Export what there is, and end."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.export(everything=True)
        self._writer.shutdown()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + self._interval
        while True:
            await asyncio.sleep(max(due - loop.time(), 0))
            due = max(due + self._interval, loop.time())
            await self.export()

    async def export(self, everything: bool = False) -> None:
        """Write one file with a row for each session with something new, or whose heartbeat is due."""
        columns = Columns(metrics_schema(), self._node, monotonic_us(), wall_us())
        await self._collect(columns, everything)
        if columns.rows:
            await asyncio.get_running_loop().run_in_executor(self._writer, self._write, columns)

    async def _collect(self, columns: Columns, everything: bool) -> None:
        broker = self._broker
        ended, broker.ended = broker.ended, []
        if broker.ended_lost:
            self._log.error(
                "metrics_lost", rows=broker.ended_lost, detail="too many sessions ended in one interval"
            )
            broker.ended_lost = 0
        for number, (session, counters) in enumerate(ended, 1):
            columns.add(session, counters, True)
            if number % SLICE == 0:
                await asyncio.sleep(0)
        for number, client in enumerate(list(broker.clients.values()), 1):
            session = client.session
            since = columns.interval_end - session.outbound.counters.interval_start
            if everything or session.active() or since >= self._heartbeat * 1e6:
                columns.add(session, session.take_counters(monotonic_us()), False)
                session.outbound.counters.interval_start = columns.interval_end
            if number % SLICE == 0:
                await asyncio.sleep(0)

    def _write(self, columns: Columns) -> None:
        """In the writer's thread."""
        name = f"{self._node}-{columns.wall}-{self.files_written + self.files_failed}.parquet"
        try:
            write(self._directory, columns.table(), name, columns.wall)
        except OSError as error:
            self.files_failed += 1
            if not self._failing:
                self._failing = True
                self._log.error(
                    "metrics_lost", rows=columns.rows, failed=self.files_failed, detail=str(error)
                )
            return
        self.files_written += 1
        if self._failing:
            self._failing = False
            self._log.info("metrics_written_again", lost_files=self.files_failed)
