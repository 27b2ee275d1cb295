"""The server: listeners, the timer wheel's ticks, signals and the order of shutdown."""

import asyncio
import errno
import resource
import signal
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, Final

import structlog

from broker.bridge.bridges import Bridges
from broker.broker import Broker
from broker.persistence import open_persistence
from broker.runtime.clock import SECOND, monotonic_us
from broker.runtime.loop_delay import LoopDelay
from broker.runtime.os_errors import text_of
from broker.runtime.own_thread import in_own_thread
from broker.runtime.timers import TICK
from broker.server.admin_api import AdminApi, StartAdmin
from broker.server.alone import Alone
from broker.server.certificate_dates import CertificateDates, Shown
from broker.server.garbage import spare_what_is_old
from broker.server.listeners import Listeners
from broker.server.logs import AUDIT, limit, set_level, tell_left_out
from broker.server.memory import MemoryWatch, keep_freed
from broker.server.reload import Changes, plan_reload, read_again, sources_after, summary
from broker.server.shutdown import disconnect_all
from broker.server.starting import introduction
from broker.telemetry.sys_topics import SysTopics
from broker.telemetry.totals_walk import TotalsWalk
from config.errors import ConfigError
from config.load import Loaded
from config.memory import too_low, watermark
from config.models import Config
from config.mounts import ALONE, mounted_alone
from protocol.replies import shortened

if TYPE_CHECKING:
    from broker.telemetry.exporter import Exporter

STOP_TIMEOUT: Final = 5.0
"""Seconds that connections have to drain when the server stops."""

ABORT_TIMEOUT: Final = 1.0
"""Seconds to wait for aborted connections; the event loop needs one or two iterations."""

METRICS_TIMEOUT: Final = 5.0
"""Seconds for writing the last metrics when the server stops."""

DROPS_TIMEOUT: Final = 5.0
"""Seconds for the last drop events when the server stops (FC-35)."""

EXHAUSTED_PAUSE: Final = 60 * SECOND
"""Microseconds between two reports that file descriptors or memory are exhausted."""

_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Server:
    """One broker with its sockets."""

    def __init__(
        self,
        config: Config,
        gate: bool = True,
        loaded: Loaded | None = None,
        show_link: Callable[[str], None] | None = None,
        start_admin: StartAdmin | None = None,
        membership: Alone | None = None,
    ) -> None:
        """`loaded`: where `config` comes from; None = from nowhere, so that it cannot be loaded again.

        `show_link` gets a link to the dashboard, which then is open in any case. `start_admin`: None = no admin API.
        `membership`: which of several processes it is; None = it is the only one.
        """
        self._log = structlog.get_logger("sluice")
        self._log.info("starting", **introduction(config, None if loaded is None else loaded.file))
        self.config = config
        self.sources: Mapping[str, str] = {} if loaded is None else loaded.sources
        self._show_link = show_link
        self._start_admin = start_admin
        self._again = None if loaded is None else loaded.again
        self._file = None if loaded is None else loaded.file
        self._membership = Alone() if membership is None else membership
        opened_ahead = self._membership.open_ahead(config)
        self._persistence = open_persistence(config)
        journal = self._persistence.journal if self._persistence is not None else None
        self.broker = Broker(config, monotonic_us(), gate, journal, self._membership.guard(config))
        self.started_us = monotonic_us()
        self.loop_delay = LoopDelay()
        self.reload_failed = False
        self.exporter: Exporter | None = None
        self.totals_walk = TotalsWalk(self.broker.clients, self.broker.totals, self.broker.router.shared)
        self.listeners = Listeners(self.broker, opened_ahead, self._membership.shares_listeners)
        self.bridges = Bridges(self.broker)
        self._dates = CertificateDates(self._shown)
        self._memory = MemoryWatch(self.broker)
        self._stopping = asyncio.Event()
        self._serving = False
        self._exhausted_until = 0
        self._due: asyncio.Handle | None = None
        """Calls the timers that are due and have not been called yet."""
        self._tasks: list[asyncio.Task[None]] = []  # cancelled when the server stops
        self._reloading = asyncio.Lock()
        self._admin: AdminApi | None = None

    async def run(self) -> None:
        """Serve until `stop` or a signal.

        Raises OSError if a listener, configured admin socket or the journal cannot be opened, or a commit fails.
        """
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._crashed)
        self._handle_signals(loop)
        raise_file_limit()
        keep_freed()
        if self._persistence is not None:
            self._persistence.start(self.broker, self.stop)
        admin = self._admin = await self._open_all()
        if self._persistence is None:
            self._log.info("in_memory", detail="without persistence.directory, all sessions end with this process")
        self._tell_watermark()
        if why := too_low(self.config):
            self._log.warning("memory_watermark_low", detail=why)
        for key, file in mounted_alone(self.config, self._file).items():
            self._log.warning("file_mounted_alone", key=key, file=str(file), detail=f"it {ALONE}")
        self._dates.look()
        for opened in self.listeners.opened:  # logged last, so that the whole broker is ready when a script sees it
            self._log.info("listening", **opened)
        if admin is not None and self._show_link is not None:
            self._show_link(await admin.link())
        self._start_sys_topics(loop)
        exporter = self.exporter = self._start_exporter()
        self._watch_files(loop)
        spare_what_is_old(loop)
        self._tick(loop)
        self.bridges.start(self.config, monotonic_us())
        self._serving = True
        self._membership.serves()
        await self._stopping.wait()
        self._membership.stops()
        self._log.info("stopping", connections=len(self.broker.connections))
        for task in list(self._tasks):
            task.cancel()
        if self.broker.authenticators is not None:
            self.broker.authenticators.close()
        self.bridges.stop()
        connections = await self._close()
        with suppress(TimeoutError):  # a disk that is too slow
            await asyncio.wait_for(self.broker.drop_events.finish(), DROPS_TIMEOUT)
        if admin is not None:  # last, so that /ready says why
            admin.stop()
        if exporter is not None:
            await self._finish(exporter)
        if self._persistence is not None:
            await self._persistence.close()
        tell_left_out(last=True)
        self._log.info("stopped", connections=connections)

    def _handle_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        # Not by the loop: when it is closed it would give them back, and another one would replace the exit status.
        def stop(*_: object) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self.stop)

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # `nohup` sets SIG_IGN
            loop.add_signal_handler(signal.SIGHUP, self._reload_soon)

    def _reload_soon(self) -> None:
        task = asyncio.get_running_loop().create_task(self._reload_for_signal())
        self._tasks.append(task)
        task.add_done_callback(self._tasks.remove)

    async def _reload_for_signal(self) -> None:
        who = {"who": "signal", "peer": "SIGHUP", "action": "reload", "target": ""}
        try:
            changes = await self.reload()
        except (ConfigError, OSError) as error:
            self._log.error("reload_failed", detail=str(error))
            self._log.info(AUDIT, **who, result=shortened(f"refused: {error}"), refused=True)
        else:
            self._log.info(AUDIT, **who, result=shortened(summary(changes)))

    async def reload(self) -> Changes:
        """Read the configuration again, and apply what can change live; the log says what has.

        Raises ConfigError or OSError, before anything has changed.
        """
        try:
            changes = await self._reload()
        except (ConfigError, OSError):
            self.reload_failed = True
            raise
        self.reload_failed = False
        return changes

    async def _reload(self) -> Changes:
        if self._again is None:
            raise OSError("there is no configuration to read again")
        followed = [*self.broker.watched, *([] if self._admin is None else self._admin.watched)]
        async with AsyncExitStack() as held:
            await held.enter_async_context(self._reloading)  # so that what was read first is applied first
            loaded = await in_own_thread(self._again, "configuration")
            plan = plan_reload(loaded.config, self.config)
            files = await read_again(followed, loaded.config, held)
            self._refuse_when_stopping()
            prepared = await self.listeners.prepare(plan.listeners)
            renewed = prepared.renewed()
            before = self.broker.quotas.watermark.high
            try:
                self._refuse_when_stopping()
                # Rules of files count with those of the configuration, not before or after them: `use` renews both.
                being_used = [file.take(found) for file, found in files]
                await self.broker.use(plan.config, self.config)
                for each in being_used:
                    await each
                renewed += [key for file in followed for key in file.renewed()]
            except BaseException:
                prepared.discard()
                raise
            self.sources = sources_after(plan, loaded, self.sources)
            self.config = plan.config
            if self.broker.quotas.watermark.high != before:
                self._tell_watermark()
            set_level(plan.config.log.level)
            limit(plan.config.log.max_lines)
            disconnected = await self.listeners.use(prepared)
            self.bridges.use(plan.config, monotonic_us())
        changes = Changes(
            plan.changed, renewed, plan.listeners.opened, plan.listeners.closed, disconnected, plan.restart
        )
        opened, closed = ([each.name for each in some] for some in (changes.opened, changes.closed))
        for place in self.listeners.opened:
            if place["listener"] in opened:
                self._log.info("listening", **place)
        listed = {"changed": changes.changed, "renewed": renewed, "opened": opened, "closed": closed}
        told = listed | {"restart": changes.restart}
        if changes.restart:
            self._log.warning("reloaded", **told)
        else:
            self._log.info("reloaded", **told)
        return changes

    def _tell_watermark(self) -> None:
        """FC-32: say what `auto` is."""
        if why := watermark(self.config).why:
            self._log.info("memory_watermark", bytes=self.broker.quotas.watermark.high, detail=why)

    def _shown(self) -> list[Shown]:
        """The certificates in use now."""
        return self.listeners.shown + ([] if self._admin is None else self._admin.shown)

    def expiry(self) -> list[tuple[str, float]]:
        """Whose certificates there are, a listener's or `admin`, and the Unix time until which each is valid."""
        own = [(each.place, each.certificates.own) for each in self._shown()]
        return [(place, certificate.not_after) for place, certificate in own if certificate is not None]

    def files_not_read(self) -> int:
        """How many files, or certificates with their keys, are followed and cannot be used now."""
        followed = [
            *self.broker.watched,
            *self.listeners.followed,
            *([] if self._admin is None else self._admin.watched),
        ]
        return sum(each.mistake != "" for each in followed)

    def _refuse_when_stopping(self) -> None:
        if self._stopping.is_set():
            raise OSError("the broker stops: nothing has changed")

    async def _open_all(self) -> "AdminApi | None":
        """Open the listeners and the admin socket. Raises OSError."""
        try:
            await self._membership.join(self.broker, self.stop)
            for listener in self.config.listeners:
                await self.listeners.open(listener)
            if self._start_admin is None:
                return None
            return await self._start_admin(self, self._show_link is not None)
        except OSError:
            self.listeners.close()
            raise

    def unready(self) -> list[str]:
        """Why clients should not be sent to this broker now; empty if they should."""
        commits = self.broker.commits
        reasons = {
            "the broker starts": not self._serving,
            "the broker stops": self._stopping.is_set(),
            "the journal has no room for messages": commits is not None and not commits.has_room(),
            "the disk has no room even for what frees space": commits is not None and commits.stuck,
            "the memory is above memory_watermark": self.broker.quotas.watermark.reached,
        }
        return [reason for reason, holds in reasons.items() if holds]

    def stop(self) -> None:
        """Ask `run` to end."""
        self._stopping.set()

    def _start_sys_topics(self, loop: asyncio.AbstractEventLoop) -> None:
        mqtt = self.config.mqtt
        if mqtt.sys_interval == float("inf"):
            return
        broker = self.broker
        addresses = broker.addresses if self.config.addresses else None
        parts = (broker.settings, broker.sessions, broker.messages, addresses, mqtt, self.totals_walk)
        topics = SysTopics(*parts, self._membership.totals)
        self._tasks.append(loop.create_task(topics.run()))

    def _watch_files(self, loop: asyncio.AbstractEventLoop) -> None:
        for file in self.broker.watched:
            self._tasks.append(loop.create_task(file.run()))
        self._tasks += [loop.create_task(job()) for job in (*self.broker.jobs, self._dates.run)]

    def _start_exporter(self) -> "Exporter | None":
        if self.config.metrics.directory is None:
            return None
        from broker.telemetry.exporter import Exporter

        exporter = Exporter(self.broker.sessions, self.broker.router.shared, self.config)
        exporter.start()
        return exporter

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.call_later(TICK / SECOND, self._tick, loop)  # first, so that a timer that raises does not stop the ticks
        now = monotonic_us()
        self.loop_delay.tick(now, now + TICK)
        self._memory.look(now)
        self._membership.look(now)
        if self._persistence is not None:
            self._persistence.journal.look_at_clock()
        tell_left_out()
        if self._due is None:
            self._call_due(loop)

    def _call_due(self, loop: asyncio.AbstractEventLoop) -> None:
        """Call timers that are due: very many of them in several turns of the event loop."""
        self._due = None
        if self.broker.wheel.advance(monotonic_us(), monotonic_us):
            self._due = loop.call_soon(self._call_due, loop)

    def _crashed(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log an unhandled exception of a callback. If it belongs to a connection, the loop has closed that."""
        exception = context.get("exception")
        if isinstance(exception, OSError) and exception.errno in _EXHAUSTED:
            self._report_exhausted(exception)
        else:
            self._log.error("crash", detail=context.get("message", ""), exc_info=exception)

    def _report_exhausted(self, error: OSError) -> None:
        """Log at most once per EXHAUSTED_PAUSE that no connection can be accepted; the loop retries each second."""
        now = monotonic_us()
        if now >= self._exhausted_until:
            self._exhausted_until = now + EXHAUSTED_PAUSE
            self._log.error("cannot_accept", detail=text_of(error), connections=len(self.broker.connections))

    async def _close(self) -> int:
        """Stop listening, disconnect all clients, abort the rest after STOP_TIMEOUT; returns how many there were."""
        self.listeners.close()
        self._membership.leave()
        count = len(self.broker.connections)
        gone = asyncio.Event()
        self.broker.connections.on_last_gone = gone.set
        broker = self.broker
        parts = (broker.connections, broker.clients, broker.addresses, broker.capabilities, broker.run_queue)
        lost = disconnect_all(*parts, monotonic_us())
        if lost:
            self._log.warning("wills_lost", count=lost)
        await self._membership.drain()
        if not await self._wait(gone, STOP_TIMEOUT):
            for connection in list(self.broker.connections.open):
                connection.abort()
            await self._wait(gone, ABORT_TIMEOUT)
        return count

    async def _finish(self, exporter: "Exporter") -> None:
        """Write the last metrics, unless the disk takes too long."""
        try:
            await asyncio.wait_for(exporter.stop(), METRICS_TIMEOUT)
        except TimeoutError:
            self._log.error("metrics_lost", detail=f"the last ones were not written within {METRICS_TIMEOUT:g} s")

    async def _wait(self, gone: asyncio.Event, seconds: float) -> bool:
        if not len(self.broker.connections):
            return True
        try:
            await asyncio.wait_for(gone.wait(), seconds)
        except TimeoutError:
            return False
        return True


def raise_file_limit() -> None:
    """Raise the limit of file descriptors to the hard limit: each connection needs one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
