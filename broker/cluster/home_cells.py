"""Passes connections on to the homes of their clients, and takes over those of clients whose home is here."""

import asyncio
import os
import socket
from typing import Any, Final, cast

from broker.broker import Broker
from broker.cluster.cell import Cell
from broker.cluster.passing import Arrivals, Departures, Passed, descriptor_of
from broker.cluster.slots import home_of, new_client_id
from broker.connection.client_socket import ClientSocket
from broker.connection.homes import Homes
from broker.connection.peer import Peer
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
        self._tasks: set[asyncio.Task[Any]] = set()

    def open(self) -> None:
        """Take over what other cells pass on. Raises OSError."""
        self._arrivals.open(self._cell.sockets_at(self._cell.number))

    def close(self) -> None:
        """Pass nothing on any more, and take over nothing."""
        self._arrivals.close()
        for departures in self._departures.values():
            departures.close()

    def is_here(self, client_id: str) -> bool:
        """Whether this cell serves it."""
        return self._cell.is_home(client_id)

    def new_client_id(self) -> str:
        """One whose home is here."""
        return new_client_id(self._cell.number, self._cell.cells)

    def pass_on(self, connection: Peer, connect: Connect, now: int) -> None:
        """Hand the socket over with what has been read."""
        home = home_of(connect.client_id, self._cell.cells)
        error = MQTTError(reason_codes.SERVER_UNAVAILABLE, _BUSY)
        refusal = connack(error, connect.version, connection.maximum_packet_size)
        data = connect.encode(connect.version) + connection.decoder.held()
        passed = Passed(connection.listener, connection.socket.origin, data)
        try:
            fd = descriptor_of(connection.socket.transport)
        except OSError:  # there are no more
            raise error from None
        if not self._departures[home].send(passed, fd, refusal):
            os.close(fd)
            raise error
        connection.end_logged = True
        connection.abort()

    def _take_over(self, sock: socket.socket, passed: Passed) -> None:
        sock.setblocking(False)
        client = ClientSocket(self._broker.handlers, passed.listener, passed.origin)
        loop = asyncio.get_running_loop()
        task = loop.create_task(_begin(loop, sock, _Beginning(client, passed.data)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


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
        self._client.data_received(self._data)

    def connection_lost(self, error: Exception | None) -> None:
        """It has been lost before it was there."""
