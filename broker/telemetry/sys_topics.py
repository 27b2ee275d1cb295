"""The topics under $SYS: what the broker has counted, under Mosquitto's names where they mean the same.

They are retained, and published again only when they have changed. What is not measured has no topic, such as the heap.
"""

import asyncio
from math import exp
from typing import TYPE_CHECKING, Final

from broker import __version__
from broker.runtime.clock import SECOND, monotonic_us
from broker.totals import Sums
from protocol.publish import Publish
from protocol.topics import SHARE_PREFIX
from session.session import Session

if TYPE_CHECKING:
    from broker.broker import Broker

PREFIX: Final = "$SYS/broker/"
QOS: Final = 2
"""Whoever subscribes says how sure it wants to be of what it gets; Mosquitto has it so too."""
SLICE: Final = 100
"""Sessions and subscriptions that are looked at before the loop gets its turn: well under a millisecond."""

_COUNTED: Final = {
    "messages/received": "messages/received",
    "messages/sent": "messages/sent",
    "publish/received": "publish/messages/received",
    "publish/sent": "publish/messages/sent",
    "publish/dropped": "publish/messages/dropped",
    "bytes/received": "bytes/received",
    "bytes/sent": "bytes/sent",
}
"""The counts that have a topic besides their load averages, and what that is called."""


MINUTES: Final = (1, 5, 15)


class Snapshot:
    """What all sessions have counted, and they and shared groups hold, summed up."""

    def __init__(self) -> None:
        self.sums = Sums()
        self.inflight = 0
        self.queued = 0
        self.subscriptions = 0
        self.shared = 0

    def add(self, session: Session) -> int:
        """Add one session; returns what that has cost, in sessions."""
        outbound = session.outbound
        self.sums.add(outbound.counters)
        self.inflight += len(outbound.window.entries)
        if outbound.mqueue is not None:
            self.queued += len(outbound.mqueue)
        filters = session.subscriptions
        if not filters:
            return 1
        shared = sum([topic_filter.startswith(SHARE_PREFIX) for topic_filter in filters])
        self.shared += shared
        self.subscriptions += len(filters) - shared
        return 1 + len(filters)


class SysTopics:
    """Publishes the topics, each `interval` seconds; those of addresses if there are any (FC-24)."""

    def __init__(self, broker: "Broker", interval: float, retain: bool, addresses: bool = False) -> None:
        self._broker = broker
        self._interval = interval
        self._retain = retain
        self._addresses = addresses
        self._started = self._updated = monotonic_us()
        self._published: dict[str, str] = {}
        self._loads: dict[str, LoadAverages] = {}
        self._sent = 0
        self._dropped_by_groups = 0

    async def run(self) -> None:
        """Publish until cancelled."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            try:
                await self.update()
            except Exception as error:
                # One update is lost; the next one is not.
                loop.call_exception_handler({"message": "an update of $SYS has failed", "exception": error})
            due = max(due + self._interval, loop.time())
            await asyncio.sleep(due - loop.time())

    async def update(self) -> None:
        """Publish what has changed, topic by topic: each may have many subscribers."""
        snapshot = await self._walk()
        now = monotonic_us()
        for topic, value in self._values(snapshot, now).items():
            if self._published.get(topic) != value or not self._retain:
                self._published[topic] = value
                self._publish(topic, value)
                await asyncio.sleep(0)

    async def _walk(self) -> Snapshot:
        """Sum up all sessions, in slices; those that end meanwhile are in `taken`, or have been looked at before."""
        totals = self._broker.totals
        clients = self._broker.clients
        snapshot = Snapshot()
        walk = totals.begin_walk()
        left = SLICE
        for client in list(clients.values()):
            if clients.get(client.session.client_id) is client:
                client.walk = walk
                left -= snapshot.add(client.session)
            if left <= 0:
                left = SLICE
                await asyncio.sleep(0)
        snapshot.sums.include(totals.taken)
        await self._walk_groups(snapshot)
        return snapshot

    async def _walk_groups(self, snapshot: Snapshot) -> None:
        """What waits with shared groups, and what they have dropped (FC-13), in slices too."""
        shared = self._broker.router.shared
        dropped = shared.dropped
        for number, queue in enumerate(list(shared.queues.values()), 1):
            dropped += queue.counters.dropped_queue_full
            if queue.mqueue is not None:
                snapshot.queued += len(queue.mqueue)
            if number % SLICE == 0:
                await asyncio.sleep(0)
        self._dropped_by_groups = max(self._dropped_by_groups, dropped)  # a group may end just before its turn
        snapshot.sums.dropped += self._dropped_by_groups

    def _values(self, snapshot: Snapshot, now: int) -> dict[str, str]:
        """Every topic, without PREFIX, and what it says now."""
        broker = self._broker
        totals = self._broker.totals
        counts = self._counts(snapshot)
        stored = len(broker.retained) + snapshot.queued + snapshot.inflight
        values = {
            "version": f"sluice version {__version__}",
            "uptime": f"{(now - self._started) // SECOND} seconds",
            "clients/total": str(len(broker.clients)),
            "clients/connected": str(broker.online),
            "clients/active": str(broker.online),
            "clients/disconnected": str(len(broker.clients) - broker.online),
            "clients/inactive": str(len(broker.clients) - broker.online),
            "clients/maximum": str(totals.most_online),
            "clients/expired": str(totals.expired),
            "messages/inflight": str(snapshot.inflight),
            # A message that waits for several sessions is counted for each; Mosquitto counts it once.
            "messages/stored": str(stored),
            "store/messages/count": str(stored),
            "retained messages/count": str(len(broker.retained)),
            "subscriptions/count": str(snapshot.subscriptions),
            "shared_subscriptions/count": str(snapshot.shared),
            "slow_consumers/total": str(totals.slow_consumers),
            "stalled_windows/total": str(totals.stalled_windows),
            "awaiting_rel/parked": str(snapshot.sums.past_awaiting_rel),
            "publish/bytes/received": str(snapshot.sums.received_bytes),
            "publish/bytes/sent": str(snapshot.sums.sent_bytes),
        }
        if self._addresses:
            values |= self._of_addresses()
        values |= {_COUNTED[name]: str(count) for name, count in counts.items() if name in _COUNTED}
        return values | self._load(counts, now)

    def _of_addresses(self) -> dict[str, str]:
        """How many addresses are full now, and what has become of PUBLISHes to full ones (FC-25, FC-26)."""
        addresses = self._broker.addresses
        return {
            "addresses/full": str(addresses.full),
            "addresses/parked": str(addresses.parked_total),
            "addresses/paged": str(addresses.paged_total),
            "addresses/refused": str(addresses.refused_total),
            "addresses/dropped": str(addresses.dropped_total),
        }

    def _counts(self, snapshot: Snapshot) -> dict[str, int]:
        """The totals that there are load averages of, by their names there."""
        totals = self._broker.totals
        sums = snapshot.sums
        # Every packet that comes is answered by one, but for these. The sums are a little older than the totals, so at
        # times it is a few too many, and later fewer.
        answers = totals.packets_received - totals.disconnects_received - sums.received_qos0 - sums.acknowledged
        self._sent = max(self._sent, sums.sent + sums.pubrels_resent + answers + totals.disconnects_sent)
        return {
            "messages/received": totals.packets_received,
            "messages/sent": self._sent,
            "publish/received": sums.received,
            "publish/sent": sums.sent,
            "publish/dropped": sums.dropped,
            "bytes/received": totals.bytes_received,
            "bytes/sent": totals.bytes_sent,
            "sockets": totals.sockets,
            "connections": totals.connects,
        }

    def _load(self, counts: dict[str, int], now: int) -> dict[str, str]:
        seconds = max(now - self._updated, 1) / SECOND
        self._updated = now
        values: dict[str, str] = {}
        for name, count in counts.items():
            averages = self._loads.setdefault(name, LoadAverages())
            averages.update(count, seconds)
            for minutes, average in zip(MINUTES, averages.values, strict=True):
                values[f"load/{name}/{minutes}min"] = f"{average:.2f}"
        return values

    def _publish(self, topic: str, value: str) -> None:
        name = (PREFIX + topic).encode()
        broker = self._broker
        if name.count(b"/") >= broker.max_topic_levels:
            return  # nobody can subscribe to it
        publish = Publish(name, value.encode(), QOS, self._retain)
        publish.received_at = monotonic_us()
        broker.router.route(publish, None)
        if self._retain:
            broker.retained.store(publish, "")


class LoadAverages:
    """The averages of one total. What is longer ago counts less: e times less for each of the average's minutes."""

    def __init__(self) -> None:
        self.values = [0.0] * len(MINUTES)
        """Growth in a minute, in the order of MINUTES."""
        self._total = 0

    def update(self, total: int, seconds: float) -> None:
        """The total has come to `total` within `seconds`, which are more than none, since the last update."""
        rate = (total - self._total) * 60 / seconds
        self._total = total
        for number, minutes in enumerate(MINUTES):
            weight = 1 - exp(-seconds / (60 * minutes))
            self.values[number] += (rate - self.values[number]) * weight
