"""The server: listeners, the ticking of the wheel, signals and the order of stopping."""

import asyncio
import signal
import socket
from typing import cast

import structlog

from broker.broker import Broker
from broker.clock import monotonic_us
from broker.connection import Connection
from broker.telemetry.exporter import Exporter
from broker.tls import server_context
from broker.wheel import TICK
from config.models import Config, Listener
from protocol import reason_codes

STOP_TIMEOUT = 5.0
"""Seconds that connections have to take what is left for them when the server stops."""

BACKLOG = 4096
"""Connections that the kernel holds until they are accepted: 10,000 clients may come back at once."""


class Server:
    """One broker with its sockets."""

    def __init__(self, config: Config, gate: bool = True) -> None:
        self.config = config
        self.broker = Broker(config, monotonic_us(), gate)
        self.addresses: dict[str, tuple[str, int]] = {}
        """Listener name to the host and port that it really listens on."""
        self._log = structlog.get_logger("sluice")
        self._servers: list[asyncio.Server] = []
        self._exporter = Exporter(self.broker, config) if config.metrics.directory is not None else None
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Serve until `stop` or a signal. Raises OSError if a listener cannot be opened."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stop)
        try:
            for listener in self.config.listeners:
                await self._open(listener)
            self._tick(loop)
            if self._exporter is not None:
                self._exporter.start()
            await self._stopping.wait()
        finally:
            await self._close()

    def stop(self) -> None:
        """Ask `run` to end."""
        self._stopping.set()

    async def _open(self, listener: Listener) -> None:
        context = server_context(listener.tls) if listener.tls is not None else None
        loop = asyncio.get_running_loop()

        def new_connection() -> asyncio.Protocol:
            # Native classes cannot inherit asyncio.Protocol, and event loops only call its methods.
            return cast("asyncio.Protocol", Connection(self.broker, listener.name))

        try:
            server = await loop.create_server(
                new_connection, listener.host, listener.port, ssl=context, backlog=BACKLOG, reuse_address=True
            )
        except OSError as error:
            raise OSError(f"listener {listener.name}: cannot listen on {listener.bind}: {error}") from error
        self._servers.append(server)
        for sock in server.sockets:
            host, port = sock.getsockname()[:2]
            self.addresses[listener.name] = (host, port)
            self._log.info(
                "listening",
                listener=listener.name,
                host=host,
                port=port,
                tls=context is not None,
                ipv6=sock.family == socket.AF_INET6,
            )

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self.broker.wheel.advance(monotonic_us())
        if not self._stopping.is_set():
            loop.call_later(TICK / 1e6, self._tick, loop)

    async def _close(self) -> None:
        """Stop listening, tell the clients, wait for them for a while, then write what the metrics still have."""
        for server in self._servers:
            server.close()
        connections = list(self.broker.connections)
        for connection in connections:
            connection.close(reason_codes.SERVER_SHUTTING_DOWN)
        deadline = asyncio.get_running_loop().time() + STOP_TIMEOUT
        while self.broker.connections and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.01)
        for connection in list(self.broker.connections):
            connection.abort()
        if self._exporter is not None:
            await self._exporter.stop()
        self._log.info("stopped", connections=len(connections))
