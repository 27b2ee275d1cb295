"""One listener that is open: its sockets, and the way of a new connection from the socket to MQTT."""

import asyncio
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, cast

from broker.auth.watched_file import WatchedFile
from broker.broker import Broker
from broker.connection.client_socket import ClientSocket
from broker.connection.log import log_websocket_refused
from broker.runtime.origin import Origin
from broker.server.certificate_dates import Shown
from broker.server.frame_turns import FrameTurns
from broker.server.listening import BACKLOG, HTTP, MQTT, Contexts, server_contexts
from broker.server.proxy_protocol import ProxiedListener
from broker.server.tls_files import CERTIFICATE, Certificates, files, read_certificates, refuse_out_of_date
from broker.server.tls_handshake import TlsListener
from broker.server.unix_socket import OpenSocket
from config.models import Listener
from config.tls import Tls

KEEP_FILE: Final[dict[str, Any]] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
"""From 3.13 on event loops remove the file of a socket that they close: it may be systemd's, or taken over."""


class Secured(NamedTuple):
    """TLS of a listener, as its files are now."""

    contexts: Contexts
    certificates: Certificates


class Followed(NamedTuple):
    """TLS of a listener, and its files, which are followed."""

    files: WatchedFile[Secured]
    now: Secured


class OpenListener:
    """One listener. A reload may change its settings while its sockets stay open."""

    def __init__(
        self, broker: Broker, settings: Listener, reloading: bool = False, before: Certificates | None = None
    ) -> None:
        """Raises OSError if a file of `settings.tls` cannot be used.

        `before`: the certificates of the listener that this one takes the place of.
        """
        self.settings = settings
        self.sockets: list[socket.socket] = []
        self._broker = broker
        self._unix: OpenSocket | None = None
        """The file of a Unix socket that is this broker's own."""
        self._servers: list[asyncio.Server] = []
        self._tls: TlsListener | None = None
        self._proxied: ProxiedListener | None = None
        self._turns = FrameTurns()
        self._watching: asyncio.Task[None] | None = None
        self._refuses_out_of_date = reloading
        """Whether certificates have to be valid now: it has not at the start, which is better than no broker."""
        self._secured: Followed | None = None
        self._secured = self.secured(settings, before)
        self._refuses_out_of_date = True
        self._way = self._new_way()

    @property
    def places(self) -> list[dict[str, Any]]:
        """The log fields of each socket that is open."""
        opened = [sock for sock in self.sockets if sock.fileno() >= 0]
        return [{"listener": self.settings.name, **_place(sock), **_kind(self.settings)} for sock in opened]

    def secured(self, settings: Listener, before: Certificates | None = None) -> "Followed | None":
        """What TLS needs by these settings; None = it is off. Raises OSError, also for a certificate that is not valid
        now, unless the one in use, or `before`, is not valid either."""
        own = settings.tls
        if own is None:
            return None
        place = f"listeners ({settings.name}).tls"

        def load() -> Secured:
            found = _secured(own, MQTT if settings.websocket is None else HTTP)
            if self._refuses_out_of_date:
                in_use = before if self._secured is None else self._secured.now.certificates
                refuse_out_of_date(own, found.certificates, in_use, time.time())
            return found

        # Of files that are being replaced some may be new already: they count when all are the same at the next look.
        watched = WatchedFile(files(place, own), load, self._renew, takes_away=lambda _: True)
        return Followed(watched, watched.read())

    def renewed(self, secured: "Followed | None") -> list[str]:
        """The keys of `tls` whose files have other contents in `secured` than at the last reload."""
        if self._secured is None or secured is None:
            return []
        keys = secured.files.renewed_since(self._secured.files)
        return [key.rpartition(".")[2] for key in keys]

    @property
    def in_use(self) -> "Followed | None":
        """TLS as it is now; None = it is off."""
        return self._secured

    @property
    def certificates(self) -> Certificates | None:
        """Those of its files; None = TLS is off."""
        return None if self._secured is None else self._secured.now.certificates

    @property
    def shown(self) -> Shown | None:
        """The same with its place."""
        tls, found = self.settings.tls, self.certificates
        return None if tls is None or found is None else Shown(self.settings.name, tls, found)

    @property
    def followed(self) -> WatchedFile[Secured] | None:
        """Its files of TLS."""
        return None if self._secured is None else self._secured.files

    async def bind(self, sockets: list[socket.socket], unix: OpenSocket | None = None) -> None:
        """These are its sockets; nothing is accepted yet. Raises OSError."""
        self.sockets = sockets
        self._unix = unix
        loop = asyncio.get_running_loop()
        # asyncio's own loop also accepts up to `backlog` connections in one turn, and before Python 3.13 it does
        # not stop at the first EMFILE: it would report each attempt.
        tries = 1 if isinstance(loop, asyncio.SelectorEventLoop) else BACKLOG
        try:
            for sock in sockets:
                unix_socket = sock.family == socket.AF_UNIX
                listen: Any = partial(loop.create_unix_server, **KEEP_FILE) if unix_socket else loop.create_server
                self._servers.append(await listen(self._accept, sock=sock, backlog=tries, start_serving=False))
        except OSError:
            self.close()
            raise

    async def serve(self) -> None:
        """Accept connections."""
        for server, sock in zip(self._servers, self.sockets, strict=True):
            await server.start_serving()
            if sock.fileno() < 0:
                return  # the broker has begun to stop
            sock.listen(BACKLOG)
        self._watch()

    def use(self, settings: Listener, secured: "Followed | None") -> None:
        """New connections are for these settings, on the same sockets; `secured`: for them.

        If they have something else to show before MQTT, those that are about to show it begin again.
        """
        old, self.settings = self.settings, settings
        self._secured = secured
        self._adapt_sockets(old)
        if _terms(old) != _terms(settings):
            self._end_handshakes()
            self._way = self._new_way()
        elif secured is not None:
            self._renew(secured.now)
        self._watch()

    def close(self) -> None:
        """Accept nothing more, and abort what has not got as far as MQTT."""
        for server in self._servers:
            server.close()
        for sock in self.sockets:
            sock.close()  # also one that nobody has served yet
        if self._unix is not None:
            self._unix.remove()
        if self._watching is not None:
            self._watching.cancel()
        self._end_handshakes()

    def take_over(self, old: "OpenListener") -> None:
        """Its sockets are copies of those of `old`, which is about to be closed."""
        self._unix, old._unix = old._unix, None
        self._adapt_sockets(old.settings)

    def share(self, shared: bool) -> None:
        """Whether another socket of this user may be bound to a port of this listener (SO_REUSEPORT)."""
        for sock in self.sockets:
            if sock.family != socket.AF_UNIX:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, shared)

    # -- internal

    def _adapt_sockets(self, old: Listener) -> None:
        if old.reuse_port != self.settings.reuse_port:
            self.share(self.settings.reuse_port)
        if self._unix is not None and old.mode != self.settings.mode:
            with suppress(FileNotFoundError):  # somebody has removed it: nobody can connect
                self._unix.path.chmod(int(self.settings.mode, 8))

    def _end_handshakes(self) -> None:
        for stage in (self._tls, self._proxied):
            if stage is not None:
                stage.close()

    def _accept(self) -> asyncio.Protocol:
        """The protocol of a new connection."""
        return self._way()

    def _new_way(self) -> Callable[[], asyncio.Protocol]:
        """What is in front of MQTT: the header of a proxy, TLS, WebSocket."""
        broker, name, proxy = self._broker, self.settings.name, self.settings.proxy_protocol
        self._tls = self._proxied = None
        following: Callable[[Origin | None], asyncio.Protocol] = self._new_connection
        if self._secured is not None:
            contexts = self._secured.now.contexts
            self._tls = TlsListener(broker.events, broker.wheel, broker.settings, name, contexts, following)
            following = self._tls.accept
        if proxy is None:
            return lambda: following(None)
        self._proxied = ProxiedListener(broker.events, broker.wheel, broker.settings, name, proxy, following)
        return self._proxied.accept

    def _new_connection(self, origin: Origin | None) -> asyncio.Protocol:
        socket = ClientSocket(self._broker.handlers, self.settings.name, origin)
        # Native classes cannot inherit asyncio.Protocol, and event loops only call its methods.
        protocol = cast("asyncio.Protocol", socket)
        if self.settings.websocket is None:
            return protocol
        from broker.server.websocket import WebSocketTransport

        connection = socket.connection
        transport = WebSocketTransport(
            self.settings.websocket,
            self._broker.settings.max_packet_size,
            protocol,
            self._turns,
            refused=partial(log_websocket_refused, self._broker.events, connection),
            is_newcomer=lambda: connection.session is None and not connection.gate.closed,
        )
        return cast("asyncio.Protocol", transport)

    def _renew(self, secured: Secured) -> None:
        """For new connections the files of TLS are as they are here."""
        if self._secured is not None:
            self._secured = self._secured._replace(now=secured)
        if self._tls is not None:
            self._tls.contexts = secured.contexts

    def _watch(self) -> None:
        """Have newer files of TLS apply to new connections."""
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        if self._secured is not None:
            self._watching = asyncio.get_running_loop().create_task(self._secured.files.run())


def _secured(tls: Tls, protocol: str) -> Secured:
    """Read the files. Raises OSError."""
    return Secured(server_contexts(tls, protocol), read_certificates(tls))


def _terms(settings: Listener) -> tuple[object, object]:
    """What a client, or its proxy, has to show before MQTT; a renewed certificate of the broker changes nothing."""
    tls = None if settings.tls is None else settings.tls.model_copy(update=dict.fromkeys(CERTIFICATE))
    return tls, settings.proxy_protocol


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
