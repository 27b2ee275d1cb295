"""What a process is as one of several cells: links to the others, and homes of clients."""

from broker.broker import Broker
from broker.cluster.cell import Cell
from broker.cluster.cell_links import CellLinks
from broker.cluster.home_cells import HomeCells


class Cells:
    """This cell among the others."""

    def __init__(self, broker: Broker, cell: Cell, now: int) -> None:
        """Create it once the journal has been read."""
        broker.via.broker_id = cell.broker_id
        self.links = CellLinks(broker, cell, now)
        self._homes = HomeCells(broker, cell)
        router, filters = broker.router, self.links.filters
        held = [
            (client.session.outbound, subscription)
            for client in broker.clients.known()  # of the journal
            for subscription in (client.session.subscriptions or {}).values()
        ]
        for outbound, subscription in held:
            if not filters.subscribes(outbound, subscription, True):
                router.unsubscribe(outbound, subscription.topic_filter)  # here it has no queue
        for name in router.shared.queues:
            filters.group_began(name)
        router.shared.on_new = filters.group_began
        router.cells = filters
        broker.handshake.homes = self._homes

    async def start(self) -> None:
        """Join the others. Raises OSError."""
        await self.links.start()
        await self._homes.open()

    def leave(self) -> None:
        """Serve no clients any more."""
        self._homes.close()

    async def drain(self) -> None:
        """Wait until each cell has what is for it, for a while; then leave them."""
        await self.links.drain()
