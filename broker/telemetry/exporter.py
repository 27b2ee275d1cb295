"""The export: in each interval the counters of all sessions that were active; a file for each quarter of an hour."""

import asyncio
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
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
from session.shared_queue import SharedQueue
from session.source import Consumer

if TYPE_CHECKING:
    from broker.routing.shared_queues import SharedQueues
    from broker.sessions import Sessions

SLICE: Final = 50
"""Sessions that are processed before the event loop continues: well under a millisecond, even interpreted."""

MEMBERS: Final = 500
"""The same of members of groups."""

LEAST_PAUSE: Final = 1.0
"""Seconds between two exports, unless metrics.interval is less, however many sessions end."""

SWITCH_INTERVAL: Final = 0.001
"""Seconds after which the writer's thread must release the interpreter; Python's default of 5 ms is too long."""


class Exporter:
    """Collects rows on the event loop, in slices, and passes them to the writer."""

    def __init__(self, sessions: "Sessions", shared: "SharedQueues", config: Config) -> None:
        directory = config.metrics.directory
        assert directory is not None  # otherwise the server creates no exporter
        self.writer = Writer(directory, config.node_name, config.metrics.interval)
        self._retention = Retention(self.writer, directory, config.node_name, config.metrics.keep)
        self._sessions = sessions
        self._shared = shared
        self._node = config.node_name
        self.interval = config.metrics.interval
        """Seconds between two exports."""
        self.exported_us = wall_us()
        """When an export was last complete, or the first one was due to begin, since 1970 UTC."""
        self._failures = 0
        self._heartbeat = config.metrics.heartbeat * 1e6
        self._schema = metrics_schema()
        self._clock = WallClock()
        self._ended_at = monotonic_us()
        self._log = structlog.get_logger("sluice")
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._many_ended = asyncio.Event()
        """Set when the rows of ended sessions take too much memory to wait for the next export, and to stop."""
        sessions.on_many_ended = self._many_ended.set
        sessions.keep_ended = shared.keep_ended = True

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
        while self._sessions.ended or self._shared.ended:  # what ended during the export
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
        """Write a row for each session and group that was active or whose heartbeat is due.

        `everything`: a row for each one.
        """
        rows = Rows(self._schema, self._node, self._clock.read(), self._clock)
        groups = await self._collect_groups(rows, everything)
        await self._collect(rows, everything, groups)
        self._ended_at = rows.interval_end
        failed = self.writer.failed
        if len(rows):
            await self.writer.write(rows)
        if self.writer.failed == failed:
            self.exported_us = wall_us()

    async def _collect_groups(self, rows: Rows, everything: bool) -> Mapping[Consumer, Sequence[str]]:
        """Returns for each session that is a member of groups their names."""
        shared = self._shared
        ended, shared.ended, shared.ended_bytes = shared.ended, [], 0
        lost, shared.ended_lost = shared.ended_lost, 0
        self._tell_lost(lost, "groups")
        there = list(shared.queues.items())
        for number, group in enumerate(ended, 1):
            self._add_group(rows, group, ended=True)
            await self._yield(rows, number)
        found = defaultdict[Consumer, list[str]](list)
        for number, (member, names) in enumerate(list(shared.elsewhere.items()), 1):
            found[member] += names
            if number % MEMBERS == 0:
                await asyncio.sleep(0)
        for number, (name, group) in enumerate(there, 1):
            if shared.queues.get(name) is not group:
                continue  # it has ended since: the next export has its last row
            for place, member in enumerate(list(group.members), 1):
                found[member].append(name)
                if place % MEMBERS == 0:
                    await asyncio.sleep(0)
            counters = group.counters
            counters.interval_start = counters.interval_start or self._ended_at  # it has no clock when it begins
            since = rows.interval_end - int(counters.interval_start)
            if everything or not counters.quiet() or since >= self._heartbeat:
                self._add_group(rows, group, ended=False)
            await self._yield(rows, number)
        return found

    def _add_group(self, rows: Rows, group: SharedQueue, ended: bool) -> None:
        counters = group.take_counters(monotonic_us(), rows.interval_end)
        counters.interval_start = counters.interval_start or self._ended_at  # it has no clock when it begins
        rows.add_group(group, counters, ended)

    def _tell_lost(self, number: int, what: str) -> None:
        if number:
            detail = f"too many {what} ended before the next export"
            self._log.error("metrics_lost", rows=number, detail=detail)
            self._failures += 1

    async def _collect(self, rows: Rows, everything: bool, groups: Mapping[Consumer, Sequence[str]]) -> None:
        sessions = self._sessions
        # Both lists are taken at the same moment, so that each session is in exactly one of them.
        ended, sessions.ended, sessions.ended_bytes = sessions.ended, [], 0
        self._many_ended.clear()
        clients = sessions.clients.known()
        lost, sessions.ended_lost = sessions.ended_lost, 0
        self._tell_lost(lost, "sessions")
        for number, last in enumerate(ended, 1):
            rows.add(last, last.counters, connected=False, ended=True, groups=last.share_groups)
            await self._yield(rows, number)
        for number, client in enumerate(clients, 1):
            session = client.session
            if not sessions.clients.knows(client):
                continue  # the session has ended since: the next export has its last row
            since = rows.interval_end - int(session.counters.interval_start)  # mypy: i64 is no float
            if everything or session.active() or since >= self._heartbeat:
                counters = session.take_counters(monotonic_us(), rows.interval_end)
                sessions.totals.add(session.listener, client.walk, counters)
                of_groups = sorted(groups.get(session.outbound, ()))
                rows.add(session, counters, connected=session.connected, ended=False, groups=of_groups)
            await self._yield(rows, number)

    async def _yield(self, rows: Rows, number: int) -> None:
        """Yield to the event loop at the end of each slice, and before and after each batch."""
        if rows.full:
            await asyncio.sleep(0)
            rows.batch()
            await asyncio.sleep(0)
        elif number % SLICE == 0:
            await asyncio.sleep(0)
