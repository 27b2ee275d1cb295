"""One simulated cell: what runs in its process, and what a crash leaves of it."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from broker.broker import Broker
from broker.cluster.cell import Cell
from broker.cluster.cell_link import CellLink
from broker.cluster.cells import Cells
from broker.connection.client_socket import ClientSocket
from broker.recovery import restore
from broker.runtime.timers import TICK
from config.models import Config
from tests.simulation.disk import Platter, SimulatedStorage
from tests.simulation.loop import Clock, Loop
from tests.simulation.network import Network

DIRECTORY: Final = Path("/nonexistent/simulation")
"""Names for the network: nothing is on disk."""


def port_of(number: int) -> str:
    """Where a cell accepts its clients."""
    return f"port of {number}"


class SimulatedCell:
    """A cell, process after process."""

    def __init__(self, number: int, cells: int, config: Config, clock: Clock, network: Network) -> None:
        self.number = number
        self.place = Cell(number, cells, DIRECTORY)
        self.crashes = 0
        self.serves = False
        """Whether clients may connect."""
        self.up = False
        self.loop: Loop
        self.broker: Broker
        self.storage: SimulatedStorage | None = None
        """None while no process has opened it."""
        self.cells: Cells
        self._config = config
        self._clock = clock
        self._network = network
        self._platter = Platter()

    def start(self) -> None:
        """Start a process on the journal."""
        self.up = True
        self.loop = Loop(self._clock, self._network)
        self.loop.call_soon(self._begin)

    def _begin(self) -> None:
        storage = self.storage = SimulatedStorage(self._platter, self.loop)
        self.broker = Broker(self._config, self._clock.us, journal=storage.journal)
        restore(self.broker, storage.journal, storage.read())
        self._tick()
        self.loop.create_task(self._join())

    async def _join(self) -> None:
        self.cells = Cells(self.broker, self.place, self._clock.us)
        await self.cells.links.start()
        self._network.listen(port_of(self.number), self.loop, lambda: ClientSocket(self.broker.handlers, "local"))
        self.serves = True

    def _tick(self) -> None:
        self.loop.call_later(TICK / 1_000_000, self._tick)
        self.broker.wheel.advance(self._clock.us)

    def crash(self) -> None:
        """The process is killed: the platter is left."""
        self.loop.kill()
        self.up = self.serves = False
        self.storage = None
        self.crashes += 1

    def link_to(self, number: int) -> CellLink | None:
        """The link to another cell."""
        return self.cells.links.by_number[number] if self.serves else None

    # -- what has to be at rest

    def is_busy(self) -> bool:
        """Whether it has something to do at once."""
        return self.up and (len(self.loop.ready) > 0 or self.disk_is_busy())

    def disk_is_busy(self) -> bool:
        """Whether its disk has something to do."""
        return self.storage is not None and self.storage.disk.is_busy()

    def disk_step(self) -> str:
        """Its disk goes on."""
        return "" if self.storage is None else self.storage.disk.step()

    def retained(self) -> dict[str, str]:
        """All retained messages: topic and payload."""
        return {each.topic.decode(): bytes(each.payload).decode() for each in self.broker.retained.each()}

    def filters(self) -> Counter[str]:
        """Subscriptions of its clients, by filter."""
        found: Counter[str] = Counter()
        for client in self.broker.clients.known():
            if not client.session.sender.limits.of_cell:
                found.update([each for each in client.session.subscriptions or () if not each.startswith("$")])
        return found

    def _knows(self, link: CellLink, topic_filter: str) -> bool:
        """Whether this cell sends what has a filter as its topic over a link."""
        outbound = link.client.session.outbound
        own = topic_filter in (link.client.session.subscriptions or ())
        return own or outbound in self.cells.links.filters.links_of(topic_filter.encode())

    def left_over(self, others: "list[SimulatedCell]", unwanted: Iterable[str] = ()) -> list[str]:
        """What should not be there when all is delivered."""
        links = self.cells.links
        own = links.filters
        found = [f"{context}" for context in self.loop.failures]
        if own._unknown or own._waiting:
            found.append(f"unknown {own._unknown}, waiting {own._waiting}")
        if self.storage is None or self.storage.journal.commits.waits():
            found.append("something is not committed")
        for other in others:
            link = links.by_number[other.number]
            if not link.ready or link.unanswered:
                found.append(f"link to {other.number}: ready {link.ready}, unanswered {link.unanswered}")
            wanted = other.filters()
            found += [f"does not know that {other.number} has {each}" for each in wanted if not self._knows(link, each)]
            more = set(link.client.session.subscriptions or ()) - set(wanted)
            more |= {each for each in unwanted if each not in wanted and self._knows(link, each)}
            if more:
                found.append(f"believes that {other.number} has {more}")
            if link.controls._held._held:
                found.append(f"publishers held for {other.number}")
        return found + [each for client in self.broker.clients.known() for each in _left_over(client)]


def _left_over(client: "object") -> list[str]:
    from broker.clients import Client

    assert isinstance(client, Client)
    session, connection = client.session, client.connection
    found = []
    if connection is not None:
        queue = session.outbound.mqueue
        if session.sender.window.entries or session.outbound.mailbox.deliveries:
            found.append(f"{session.client_id}: window {list(session.sender.window.entries)}, mailbox")
        if queue is not None and queue.bytes:
            found.append(f"{session.client_id}: {queue.bytes} bytes wait")
        if connection.paced:
            found.append(f"{session.client_id} is still held back")
        if session.inbound.has_waiting():
            found.append(f"{session.client_id}: PUBLISHes wait for an id")
    return found
