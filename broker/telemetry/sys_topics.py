"""The topics under $SYS: the broker's totals, under Mosquitto's names if they have the same meaning.

They are retained, and published again only when they change. Values that the broker does not measure, such as the heap,
have no topic.
"""

import asyncio
from math import exp
from typing import TYPE_CHECKING, Final

from broker import __version__
from broker.listener_sums import ListenerSums
from broker.runtime.clock import SECOND, monotonic_us
from broker.telemetry.host_totals import CellTotals
from broker.telemetry.totals_walk import TotalsSnapshot, TotalsWalk
from config.cluster import CELL
from protocol.publish import Publish

if TYPE_CHECKING:
    from broker.addresses.policy import Addresses
    from broker.routing.messages import Messages
    from broker.sessions import Sessions
    from broker.settings import Settings
    from broker.telemetry.host_totals import HostTotals
    from broker.totals import Sums
    from config.mqtt import Mqtt

PREFIX: Final = "$SYS/broker/"
CELLS_PREFIX: Final = "$SYS/brokers/"
"""With the name of a cell: its own numbers. Those of the host have the names that they have with one process."""
QOS: Final = 2
"""The highest, so that the subscription alone decides the QoS; the same as Mosquitto's."""

_COUNTED: Final = {
    "messages/received": "messages/received",
    "messages/sent": "messages/sent",
    "publish/received": "publish/messages/received",
    "publish/sent": "publish/messages/sent",
    "publish/dropped": "publish/messages/dropped",
    "bytes/received": "bytes/received",
    "bytes/sent": "bytes/sent",
}
"""Topics by name of a total, for those totals that have a topic besides their load averages."""

_LOADS_ONLY: Final = ("sockets", "connections")
"""Totals that have load averages, and no topic."""

_QUEUED: Final = "messages/queued"
"""Part of `messages/stored`."""

MINUTES: Final = (1, 5, 15)


class SysTopics:
    """Publishes the topics in each `sys_interval`. `addresses`: None = without the topics of addresses (FC-24).

    `walk`: None = one of its own; there may be only one for a broker. `host`: None = this process is all of the broker.
    """

    def __init__(
        self,
        settings: "Settings",
        sessions: "Sessions",
        messages: "Messages",
        addresses: "Addresses | None",
        mqtt: "Mqtt",
        walk: TotalsWalk | None = None,
        host: "HostTotals | None" = None,
    ) -> None:
        self._settings = settings
        self._clients = sessions.clients
        self._totals = sessions.totals
        self._walk = TotalsWalk(sessions.clients, sessions.totals, messages.router.shared) if walk is None else walk
        self._messages = messages
        self._addresses = addresses
        self._interval = mqtt.sys_interval
        self._retain: bool = mqtt.retain_available
        self._host = host
        self._started = self._updated = monotonic_us()
        self._published: dict[str, str] = {}
        self._loads: dict[str, LoadAverages] = {}
        self._sent = 0

    async def run(self) -> None:
        """Publish until cancelled."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            try:
                await self.update()
            except Exception as error:
                # This update is lost; the next one runs as usual.
                loop.call_exception_handler({"message": "an update of $SYS has failed", "exception": error})
            due = max(due + self._interval, loop.time())
            await asyncio.sleep(due - loop.time())

    async def update(self) -> None:
        """Publish what has changed. The event loop runs after each topic, because each may have many subscribers."""
        snapshot = await self._walk.snapshot()
        found, now = self._found(snapshot), monotonic_us()
        if self._host is None:
            uptime = (now - self._started) // SECOND
            await self._publish_all(PREFIX, self._values(found, uptime, self._totals.most_online), found, now)
            return
        host = await self._host.exchange(found)
        if host is not None:
            values = self._values(host.sums, host.uptime, host.most_connected)
            await self._publish_all(PREFIX, values, host.sums, now)
            for name, own in host.cells.items():
                own_values = {topic: str(number) for topic, number in (own.gauges | own.counters).items()}
                await self._publish_changed(f"{CELLS_PREFIX}{name}/", own_values)

    async def _publish_all(self, prefix: str, values: dict[str, str], found: CellTotals, now: int) -> None:
        await self._publish_changed(prefix, values | self._load(found.counters, now))

    async def _publish_changed(self, prefix: str, values: dict[str, str]) -> None:
        for name, value in values.items():
            topic = prefix + name
            if self._published.get(topic) != value or not self._retain:
                self._published[topic] = value
                self._publish(topic, value)
                await asyncio.sleep(0)

    def _found(self, snapshot: TotalsSnapshot) -> CellTotals:
        """The numbers of this process."""
        links = ListenerSums()
        if self._host is not None:  # they carry the same messages once more
            links = snapshot.listeners.pop(CELL, links)
        totals, sums, clients = self._totals, snapshot.sums, self._clients
        known, connected = len(clients) - links.sessions, clients.connected - links.connected
        counters = {
            "clients/expired": totals.expired,
            "clients/refused": sum(sum(counts.values()) for counts in totals.clients_refused.values()),
            "slow_consumers/total": totals.slow_consumers,
            "stalled_windows/total": totals.stalled_windows,
            "awaiting_rel/parked": sums.awaiting_rel_refused,
            "publish/bytes/received": sums.received_bytes,
            "publish/bytes/sent": sums.sent_bytes,
        }
        if self._addresses is not None:
            counters |= _of_addresses(self._addresses)
        counters |= {f"quotas/{key}/reached": count for key, count in totals.quotas_reached.items()}
        counters |= self._counts(sums, snapshot.groups_dropped)
        gauges = {
            "clients/total": known,
            "clients/connected": connected,
            "messages/inflight": snapshot.inflight,
            _QUEUED: snapshot.queued,
            "subscriptions/count": snapshot.subscriptions,
            "shared_subscriptions/count": snapshot.shared,
        }
        if self._addresses is not None:
            gauges["addresses/full"] = self._addresses.full
        return CellTotals(counters, gauges)

    def _values(self, found: CellTotals, uptime: int, most_connected: int) -> dict[str, str]:
        """Topics without the beginning that all have, with their values."""
        counters, gauges = found
        retained = len(self._messages.retained)  # each cell has all
        known, connected = gauges["clients/total"], gauges["clients/connected"]
        stored = retained + gauges[_QUEUED] + gauges["messages/inflight"]
        numbers = {
            "clients/active": connected,
            "clients/disconnected": known - connected,
            "clients/inactive": known - connected,
            "clients/maximum": max(most_connected, connected),
            # A message that is queued for several sessions is counted for each; Mosquitto counts it once.
            "messages/stored": stored,
            "store/messages/count": stored,
            "retained messages/count": retained,
        }
        numbers |= {name: count for name, count in gauges.items() if name != _QUEUED}
        numbers |= {_COUNTED.get(name, name): count for name, count in counters.items() if name not in _LOADS_ONLY}
        values = {"version": f"sluice version {__version__}", "uptime": f"{uptime} seconds"}
        return values | {name: str(number) for name, number in numbers.items()}

    def _counts(self, sums: "Sums", dropped_by_groups: int) -> dict[str, int]:
        """The totals that have load averages, by their names there."""
        totals = self._totals
        # Each received packet except these is answered by one packet. The sums are slightly older than the totals, so
        # the number may be a few too high and then decrease; `max` prevents that.
        answers = totals.packets_received - totals.disconnects_received - sums.received_qos0 - sums.acknowledged
        self._sent = max(self._sent, sums.sent + sums.resent_pubrel + answers + totals.disconnects_sent)
        return {
            "messages/received": totals.packets_received,
            "messages/sent": self._sent,
            "publish/received": sums.received,
            "publish/sent": sums.sent,
            "publish/dropped": sums.dropped_queue_full + dropped_by_groups,
            "bytes/received": totals.bytes_received,
            "bytes/sent": totals.bytes_sent,
            "sockets": totals.sockets,
            "connections": totals.connects,
        }

    def _load(self, counts: dict[str, int], now: int) -> dict[str, str]:
        """The load averages of these totals; those of other names have none."""
        seconds = max(now - self._updated, 1) / SECOND
        self._updated = now
        values: dict[str, str] = {}
        for name in (*_COUNTED, *_LOADS_ONLY):
            averages = self._loads.setdefault(name, LoadAverages(0 if self._host is None else counts[name]))
            averages.update(counts[name], seconds)
            for minutes, average in zip(MINUTES, averages.values, strict=True):
                values[f"load/{name}/{minutes}min"] = f"{average:.2f}"
        return values

    def _publish(self, topic: str, value: str) -> None:
        name = topic.encode()
        if name.count(b"/") >= self._settings.max_topic_levels:
            return  # no client can subscribe to it
        publish = Publish(name, value.encode(), QOS, self._retain)
        publish.received_at = monotonic_us()
        router = self._messages.router
        if self._host is None:
            router.route(publish, None)
        else:
            router.route_late(publish, self._host.publisher)
        if self._retain:
            self._messages.retained.store(publish, "")


def _of_addresses(addresses: "Addresses") -> dict[str, int]:
    """The totals of PUBLISHes to full addresses (FC-25, FC-26)."""
    return {
        "addresses/parked": addresses.parked_total,
        "addresses/paged": addresses.paged_total,
        "addresses/refused": addresses.refused_total,
        "addresses/dropped": addresses.dropped_total,
    }


class LoadAverages:
    """Exponential moving averages of one total's growth, with MINUTES as time constants."""

    def __init__(self, total: int = 0) -> None:
        """`total`: what is no growth."""
        self.values = [0.0] * len(MINUTES)
        """Growth per minute, in the order of MINUTES."""
        self._total = total

    def update(self, total: int, seconds: float) -> None:
        """Add the current value of the total, `seconds` (above zero) after the last update."""
        rate = (total - self._total) * 60 / seconds
        self._total = total
        for number, minutes in enumerate(MINUTES):
            weight = 1 - exp(-seconds / (60 * minutes))
            self.values[number] += (rate - self.values[number]) * weight
