"""Passes connections on to the homes of their clients, and takes over connections from other cells."""

import asyncio
import os
import socket
from collections.abc import Callable, Coroutine
from typing import Any, Final, cast

from broker.broker import Broker
from broker.cluster.cell import Cell
from broker.cluster.passing import PATIENCE, Arrivals, Departures, Passed, descriptor_of
from broker.cluster.relay import Relay, Relayed
from broker.cluster.slots import home_of, new_client_id
from broker.connection.client_socket import ClientSocket
from broker.connection.homes import Homes
from broker.connection.log import address_of
from broker.connection.peer import Peer
from broker.runtime.origin import Origin
from protocol import reason_codes
from protocol.connect import Connect
from protocol.errors import MQTTError
from protocol.replies import connack

_BUSY: Final = "the cell that serves this client takes no connections now"


class HomeCells(Homes):
    """The homes of all client ids, as one cell sees them."""

    def __init__(self, broker: Broker, cell: Cell) -> None:
        self._broker = broker
        self._cell = cell
        self._departures = {number: Departures(cell.sockets_at(number)) for number in cell.others}
        self._arrivals = Arrivals(self._take_over)
        self._relays: set[Relay] = set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Take over what other cells pass on, and accept what they relay. Raises OSError."""
        self._arrivals.open(self._cell.sockets_at(self._cell.number))
        path = self._cell.relays_at(self._cell.number)
        path.unlink(missing_ok=True)
        self._server = await asyncio.get_running_loop().create_unix_server(self._accept, str(path))

    def close(self) -> None:
        """Pass nothing on any more, and take over nothing."""
        self._arrivals.close()
        if self._server is not None:
            self._server.close()
        for relay in list(self._relays):
            relay.abort()
        for departures in self._departures.values():
            departures.close()

    def is_here(self, client_id: str) -> bool:
        """Whether this cell serves it."""
        return self._cell.is_home(client_id)

    def new_client_id(self) -> str:
        """A client id whose home is this cell."""
        return new_client_id(self._cell.number, self._cell.cells)

    def pass_on(self, connection: Peer, connect: Connect, now: int) -> None:
        """Hand the socket over with what has been read."""
        home = home_of(connect.client_id, self._cell.cells)
        error = MQTTError(reason_codes.SERVER_UNAVAILABLE, _BUSY)
        refusal = connack(error, connect.version, connection.maximum_packet_size)
        data = connect.encode(connect.version) + connection.decoder.held()
        totals = self._broker.totals  # its home counts them
        totals.packets_received -= 1
        totals.bytes_received -= len(data)
        transport, origin = connection.socket.transport, connection.socket.origin
        assert transport is not None  # CONNECT has come by it
        if transport.get_extra_info("socket") is None:  # there are frames, of TLS or WebSocket
            passed = Passed(connection.listener, _origin(connection), data)
            connection.end_logged = True
            connection.socket.leave(now)
            self._relay(home, transport, passed, refusal)
            return
        try:
            fd = descriptor_of(transport)
        except OSError:  # there are no more
            raise error from None
        if not self._departures[home].send(Passed(connection.listener, origin, data), fd, refusal):
            os.close(fd)
            raise error
        connection.end_logged = True
        connection.abort()

    def _relay(self, home: int, transport: asyncio.Transport, passed: Passed, refusal: bytes) -> None:
        relay = Relay(transport, passed, refusal, lambda: self._relays.discard(relay))
        self._relays.add(relay)
        self._run(relay.run(self._cell.relays_at(home), PATIENCE))

    def _run(self, job: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(job)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _take_over(self, sock: socket.socket, passed: Passed) -> None:
        sock.setblocking(False)
        self._run(_begin(asyncio.get_running_loop(), sock, _Beginning(self._new_client(passed), passed.data)))

    def _new_relayed(self, passed: Passed) -> ClientSocket:
        self._broker.totals.sockets -= 1  # the other cell has counted it
        return self._new_client(passed)

    def _new_client(self, passed: Passed) -> ClientSocket:
        return ClientSocket(self._broker.handlers, passed.listener, passed.origin)

    def _accept(self) -> asyncio.Protocol:
        following = cast("Callable[[Passed], asyncio.Protocol]", self._new_relayed)
        return cast("asyncio.Protocol", Relayed(following))


def _origin(connection: Peer) -> Origin:
    """The client's address and certificate, for its home: the transport stays here."""
    socket = connection.socket
    own = socket.origin or Origin(socket.host(), address_of(connection))
    return own._replace(certificate=socket.certificate() or None)


async def _begin(loop: asyncio.AbstractEventLoop, sock: socket.socket, beginning: "_Beginning") -> None:
    try:
        await loop.connect_accepted_socket(lambda: cast("asyncio.Protocol", beginning), sock)
    except OSError:  # its client has gone
        sock.close()


class _Beginning:
    """The protocol of a socket that is taken over, until its transport is there."""

    def __init__(self, client: ClientSocket, data: bytes) -> None:
        self._client = client
        self._data = data

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Go on with what the client has sent."""
        transport.set_protocol(cast("asyncio.Protocol", self._client))
        self._client.connection_made(transport)
        self._client.connection.handlers.totals.sockets -= 1  # the other cell has counted it
        self._client.data_received(self._data)

    def connection_lost(self, error: Exception | None) -> None:
        """It has been lost before it was there."""
