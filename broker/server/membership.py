"""This process as one of several cells: what the keeper has told it, and its signs of life."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from broker.auth.authenticators.guard import Guard
from broker.broker import Broker
from broker.cluster.cell import configuration_of
from broker.cluster.cells import Cells
from broker.runtime.clock import SECOND, monotonic_us
from broker.server.alone import Alone
from broker.server.asked_guard import AskedGuard
from broker.server.asked_limits import AskedLimits
from broker.server.asked_totals import AskedTotals
from broker.server.channel import LIVES, SERVES, receive_orders
from broker.server.handover import Opened
from broker.server.questions import Questions
from config.admin import Admin
from config.load import Loaded
from config.models import Config

LONGEST_ANSWER: Final = 16 * 1024 * 1024
"""Bytes: the numbers of all cells."""
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
        self._questions = Questions()
        self._limits: AskedLimits | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._listening: asyncio.Task[None] | None = None
        self._due = 0
        self._host = ""
        """The name of the host."""

    def own(self, loaded: Loaded) -> Loaded:
        """The configuration of this cell, now and when it is loaded again."""
        again = loaded.again
        self._host = loaded.config.node_name
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
        self._questions.look(now)
        if self._limits is not None:
            self._limits.look()

    def guard(self, config: Config) -> Guard:
        """The keeper counts failed logins."""
        return AskedGuard(config.authentication.failed_logins, self._questions)

    async def join(self, broker: Broker, stop: Callable[[], None]) -> None:
        """Open the links to the other cells; `stop` is called if the keeper ends. Raises OSError."""
        reader, writer = await asyncio.open_unix_connection(sock=self._channel, limit=LONGEST_ANSWER)
        self._writer = writer
        self._questions.begin(writer.write)
        self._listening = asyncio.get_running_loop().create_task(self._listen(reader, stop))
        self._cells = Cells(broker, self.cell, monotonic_us())
        self._limits = broker.handshake.host_limits = AskedLimits(broker, self._questions)
        self.totals = AskedTotals(broker, self._questions, self._host)
        await self._cells.start()

    async def _listen(self, reader: asyncio.StreamReader, stop: Callable[[], None]) -> None:
        """Hear the answers of the keeper; stop when it ends."""
        with suppress(OSError):
            while line := await reader.readline():
                self._questions.answered(line)
        stop()

    def serves(self) -> None:
        """Clients may connect."""
        self._say(SERVES)

    def _say(self, what: bytes) -> None:
        if self._writer is not None:
            self._writer.write(what + b"\n")

    def leave(self) -> None:
        """The process stops: pass nothing on any more. It still gives signs of life."""
        if self._cells is not None:
            self._cells.leave()

    async def drain(self) -> None:
        """Wait until all cells have what is for them, for a while; then close the links."""
        if self._cells is not None:
            await self._cells.drain()
