"""The export: in each interval the counters of all sessions that were active; a file for each quarter of an hour."""

import asyncio
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import structlog

from broker.runtime.clock import monotonic_us, wall_us
from broker.telemetry.collector import Rows
from broker.telemetry.retention import Retention
from broker.telemetry.schema import metrics_schema
from broker.telemetry.wall import WallClock
from broker.telemetry.writer import Writer
from config.models import Config

if TYPE_CHECKING:
    from broker.sessions import Sessions

SLICE: Final = 50
"""Sessions that are processed before the event loop continues: well under a millisecond, even interpreted."""

LEAST_PAUSE: Final = 1.0
"""Seconds between two exports, unless metrics.interval is less, however many sessions end."""

SWITCH_INTERVAL: Final = 0.001
"""Seconds after which the writer's thread must release the interpreter; Python's default of 5 ms is too long."""


class Exporter:
    """Collects rows on the event loop, in slices, and passes them to the writer."""

    def __init__(self, sessions: "Sessions", config: Config) -> None:
        directory = config.metrics.directory
        assert directory is not None  # otherwise the server creates no exporter
        self.writer = Writer(directory, config.node_name)
        self._retention = Retention(self.writer, directory, config.node_name, config.metrics.keep)
        self._sessions = sessions
        self._node = config.node_name
        self.interval = config.metrics.interval
        """Seconds between two exports."""
        self.exported_us = wall_us()
        """When an export was last complete, or the first one was due to begin, since 1970 UTC."""
        self._failures = 0
        self._heartbeat = config.metrics.heartbeat * 1e6
        self._schema = metrics_schema()
        self._clock = WallClock()
        self._log = structlog.get_logger("sluice")
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._many_ended = asyncio.Event()
        """Set when the rows of ended sessions take too much memory to wait for the next export, and to stop."""
        sessions.on_many_ended = self._many_ended.set
        sessions.keep_ended = True

    def start(self) -> None:
        """Start the export in each interval."""
        sys.setswitchinterval(SWITCH_INTERVAL)
        self._task = asyncio.get_running_loop().create_task(self._run())

    @property
    def failures(self) -> int:
        """How often rows were lost, or could not be filed, or old files could not be deleted."""
        return self._failures + self.writer.failed + self.writer.not_filed + self._retention.failed

    async def stop(self) -> None:
        """Wait for an export that is running, then export all sessions, and make files of all that is not in one."""
        self._stopping.set()
        self._many_ended.set()
        if self._task is not None:
            await self._task
        await self.export(everything=True)
        while self._sessions.ended:  # sessions that ended during the export
            await self.export()
        await self.writer.finish()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + self.interval
        while not await self._stops_before(due):
            if loop.time() >= due:
                due = max(due + self.interval, loop.time())
            try:
                await self.export()
                await self._retention.look(self._clock.at(monotonic_us()))
            except Exception as error:
                # This export is lost with the counters that it has taken; the next one runs as usual.
                self._failures += 1
                loop.call_exception_handler({"message": "a metrics export has failed", "exception": error})

    async def _stops_before(self, due: float) -> bool:
        """Wait until `due`, or until many sessions have ended, but for a while; returns whether the broker stops."""
        least = min(due, asyncio.get_running_loop().time() + LEAST_PAUSE)
        for event, at in ((self._stopping, least), (self._many_ended, due)):
            with suppress(TimeoutError):
                async with asyncio.timeout_at(at):
                    await event.wait()
        return self._stopping.is_set()

    async def export(self, everything: bool = False) -> None:
        """Write a row for each session that was active or whose heartbeat is due.

        `everything`: a row for each session.
        """
        rows = Rows(self._schema, self._node, self._clock.read(), self._clock)
        await self._collect(rows, everything)
        failed = self.writer.failed
        if len(rows):
            await self.writer.write(rows)
        if self.writer.failed == failed:
            self.exported_us = wall_us()

    async def _collect(self, rows: Rows, everything: bool) -> None:
        sessions = self._sessions
        # Both lists are taken at the same moment, so that each session is in exactly one of them.
        ended, sessions.ended, sessions.ended_bytes = sessions.ended, [], 0
        self._many_ended.clear()
        clients = sessions.clients.known()
        if sessions.ended_lost:
            detail = "too many sessions ended before the next export"
            self._log.error("metrics_lost", rows=sessions.ended_lost, detail=detail)
            sessions.ended_lost = 0
            self._failures += 1
        for number, last in enumerate(ended, 1):
            rows.add(last, last.counters, connected=False, ended=True)
            await self._yield(rows, number)
        for number, client in enumerate(clients, 1):
            session = client.session
            if not sessions.clients.knows(client):
                continue  # the session has ended since: the next export has its last row
            since = rows.interval_end - int(session.counters.interval_start)  # mypy: i64 is no float
            if everything or session.active() or since >= self._heartbeat:
                counters = session.take_counters(monotonic_us(), rows.interval_end)
                sessions.totals.add(session.listener, client.walk, counters)
                rows.add(session, counters, connected=session.connected, ended=False)
            await self._yield(rows, number)

    async def _yield(self, rows: Rows, number: int) -> None:
        """Yield to the event loop at the end of each slice, and before and after each batch."""
        if rows.full:
            await asyncio.sleep(0)
            rows.batch()
            await asyncio.sleep(0)
        elif number % SLICE == 0:
            await asyncio.sleep(0)
