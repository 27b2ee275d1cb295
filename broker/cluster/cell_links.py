"""All links of one cell: of two cells the one with the higher number opens the connection."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from broker.broker import Broker
from broker.cluster.cell import Cell, client_id_of
from broker.cluster.cell_link import CellLink
from broker.cluster.crossings import Crossings, LinkCrossings
from broker.cluster.from_cells import FromCells
from broker.cluster.link_pressure import LinkPressure
from broker.cluster.link_side import LinkSide
from broker.cluster.own_filters import OwnFilters
from broker.cluster.retained_order import RetainedOrder
from broker.connection.client_socket import ClientSocket
from broker.routing.group_members import end_unused_groups
from broker.totals import Totals
from config.cluster import CELL

RETRY: Final = 0.05
"""Seconds between two attempts to reach a cell."""
DRAIN_TIMEOUT: Final = 2.0
"""Seconds for which a cell that stops waits for the others."""
DRAIN_LOOK: Final = 0.01
"""Seconds between two looks whether they have all."""
PATIENCE: Final = 5.0
"""Seconds for which a cell that starts waits for the others: its clients shall get what is published there (CL-1)."""


class CellLinks:
    """The links to all other cells."""

    def __init__(self, broker: Broker, cell: Cell, now: int) -> None:
        self._broker = broker
        self._cell = cell
        order = RetainedOrder(cell.number)
        self.filters = OwnFilters(cell, broker, order)
        self.by_number: dict[int, CellLink] = {}
        self._side = LinkSide(broker, client_id_of(cell.number), self.by_number.get)
        incoming = FromCells(broker.publishing, broker.messages, broker.events, order, self._side.controls)
        self._handlers = broker.new_handlers(self._side, incoming, Totals())  # what crosses counts once
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._all_ready = asyncio.Event()
        self._stopped = False
        loop = asyncio.get_running_loop()
        for number in cell.others:
            link = CellLink(broker, number, self._side, self.filters, order, loop.call_soon, now)
            self.by_number[number] = link
            link.on_ready = self._look
            if number > cell.number:
                link.on_lost = partial(self._look_for, link)
            self.filters.links.append(link)
        if not broker.sessions.durable:
            self._have_acknowledged(broker)
        LinkPressure(broker, self.filters.links)

    def _have_acknowledged(self, broker: Broker) -> None:
        """CL-3: PUBACK waits for the cells that get a message."""
        crossings = Crossings(broker.wheel, asyncio.get_running_loop().call_soon)
        self.filters.crossings = broker.barrier = broker.handlers.barrier = crossings
        broker.messages.crossing = self.filters
        for link in self.filters.links:
            link.client.session.outbound.journal = LinkCrossings(crossings)

    async def start(self) -> None:
        """Accept links, and open those to the cells with lower numbers; wait for all, for a while. Raises OSError."""
        path = self._cell.links_at(self._cell.number)
        path.unlink(missing_ok=True)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(self._accept, str(path))
        for link in self.by_number.values():
            if link.number < self._cell.number:
                self._dial(link)
        with suppress(TimeoutError):  # some are not up: they are not waited for (CL-1)
            await asyncio.wait_for(self._all_ready.wait(), PATIENCE)

    def _look(self) -> None:
        if all(link.ready for link in self.by_number.values()):
            self._all_ready.set()
            end_unused_groups(self._broker.router)

    async def drain(self) -> None:
        """Wait until nothing is on its way between cells that stop, up to DRAIN_TIMEOUT; then close the links.

        Else what is not acknowledged would be sent again after the next start.
        """
        self._stopped = True
        loop, links = asyncio.get_running_loop(), self.by_number.values()
        until = loop.time() + DRAIN_TIMEOUT
        while loop.time() < until:
            for link in links:
                link.tell_drained()
            if all(link.drained for link in links):
                break
            await asyncio.sleep(DRAIN_LOOK)
        if self._server is not None:
            self._server.close()
        for link in links:
            if link.connection is not None:
                link.connection.close(reason="the server is stopping")

    def _accept(self) -> asyncio.Protocol:
        return cast("asyncio.Protocol", ClientSocket(self._handlers, CELL))

    def _dial(self, link: CellLink) -> None:
        if self._stopped:
            return
        socket = ClientSocket(self._handlers, CELL)
        self._side.dials(socket.connection, link, partial(self._dial_again, link))
        self._run(_open(socket, self._cell.links_at(link.number), link))

    def _dial_again(self, link: CellLink) -> None:
        asyncio.get_running_loop().call_later(RETRY, self._dial, link)

    def _look_for(self, link: CellLink) -> None:
        """CL-1: a cell that opens its links itself has lost one: soon look whether it lives."""
        looking = partial(_look_for, self._cell.links_at(link.number), link)
        asyncio.get_running_loop().call_later(RETRY, lambda: self._run(looking()))

    def _run(self, job: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(job)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _open(socket: ClientSocket, path: Path, link: CellLink) -> None:
    """Connect to a cell; if it is not up, the link is closed."""
    try:
        await asyncio.get_running_loop().create_unix_connection(lambda: cast("asyncio.Protocol", socket), str(path))
    except OSError as error:
        link.gone()
        socket.connection_lost(error)


async def _look_for(path: Path, link: CellLink) -> None:
    try:
        transport, _ = await asyncio.get_running_loop().create_unix_connection(asyncio.Protocol, str(path))
    except OSError:
        link.gone()
    else:
        transport.close()
