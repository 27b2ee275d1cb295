"""Sums up all sessions and groups, in slices: for the topics under $SYS, and for Prometheus."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.listener_sums import ListenerSums, add_some
from broker.telemetry.slices import STEP, Slices
from broker.totals import Sums
from config.cluster import CELL

if TYPE_CHECKING:
    from broker.clients import Client, Clients
    from broker.routing.shared_queues import SharedQueues
    from broker.totals import Totals


class TotalsSnapshot:
    """Sums over all sessions and shared groups."""

    def __init__(self) -> None:
        self.listeners: dict[str, ListenerSums] = {}
        """By name; empty = of sessions that no client of this process has had."""
        self.groups = 0
        self.groups_queued = 0
        self.groups_dropped = 0
        """Deliveries that overflowed the queue of a group."""
        self.took_us = 0
        """Time of the walk, in microseconds, without the turns of the loop."""

    def of(self, listener: str) -> ListenerSums:
        """The sums of a listener."""
        found = self.listeners.get(listener)
        if found is None:
            found = self.listeners[listener] = ListenerSums()
        return found

    @property
    def sums(self) -> Sums:
        """The sums of all listeners. Links between cells are none: they carry the same messages once more."""
        total = Sums()
        for name, each in self.listeners.items():
            if name != CELL:
                total.include(each.sums)
        return total

    @property
    def inflight(self) -> int:
        """Deliveries in windows."""
        return sum(each.inflight for each in self.listeners.values())

    @property
    def queued(self) -> int:
        """Deliveries in the mqueues of sessions and groups."""
        return sum(each.queued for each in self.listeners.values()) + self.groups_queued

    @property
    def subscriptions(self) -> int:
        """Subscriptions that are not shared."""
        return sum(each.subscriptions for each in self.listeners.values())

    @property
    def shared(self) -> int:
        """Shared subscriptions."""
        return sum(each.shared for each in self.listeners.values())


class TotalsWalk:
    """Makes snapshots, one at a time: `Totals` knows of one walk only."""

    def __init__(self, clients: "Clients", totals: "Totals", shared: "SharedQueues") -> None:
        self._clients = clients
        self._totals = totals
        self._shared = shared
        self._one_at_a_time = asyncio.Lock()
        self._dropped_by_groups = 0

    async def snapshot(
        self, distributions: bool = False, visit: "Callable[[Client], None] | None" = None
    ) -> TotalsSnapshot:
        """Sum up everything; `distributions`: those too, which takes longer. `visit` is called for each client.

        A session that ends meanwhile is in `taken`, or already in the sum.
        """
        async with self._one_at_a_time:
            snapshot = TotalsSnapshot()
            walk = self._totals.begin_walk()
            slices = Slices()
            clients, more = self._clients.each(), True
            while more:
                seen: list[Client] = []
                more = add_some(clients, walk, snapshot.listeners, distributions, STEP, seen)
                if visit is not None:
                    for client in seen:
                        visit(client)
                await slices.breathe()
            for listener, sums in self._totals.taken.items():
                snapshot.of(listener).sums.include(sums)
            await self._walk_groups(snapshot, slices)
            await slices.pause()
            snapshot.took_us = slices.us
            return snapshot

    async def _walk_groups(self, snapshot: TotalsSnapshot, slices: Slices) -> None:
        """Add the backlogs and drops of shared groups (FC-13)."""
        dropped = self._shared.dropped
        for number, queue in enumerate(list(self._shared.queues.values()), 1):
            dropped += queue.totals(0).overflowed
            snapshot.groups += 1
            if queue.mqueue is not None:
                snapshot.groups_queued += len(queue.mqueue)
            if number % STEP == 0:
                await slices.breathe()
        self._dropped_by_groups = max(self._dropped_by_groups, dropped)  # a group may end before it is counted
        snapshot.groups_dropped = self._dropped_by_groups
