"""The export: every interval, the counters of all sessions that have something new, as one Parquet file."""

import asyncio
import sys
from typing import TYPE_CHECKING, Final

import structlog

from broker.runtime.clock import monotonic_us
from broker.telemetry.collector import Rows
from broker.telemetry.schema import metrics_schema
from broker.telemetry.wall import WallClock
from broker.telemetry.writer import Writer
from config.models import Config

if TYPE_CHECKING:
    from broker.broker import Broker

SLICE: Final = 50
"""Sessions that are looked at before the loop gets its turn: well under a millisecond, interpreted too."""

SWITCH_INTERVAL: Final = 0.001
"""Seconds after which the writer's thread has to hand the interpreter back; Python's own 5 ms are too long here."""


class Exporter:
    """Collects on the loop, in slices; what it has collected is the writer's."""

    def __init__(self, broker: "Broker", config: Config) -> None:
        directory = config.metrics.directory
        assert directory is not None  # the server makes no exporter otherwise
        self.writer = Writer(directory, config.node_name)
        self._broker = broker
        self._node = config.node_name
        self._interval = config.metrics.interval
        self._heartbeat = config.metrics.heartbeat * 1e6
        self._schema = metrics_schema()
        self._clock = WallClock()
        self._log = structlog.get_logger("sluice")
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        broker.keep_ended = True

    def start(self) -> None:
        """Export every interval from now on."""
        sys.setswitchinterval(SWITCH_INTERVAL)
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Let an export that is running come to its end, then export what there is."""
        self._stopping.set()
        if self._task is not None:
            await self._task
        await self.export(everything=True)
        while self._broker.ended:  # meanwhile
            await self.export()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + self._interval
        while not await self._stops_before(due):
            due = max(due + self._interval, loop.time())
            try:
                await self.export()
            except Exception as error:
                # One export is lost, with what it had taken; the next one is not.
                loop.call_exception_handler({"message": "a metrics export has failed", "exception": error})

    async def _stops_before(self, due: float) -> bool:
        try:
            async with asyncio.timeout_at(due):
                await self._stopping.wait()
        except TimeoutError:
            return self._stopping.is_set()
        return True

    async def export(self, everything: bool = False) -> None:
        """Write one file with a row for each session with something new, or whose heartbeat is due.

        Nothing is written where there is no row. `everything`: a row for each session.
        """
        rows = Rows(self._schema, self._node, self._clock.read(), self._clock)
        await self._collect(rows, everything)
        if len(rows):
            await self.writer.write(rows.table(), rows.wall_end)

    async def _collect(self, rows: Rows, everything: bool) -> None:
        broker = self._broker
        # Who has ended and who is there are taken at one moment: each session is in one of them.
        ended, broker.ended = broker.ended, []
        clients = list(broker.clients.values())
        if broker.ended_lost:
            self._log.error("metrics_lost", rows=broker.ended_lost, detail="too many sessions ended in one interval")
            broker.ended_lost = 0
        for number, last in enumerate(ended, 1):
            rows.add(last, last.counters, connected=False, ended=True)
            await self._yield(rows, number)
        for number, client in enumerate(clients, 1):
            session = client.session
            outbound = session.outbound
            if broker.clients.get(session.client_id) is not client:
                continue  # it has ended since: its last row is in the next export
            since = rows.interval_end - outbound.counters.interval_start
            if everything or session.active() or since >= self._heartbeat:
                counters = session.take_counters(monotonic_us())
                broker.totals.take(client, counters)
                rows.add(session, counters, connected=outbound.connected, ended=False)
                outbound.counters.interval_start = rows.interval_end
            await self._yield(rows, number)

    async def _yield(self, rows: Rows, number: int) -> None:
        """Give the loop its turn, at the end of each slice and before and after each batch."""
        if rows.full:
            await asyncio.sleep(0)
            rows.batch()
            await asyncio.sleep(0)
        elif number % SLICE == 0:
            await asyncio.sleep(0)
