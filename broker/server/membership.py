"""This process as one of several cells: what the keeper has told it, and its signs of life."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from broker.broker import Broker
from broker.cluster.cell import configuration_of
from broker.cluster.cells import Cells
from broker.runtime.clock import SECOND, monotonic_us
from broker.server.alone import Alone
from broker.server.channel import LIVES, SERVES, receive_orders
from broker.server.handover import Opened
from config.admin import Admin
from config.load import Loaded
from config.models import Config

BEAT: Final = SECOND
"""Microseconds between two signs of life."""


class Membership(Alone):
    """One cell, from its start on."""

    shares_listeners = True

    def __init__(self, channel: int) -> None:
        """`channel`: the descriptor of the socket to the keeper. Raises OSError if the keeper has ended."""
        super().__init__()
        self._channel = socket.socket(fileno=channel)
        self._channel.set_inheritable(False)
        orders = receive_orders(self._channel)
        self.cell = orders.cell
        self._listeners = orders.listeners
        self._cells: Cells | None = None
        self._due = 0

    def own(self, loaded: Loaded) -> Loaded:
        """The configuration of this cell, now and when it is loaded again."""
        again = loaded.again
        config = configuration_of(loaded.config, self.cell.number, self.cell.cells)
        admin = Admin(socket=str(self.cell.admin_at(self.cell.number)))  # the keeper has what is configured
        return replace(
            loaded,
            config=config.model_copy(update={"admin": admin}),
            again=None if again is None else lambda: self.own(again()),
        )

    def open_ahead(self, config: Config) -> Opened:
        """The listeners that the keeper has opened."""
        return self._listeners

    def look(self, now: int) -> None:
        """Give a sign of life each second."""
        if now >= self._due:
            self._due = now + BEAT
            self._say(LIVES)

    async def join(self, broker: Broker, stop: Callable[[], None]) -> None:
        """Open the links to the other cells; `stop` is called if the keeper ends. Raises OSError."""
        self._channel.setblocking(False)
        asyncio.get_running_loop().add_reader(self._channel.fileno(), self._keeper_ended, stop)
        self._cells = Cells(broker, self.cell, monotonic_us())
        await self._cells.start()

    def _keeper_ended(self, stop: Callable[[], None]) -> None:
        asyncio.get_running_loop().remove_reader(self._channel.fileno())
        stop()

    def serves(self) -> None:
        """Clients may connect."""
        self._say(SERVES)

    def _say(self, what: bytes) -> None:
        with suppress(OSError):  # it has ended, or does not listen
            self._channel.send(what)

    def leave(self) -> None:
        """The process stops: pass nothing on any more. It still gives signs of life."""
        if self._cells is not None:
            self._cells.leave()

    async def drain(self) -> None:
        """Wait until all cells have what is for them, for a while; then close the links."""
        if self._cells is not None:
            await self._cells.drain()
