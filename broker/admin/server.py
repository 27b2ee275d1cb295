"""Serves the admin socket: few connections, one request at a time on each, all with timeouts."""

import asyncio
from typing import TYPE_CHECKING, Any, Final

import structlog

from broker.admin.addresses import AddressListing
from broker.admin.groups import GroupListing
from broker.admin.listing import Listing
from broker.admin.requests import RequestError, answer, error, parse
from broker.admin.scan import TopList
from broker.admin.sessions import SessionListing
from broker.admin.socket import OpenSocket, SocketInUseError, is_trusted, open_socket, peer_uid, place
from config.admin import CHOSEN
from config.models import Config

if TYPE_CHECKING:
    from broker.clients import Clients
    from broker.routing.router import Router

MOST_CONNECTIONS: Final = 8
"""Further connections get an error."""

LONGEST_LINE: Final = 65_536
"""Bytes of a request."""

IDLE_TIMEOUT: Final = 60.0
"""Seconds for a request to arrive, and for its answer to drain."""

PAUSE: Final = 0.05
"""Seconds between two requests of one connection, so that many requests do not slow MQTT clients."""


class AdminServer:
    """Answers requests on the socket until it is stopped."""

    def __init__(self, clients: "Clients", router: "Router", node_name: str, opened: OpenSocket) -> None:
        self.path = opened.path
        self._node_name = node_name
        self._opened = opened
        self._listings: dict[str, Listing[Any]] = {
            "sessions": SessionListing(clients),
            "groups": GroupListing(router.shared),
            "addresses": AddressListing(router.addresses),
        }
        self._tops = {command: TopList(listing) for command, listing in self._listings.items()}
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._log = structlog.get_logger("sluice")

    async def start(self) -> None:
        """Start to serve."""
        self._server = await asyncio.start_unix_server(self._accept, sock=self._opened.sock, limit=LONGEST_LINE)

    def stop(self) -> None:
        """Stop serving, and remove the socket."""
        self._opened.remove()
        if self._server is not None:
            self._server.close()
        for top in self._tops.values():
            top.stop()
        for connection in self._connections:
            connection.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None  # asyncio creates a task for each connection
        self._connections.add(connection)
        try:
            refusal = self._refusal(writer)
            if refusal:
                writer.write(error(refusal))
            else:
                await self._serve(reader, writer)
        except (OSError, asyncio.CancelledError):
            writer.transport.abort()  # the peer has closed or is too slow (TimeoutError), or the broker stops
        finally:
            self._connections.discard(connection)
            writer.close()

    def _refusal(self, writer: asyncio.StreamWriter) -> str:
        """Why a connection is refused; empty if it is served."""
        uid = peer_uid(writer.get_extra_info("socket"))
        if not is_trusted(uid):
            self._log.warning("admin_refused", uid=uid)
            return f"user {uid} is not allowed to ask: only the broker's user and root are"
        if len(self._connections) > MOST_CONNECTIONS:
            return f"{MOST_CONNECTIONS} others are connected, which is the most: try again later"
        return ""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                async with asyncio.timeout(IDLE_TIMEOUT):
                    line = await reader.readline()
            except ValueError:  # StreamReader raises it for a line that is too long
                writer.write(error(f"a request has at most {LONGEST_LINE} bytes"))
                return
            if not line:
                return
            writer.write(await self._answer(line))
            async with asyncio.timeout(IDLE_TIMEOUT):
                await writer.drain()
            await asyncio.sleep(PAUSE)

    async def _answer(self, line: bytes) -> bytes:
        try:
            request = parse(line, self._listings)
            top = await self._tops[request.command].top(request.sort, request.limit)
            return answer(request, top, self._listings[request.command].columns, self._node_name)
        except RequestError as wrong:
            return error(str(wrong))
        except Exception as failure:
            context = {"message": "an admin request has failed", "exception": failure}
            asyncio.get_running_loop().call_exception_handler(context)
            return error("the request has failed in the broker; its log says why")


async def start_admin(clients: "Clients", router: "Router", config: Config) -> AdminServer | None:
    """Serve the admin socket that the configuration sets; None if it sets none.

    Raises OSError if a configured path cannot be used. For a default path it logs a warning and returns None.
    """
    log = structlog.get_logger("sluice")
    try:
        where = place(config)
        if where is None:
            return None
        server = AdminServer(clients, router, config.node_name, open_socket(where))
        await server.start()
    except OSError as error:
        if config.admin.socket != CHOSEN:
            raise OSError(f"admin.socket: cannot listen on {config.admin.socket}: {error}") from error
        in_use = isinstance(error, SocketInUseError)
        log.warning("admin_socket_in_use" if in_use else "admin_socket_unavailable", detail=str(error))
        return None
    log.info("admin_socket", path=str(server.path))
    return server
