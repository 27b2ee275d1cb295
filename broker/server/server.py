"""The server: listeners, the timer wheel's ticks, signals and the order of shutdown."""

import asyncio
import errno
import gc
import resource
import signal
from typing import TYPE_CHECKING, Any, Final, cast

import structlog

from broker.admin.server import AdminServer, start_admin
from broker.broker import Broker
from broker.connection.connection import Connection
from broker.persistence import open_persistence
from broker.runtime.clock import SECOND, monotonic_us
from broker.runtime.timers import TICK
from broker.server.listening import BACKLOG, open_sockets, server_context
from broker.server.shutdown import disconnect_all
from broker.server.tls_handshake import TlsListener
from broker.telemetry.sys_topics import SysTopics
from config.models import Config, Listener, WebSocket

if TYPE_CHECKING:
    from broker.telemetry.exporter import Exporter

STOP_TIMEOUT: Final = 5.0
"""Seconds that connections have to drain when the server stops."""

ABORT_TIMEOUT: Final = 1.0
"""Seconds to wait for aborted connections; the event loop needs one or two iterations."""

METRICS_TIMEOUT: Final = 5.0
"""Seconds for writing the last metrics when the server stops."""

EXHAUSTED_PAUSE: Final = 60 * SECOND
"""Microseconds between two reports that file descriptors or memory are exhausted."""

_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Server:
    """One broker with its sockets."""

    def __init__(self, config: Config, gate: bool = True) -> None:
        self.config = config
        self._persistence = open_persistence(config)
        journal = self._persistence.journal if self._persistence is not None else None
        self.broker = Broker(config, monotonic_us(), gate, journal)
        self.addresses: dict[str, tuple[str, int]] = {}
        """The actual host and port by listener name; of several addresses the first."""
        self._log = structlog.get_logger("sluice")
        self._servers: list[asyncio.Server] = []
        self._tls: list[TlsListener] = []
        self._opened: list[dict[str, Any]] = []  # the log fields of each listener
        self._stopping = asyncio.Event()
        self._exhausted_until = 0
        self._tasks: list[asyncio.Task[None]] = []  # cancelled when the server stops

    async def run(self) -> None:
        """Serve until `stop` or a signal.

        Raises OSError if a listener, configured admin socket or the journal cannot be opened, or a commit fails.
        """
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._crashed)
        self._handle_signals(loop)
        raise_file_limit()
        if self._persistence is not None:
            self._persistence.start(self.broker, self.stop)
        admin = await self._open_all()
        if self._persistence is None:
            self._log.info("in_memory", detail="without persistence.directory, all sessions end with this process")
        for opened in self._opened:  # logged last, so that the whole broker is ready when a script sees it
            self._log.info("listening", **opened)
        self._start_sys_topics(loop)
        exporter = self._start_exporter()
        self._watch_files(loop)
        gc.freeze()  # exclude what is loaded from collections: scanning it would only lengthen their pauses
        self._tick(loop)
        await self._stopping.wait()
        if admin is not None:
            admin.stop()
        for task in self._tasks:
            task.cancel()
        if self.broker.authenticators is not None:
            self.broker.authenticators.close()
        connections = await self._close()
        if exporter is not None:
            await self._finish(exporter)
        if self._persistence is not None:
            await self._persistence.close()
        self._log.info("stopped", connections=connections)

    def _handle_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stop)
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # `nohup` sets SIG_IGN
            loop.add_signal_handler(signal.SIGHUP, self.stop)

    async def _open_all(self) -> "AdminServer | None":
        """Open the listeners and the admin socket. Raises OSError."""
        try:
            for listener in self.config.listeners:
                await self._open(listener)
            return await start_admin(self.broker.clients, self.broker.router, self.config)
        except OSError:
            self._close_listeners()
            raise

    def stop(self) -> None:
        """Ask `run` to end."""
        self._stopping.set()

    async def _open(self, listener: Listener) -> None:
        try:
            context = server_context(listener.tls) if listener.tls is not None else None
            sockets = await open_sockets(listener.host, listener.port)
        except OSError as error:
            raise OSError(f"listener {listener.name}: cannot listen on {listener.bind}: {error}") from error
        loop = asyncio.get_running_loop()

        def new_connection() -> asyncio.Protocol:
            # Native classes cannot inherit asyncio.Protocol, and event loops only call its methods.
            connection = cast("asyncio.Protocol", Connection(self.broker.handlers, listener.name))
            return connection if listener.websocket is None else self._over_websocket(listener.websocket, connection)

        accept = new_connection
        if context is not None:
            tls = TlsListener(
                self.broker.events, self.broker.wheel, self.broker.settings, listener.name, context, new_connection
            )
            self._tls.append(tls)
            accept = tls.accept
        for sock in sockets:
            # asyncio's own loop also accepts up to `backlog` connections in one turn, and before Python 3.13 it does
            # not stop at the first EMFILE: it would report each attempt.
            tries = 1 if isinstance(loop, asyncio.SelectorEventLoop) else BACKLOG
            server = await loop.create_server(accept, sock=sock, backlog=tries)
            sock.listen(BACKLOG)
            self._servers.append(server)
            host, port = sock.getsockname()[:2]
            self.addresses.setdefault(listener.name, (host, port))
            self._opened.append({"listener": listener.name, "host": host, "port": port, **_kind(listener)})

    def _over_websocket(self, settings: WebSocket, connection: asyncio.Protocol) -> asyncio.Protocol:
        from broker.server.websocket import WebSocketTransport

        size = self.broker.settings.max_packet_size
        return cast("asyncio.Protocol", WebSocketTransport(settings, size, connection))

    def _start_sys_topics(self, loop: asyncio.AbstractEventLoop) -> None:
        mqtt = self.config.mqtt
        if mqtt.sys_interval == float("inf"):
            return
        broker = self.broker
        addresses = broker.addresses if self.config.addresses else None
        topics = SysTopics(broker.settings, broker.sessions, broker.messages, addresses, mqtt)
        self._tasks.append(loop.create_task(topics.run()))

    def _watch_files(self, loop: asyncio.AbstractEventLoop) -> None:
        for file in self.broker.watched:
            self._tasks.append(loop.create_task(file.run()))

    def _start_exporter(self) -> "Exporter | None":
        if self.config.metrics.directory is None:
            return None
        from broker.telemetry.exporter import Exporter

        exporter = Exporter(self.broker.sessions, self.config)
        exporter.start()
        return exporter

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.call_later(TICK / SECOND, self._tick, loop)  # first, so that a timer that raises does not stop the ticks
        self.broker.wheel.advance(monotonic_us())

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
            self._log.error("cannot_accept", detail=str(error), connections=len(self.broker.connections))

    async def _close(self) -> int:
        """Stop listening, disconnect all clients, abort the rest after STOP_TIMEOUT; returns how many there were."""
        self._close_listeners()
        count = len(self.broker.connections)
        gone = asyncio.Event()
        self.broker.connections.on_last_gone = gone.set
        broker = self.broker
        lost = disconnect_all(broker.connections, broker.clients, broker.addresses, monotonic_us())
        if lost:
            self._log.warning("wills_lost", count=lost)
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

    def _close_listeners(self) -> None:
        for server in self._servers:
            server.close()
        for tls in self._tls:
            tls.close()


def _kind(listener: Listener) -> dict[str, Any]:
    """What else the log says of a listener."""
    kind: dict[str, Any] = {"tls": listener.tls is not None}
    if listener.websocket is not None:
        kind["websocket"] = listener.websocket.path
    return kind


def raise_file_limit() -> None:
    """Raise the limit of file descriptors to the hard limit: each connection needs one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
