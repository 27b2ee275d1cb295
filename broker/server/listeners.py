"""The listeners of a server: what is behind each socket, from the socket to MQTT."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from broker.admin.socket import OpenSocket
from broker.auth.watched_file import WatchedFile
from broker.broker import Broker
from broker.connection.connection import Connection
from broker.connection.origin import Origin
from broker.server.activation import passed_on, sockets_named
from broker.server.handover import Opened
from broker.server.listening import BACKLOG, open_sockets, prepare, server_context
from broker.server.proxy_protocol import ProxiedListener
from broker.server.tls_handshake import TlsListener
from broker.server.unix_socket import open_unix
from config.models import Listener, WebSocket
from config.tls import Tls


class Listeners:
    """All listeners of one broker."""

    def __init__(self, broker: Broker, opened_ahead: Opened) -> None:
        self.opened: list[dict[str, Any]] = []
        """The log fields of each socket."""
        self.contexts: dict[str, ssl.SSLContext] = {}
        """The TLS context by listener name: a reload loads its certificate again."""
        self.files: list[WatchedFile[Any]] = []
        """What has to be read again when it changes."""
        self._broker = broker
        self._servers: list[asyncio.Server] = []
        self._unix: list[OpenSocket] = []
        self._opened_ahead = opened_ahead
        self._passed_on: dict[str, list[int]] | None = None
        self._stages: list[TlsListener | ProxiedListener] = []

    async def open(self, listener: Listener) -> None:
        """Listen. Raises OSError, which names the listener."""
        try:
            accept = self._accept(listener)
            sockets = await self._sockets(listener)
        except OSError as error:
            raise OSError(f"listener {listener.name}: cannot listen on {listener.bind}: {error}") from error
        loop = asyncio.get_running_loop()
        for sock in sockets:
            # asyncio's own loop also accepts up to `backlog` connections in one turn, and before Python 3.13 it does
            # not stop at the first EMFILE: it would report each attempt.
            tries = 1 if isinstance(loop, asyncio.SelectorEventLoop) else BACKLOG
            listen = loop.create_unix_server if sock.family == socket.AF_UNIX else loop.create_server
            server = await listen(accept, sock=sock, backlog=tries)
            sock.listen(BACKLOG)
            self._servers.append(server)
            self.opened.append({"listener": listener.name, **_place(sock), **_kind(listener)})

    async def _sockets(self, listener: Listener) -> list[socket.socket]:
        """Open the sockets, or take those that systemd has opened. Raises OSError."""
        address = listener.address
        if address.path:
            opened = open_unix(Path(address.path), int(listener.mode, 8), BACKLOG)
            self._unix.append(opened)
            return [opened.sock]
        if listener.name in self._opened_ahead:
            return self._opened_ahead.pop(listener.name)
        if not address.unit:
            return await open_sockets(address.host, address.port, listener.reuse_port)
        if self._passed_on is None:
            self._passed_on = passed_on()
        sockets = sockets_named(address.unit, self._passed_on)
        for sock in sockets:
            prepare(sock)
        return sockets

    def close(self) -> None:
        """Accept nothing more, and abort what has not got as far as MQTT."""
        for server in self._servers:
            server.close()
        for unix in self._unix:
            unix.remove()
        for stage in self._stages:
            stage.close()

    def _accept(self, listener: Listener) -> Callable[[], asyncio.Protocol]:
        """What makes the protocol of a new connection: the header of a proxy, TLS, WebSocket, MQTT. Raises OSError."""
        broker = self._broker

        def new_connection(origin: Origin | None) -> asyncio.Protocol:
            # Native classes cannot inherit asyncio.Protocol, and event loops only call its methods.
            connection = cast("asyncio.Protocol", Connection(broker.handlers, listener.name, origin))
            return connection if listener.websocket is None else self._over_websocket(listener.websocket, connection)

        following: Callable[[Origin | None], asyncio.Protocol] = new_connection
        if listener.tls is not None:
            context = self.contexts[listener.name] = server_context(listener.tls)
            tls = TlsListener(broker.events, broker.wheel, broker.settings, listener.name, context, new_connection)
            self._stages.append(tls)
            if listener.tls.crlfile is not None:
                self._follow(listener.name, tls, listener.tls, listener.tls.crlfile)
            following = tls.accept
        if listener.proxy_protocol is None:
            return lambda: following(None)
        own = listener.proxy_protocol
        proxied = ProxiedListener(broker.events, broker.wheel, broker.settings, listener.name, own, following)
        self._stages.append(proxied)
        return proxied.accept

    def _follow(self, name: str, tls: TlsListener, own: Tls, crlfile: Path) -> None:
        """Verify the certificates of new connections by newer lists, when the file has changed."""

        def use(context: ssl.SSLContext) -> None:
            tls.context = self.contexts[name] = context

        file = WatchedFile("listeners[].tls.crlfile", crlfile, lambda _: server_context(own), use)
        use(file.read())
        self.files.append(file)

    def _over_websocket(self, settings: WebSocket, connection: asyncio.Protocol) -> asyncio.Protocol:
        from broker.server.websocket import WebSocketTransport

        size = self._broker.settings.max_packet_size
        return cast("asyncio.Protocol", WebSocketTransport(settings, size, connection))


def _place(sock: socket.socket) -> dict[str, Any]:
    """Where a socket is, for the log."""
    name = sock.getsockname()
    return {"path": name} if sock.family == socket.AF_UNIX else {"host": name[0], "port": name[1]}


def _kind(listener: Listener) -> dict[str, Any]:
    """What else the log says of a listener."""
    kind: dict[str, Any] = {"tls": listener.tls is not None}
    if listener.websocket is not None:
        kind["websocket"] = listener.websocket.path
    if listener.proxy_protocol is not None:
        kind["proxy_protocol"] = True
    return kind
