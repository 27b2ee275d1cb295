"""Serves the admin API: accepts connections, loads the application at the first one, and hands them to uvicorn."""

import asyncio
import gc
import logging
import socket
import ssl
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast

import structlog

from broker.admin.connection import READ_TIMEOUT, REQUEST_TIMEOUT, AdminConnection
from broker.admin.handshakes import BoundedHandshakes
from broker.admin.links import Grant, Links
from broker.admin.socket import is_trusted, open_socket, place
from broker.auth.watched_file import WatchedFile
from broker.runtime.clock import SECOND, monotonic_us
from broker.runtime.os_errors import text_of
from broker.server.certificate_dates import Shown
from broker.server.listening import HTTP, open_sockets, server_context
from broker.server.tls_files import Certificates, files, read_certificates, refuse_out_of_date
from broker.server.unix_socket import OpenSocket, SocketInUseError
from config.admin import CHOSEN, Admin
from config.bind_address import parse
from config.models import Config
from config.tls import Tls

if TYPE_CHECKING:
    import uvicorn
    from uvicorn.server import ServerState

    from broker.admin.api.dashboard import Where
    from broker.admin.api.load import Application
    from broker.admin.managed import Managed

    Loaded = tuple[Application, uvicorn.Config, ServerState]
    Load = Callable[[Links, Where], Loaded]

MOST_CONNECTIONS: Final = 64
"""Of each kind, Unix and TCP; past it one makes room, or a further connection is refused."""

PATIENCE: Final = 1.0
"""Seconds for which a peer with a token may keep the broker waiting although there is no room for another."""

LOAD_AGAIN: Final = 60 * SECOND
"""Microseconds after which the application is loaded again if that has failed; until then connections are closed."""

SWITCH_INTERVAL: Final = 0.0005
"""Seconds after which the thread that loads the application must release the interpreter."""

ANY_LOOPBACK: Final = "127.0.0.1:0"
"""Where the dashboard is served without `admin.listen`: only this machine reaches it, and only links let anybody in."""


class AdminTls(NamedTuple):
    """TLS of the API, as its files are now."""

    context: ssl.SSLContext
    certificates: Certificates


class Configured(Protocol):
    """What is served."""

    config: Config
    """What applies now."""


class AdminServer:
    """Serves the API until it is stopped."""

    def __init__(self, configured: Configured, load: "Load") -> None:
        """`load`: builds the application; it is called in a thread."""
        self.connections: set[AdminConnection] = set()
        self.addresses: list[tuple[str, int]] = []
        """Host and port where it is served over TCP."""
        self.links = Links(monotonic_us)
        self._configured = configured
        self._load_application = load
        self._opened: OpenSocket | None = None
        self._servers: list[asyncio.Server] = []
        self.watched: list[WatchedFile[AdminTls]] = []
        """The files of TLS, which are followed."""
        self.shown: list[Shown] = []
        """The certificates of TLS."""
        self._watching: asyncio.Task[None] | None = None
        self._handshakes: BoundedHandshakes | None = None
        self._opening = asyncio.Lock()
        self._loading: asyncio.Task[None] | None = None
        self._failed_until = 0
        self._api: Application | None = None
        self._config: uvicorn.Config | None = None
        self._state: ServerState | None = None
        self._log = structlog.get_logger("sluice")

    async def open_unix(self, opened: OpenSocket) -> None:
        """Serve on this socket, for this user and root."""
        self._opened = opened
        loop = asyncio.get_running_loop()
        self._servers.append(await loop.create_unix_server(lambda: AdminConnection(self, True), sock=opened.sock))

    async def open_tcp(self, config: Admin) -> None:
        """Serve on `admin.listen`, or without it on a loopback port, for those who have a token or a link.

        The application is loaded now: it will be needed.

        Raises OSError.
        """
        bind = parse(config.listen or ANY_LOOPBACK)
        new_connection = partial(AdminConnection, self, False)
        if config.tls is not None:
            tls = self._follow(config.tls)
            self._handshakes = BoundedHandshakes(tls.context, REQUEST_TIMEOUT, new_connection)
        loop = asyncio.get_running_loop()
        for sock in await open_sockets(bind.host, bind.port):
            _limit_unread(sock)
            if self._handshakes is None:
                self._servers.append(await loop.create_server(new_connection, sock=sock))
            else:
                self._handshakes.serve(sock)
            self.addresses.append(sock.getsockname()[:2])
        self._begin_loading()

    def _follow(self, tls: Tls) -> AdminTls:
        """Read the files of TLS, and have newer ones apply to new connections. Raises OSError."""

        def use(now: AdminTls) -> None:
            self.shown = [Shown("admin", tls, now.certificates)]
            if self._handshakes is not None:
                self._handshakes.context = now.context

        def load() -> AdminTls:
            found = _read(tls)
            if self.watched:  # at the start it is taken: the log says that clients refuse it
                refuse_out_of_date(tls, found.certificates, self.shown[0].certificates, time.time())
            return found

        watched = WatchedFile(files("admin.tls", tls), load, use, takes_away=lambda _: True)
        first = watched.read()
        use(first)
        self.watched = [watched]
        self._watching = asyncio.get_running_loop().create_task(watched.run())
        return first

    async def dashboard(self) -> str:
        """The URL of the dashboard; without `admin.listen` its port is opened when it is first asked for.

        Raises OSError.
        """
        config = self._configured.config.admin
        if not self.addresses:
            async with self._opening:
                if not self.addresses:
                    await self.open_tcp(config)
        host, port = self.addresses[0]
        bind = parse(config.listen or ANY_LOOPBACK)
        if bind.ip is None:
            host = bind.host  # a name, as certificates have
        elif bind.ip.is_unspecified:
            host = "::1" if bind.ip.version == 6 else "127.0.0.1"
        return f"http{'s' if config.tls is not None else ''}://{f'[{host}]' if ':' in host else host}:{port}/"

    async def link(self) -> str:
        """A link to the dashboard, for the operator who starts the broker. Raises OSError."""
        return self.links.url(await self.dashboard(), Grant("link at start", "operator"))

    def stop(self) -> None:
        """Stop serving, and remove the socket."""
        if self._opened is not None:
            self._opened.remove()
        for server in self._servers:
            server.close()
        if self._handshakes is not None:
            self._handshakes.stop()
        if self._watching is not None:
            self._watching.cancel()
        if self._loading is not None:
            self._loading.cancel()
        if self._api is not None:
            self._api.stop()
        if self._state is not None:
            logging.getLogger("uvicorn.error").disabled = True  # to it a stream that is cancelled has crashed
            for task in self._state.tasks:
                task.cancel()
        self._abort_all()

    def _abort_all(self) -> None:
        for connection in list(self.connections):
            connection.abort()

    def refusal(self, new: AdminConnection, uid: int | None) -> str:
        """Why a connection is refused; empty if it is served."""
        if new.trusted and not is_trusted(uid):
            self._log.warning("admin_refused", uid=uid)
            return f"user {uid} is not allowed to ask: only the broker's user and root are"
        if not self._has_room(new):
            return f"{MOST_CONNECTIONS} others are connected, which is the most: try again later"
        return ""

    def _has_room(self, new: AdminConnection) -> bool:
        """Whether this connection may stay; at the limit another one is closed for it.

        That is the oldest whose peer has shown no valid token: who has one shows it with the first request. Of the
        others it is the one that has kept the broker waiting for longest, past PATIENCE.
        """
        others = [each for each in self.connections if each.trusted is new.trusted and not each.refused]
        others.remove(new)
        if len(others) < MOST_CONNECTIONS:
            return True
        may_go = [each for each in others if each.stranger or each.waited() >= PATIENCE]
        if not may_go:
            return False
        first = max(may_go, key=lambda each: (each.stranger, each.waited()))
        self.connections.discard(first)
        first.abort()
        return True

    def serve(self, connection: AdminConnection) -> None:
        """Hand a connection to uvicorn, as soon as the application is loaded."""
        if self._state is not None:
            connection.begin(self._protocol(connection))
        elif monotonic_us() < self._failed_until:
            connection.abort()
        else:
            self._begin_loading()

    def _begin_loading(self) -> None:
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._load())

    def _protocol(self, connection: AdminConnection) -> asyncio.Protocol:
        config, state = self._config, self._state
        assert config is not None  # loaded
        assert state is not None
        make = cast("Any", config.http_protocol_class)
        made = make(config=config, server_state=state, app_state=connection.facts())
        return cast("asyncio.Protocol", made)

    async def _load(self) -> None:
        """Load the application in a thread, and then serve those who wait."""
        before = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_INTERVAL)
        gc.disable()
        try:
            loaded = await asyncio.get_running_loop().run_in_executor(None, self._imported)
        except Exception:
            self._log.exception("admin_failed")
            self._failed_until = monotonic_us() + LOAD_AGAIN
            self._loading = None
            self._abort_all()
            return
        finally:
            sys.setswitchinterval(before)
            gc.freeze()  # what is loaded stays: to search it for garbage would hold the loop for 40 ms
            gc.enable()
        self._api, self._config, self._state = loaded
        for connection in list(self.connections):
            if not connection.refused:
                self.serve(connection)

    def _imported(self) -> "Loaded":
        return self._load_application(self.links, self.dashboard)


def _read(tls: Tls) -> AdminTls:
    """Read the files of TLS. Raises OSError."""
    context = server_context(tls, HTTP)
    if tls.cafile is not None:
        # Resumption is refused. OpenSSL forgets a session that it has refused, but knows nothing of tickets:
        # a client that goes on with one would never get in.
        context.options |= ssl.OP_NO_TICKET
    return AdminTls(context, read_certificates(tls))


def _limit_unread(sock: socket.socket) -> None:
    """Have the system close connections whose peers take nothing for READ_TIMEOUT; they inherit it from this socket.

    The broker itself notices only when all buffers are full, which takes hours with a stream of a few KB a second.
    """
    option = getattr(socket, "TCP_USER_TIMEOUT", None)  # Linux
    if option is not None:
        sock.setsockopt(socket.IPPROTO_TCP, option, round(READ_TIMEOUT * 1000))


async def start_admin(managed: "Managed", dashboard: bool = False) -> AdminServer | None:
    """Serve the admin API as the configuration says; None if it is switched off. `dashboard`: in any case over TCP.

    Raises OSError if a configured path or address cannot be used. For a default path it logs a warning instead.
    """

    def load(links: Links, where: "Where") -> "Loaded":
        from broker.admin.api.load import load_api

        return load_api(managed, links, where)

    return await open_admin(managed, load, dashboard)


async def open_admin(configured: Configured, load: "Load", dashboard: bool) -> AdminServer | None:
    """The same for the application that `load` builds."""
    server = AdminServer(configured, load)
    try:
        is_open = await _open_unix(server, configured.config)
        if configured.config.admin.listen is not None or dashboard:
            await _open_tcp(server, configured.config.admin)
            is_open = True
    except OSError:
        server.stop()
        raise
    return server if is_open else None


async def _open_unix(server: AdminServer, config: Config) -> bool:
    """Returns whether there is a socket."""
    log = structlog.get_logger("sluice")
    try:
        where = place(config)
        if where is None:
            return False
        opened = open_socket(where)
    except OSError as error:
        if config.admin.socket != CHOSEN:
            raise OSError(f"admin.socket: cannot listen on {config.admin.socket}: {text_of(error)}") from error
        if isinstance(error, SocketInUseError):
            hint = "sluice ctl, top and dashboard reach that one; give this one an admin.socket of its own"
            log.warning("admin_socket_in_use", detail=f"{error}: {hint}")
        else:
            log.warning("admin_socket_unavailable", detail=text_of(error))
        return False
    await server.open_unix(opened)
    log.info("admin_socket", path=str(opened.path))
    return True


async def _open_tcp(server: AdminServer, config: Admin) -> None:
    try:
        await server.open_tcp(config)
    except OSError as error:
        raise OSError(f"admin.listen: cannot listen on {config.listen or ANY_LOOPBACK}: {text_of(error)}") from error
    for host, port in server.addresses:
        structlog.get_logger("sluice").info("admin_listening", host=host, port=port, tls=config.tls is not None)
