"""The topics under $SYS: the broker's totals, under Mosquitto's names if they have the same meaning.

They are retained, and published again only when they change. Values that the broker does not measure, such as the heap,
have no topic.
"""

import asyncio
from math import exp
from typing import TYPE_CHECKING, Final

from broker import __version__
from broker.runtime.clock import SECOND, monotonic_us
from broker.telemetry.totals_walk import TotalsSnapshot, TotalsWalk
from protocol.publish import Publish

if TYPE_CHECKING:
    from broker.addresses.policy import Addresses
    from broker.routing.messages import Messages
    from broker.sessions import Sessions
    from broker.settings import Settings
    from broker.totals import Sums
    from config.mqtt import Mqtt

PREFIX: Final = "$SYS/broker/"
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

MINUTES: Final = (1, 5, 15)


class SysTopics:
    """Publishes the topics in each `sys_interval`. `addresses`: None = without the topics of addresses (FC-24).

    `walk`: None = one of its own; there may be only one for a broker.
    """

    def __init__(
        self,
        settings: "Settings",
        sessions: "Sessions",
        messages: "Messages",
        addresses: "Addresses | None",
        mqtt: "Mqtt",
        walk: TotalsWalk | None = None,
    ) -> None:
        self._settings = settings
        self._clients = sessions.clients
        self._totals = sessions.totals
        self._walk = TotalsWalk(sessions.clients, sessions.totals, messages.router.shared) if walk is None else walk
        self._messages = messages
        self._addresses = addresses
        self._interval = mqtt.sys_interval
        self._retain: bool = mqtt.retain_available
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
        now = monotonic_us()
        for topic, value in self._values(snapshot, now).items():
            if self._published.get(topic) != value or not self._retain:
                self._published[topic] = value
                self._publish(topic, value)
                await asyncio.sleep(0)

    def _values(self, snapshot: TotalsSnapshot, now: int) -> dict[str, str]:
        """All topics, without PREFIX, with their current values."""
        clients = self._clients
        totals = self._totals
        retained = len(self._messages.retained)
        sums = snapshot.sums
        counts = self._counts(sums, snapshot.groups_dropped)
        stored = retained + snapshot.queued + snapshot.inflight
        values = {
            "version": f"sluice version {__version__}",
            "uptime": f"{(now - self._started) // SECOND} seconds",
            "clients/total": str(len(clients)),
            "clients/connected": str(clients.connected),
            "clients/active": str(clients.connected),
            "clients/disconnected": str(len(clients) - clients.connected),
            "clients/inactive": str(len(clients) - clients.connected),
            "clients/maximum": str(max(totals.most_online, clients.connected)),
            "clients/expired": str(totals.expired),
            "clients/refused": str(sum(sum(counts.values()) for counts in totals.clients_refused.values())),
            "messages/inflight": str(snapshot.inflight),
            # A message that is queued for several sessions is counted for each; Mosquitto counts it once.
            "messages/stored": str(stored),
            "store/messages/count": str(stored),
            "retained messages/count": str(retained),
            "subscriptions/count": str(snapshot.subscriptions),
            "shared_subscriptions/count": str(snapshot.shared),
            "slow_consumers/total": str(totals.slow_consumers),
            "stalled_windows/total": str(totals.stalled_windows),
            "awaiting_rel/parked": str(sums.awaiting_rel_refused),
            "publish/bytes/received": str(sums.received_bytes),
            "publish/bytes/sent": str(sums.sent_bytes),
        }
        if self._addresses is not None:
            values |= _of_addresses(self._addresses)
        values |= {f"quotas/{key}/reached": str(count) for key, count in totals.quotas_reached.items()}
        values |= {_COUNTED[name]: str(count) for name, count in counts.items() if name in _COUNTED}
        return values | self._load(counts, now)

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
        if name.count(b"/") >= self._settings.max_topic_levels:
            return  # no client can subscribe to it
        publish = Publish(name, value.encode(), QOS, self._retain)
        publish.received_at = monotonic_us()
        self._messages.router.route(publish, None)
        if self._retain:
            self._messages.retained.store(publish, "")


def _of_addresses(addresses: "Addresses") -> dict[str, str]:
    """How many addresses are full, and the totals of PUBLISHes to full ones (FC-25, FC-26)."""
    return {
        "addresses/full": str(addresses.full),
        "addresses/parked": str(addresses.parked_total),
        "addresses/paged": str(addresses.paged_total),
        "addresses/refused": str(addresses.refused_total),
        "addresses/dropped": str(addresses.dropped_total),
    }


class LoadAverages:
    """Exponential moving averages of one total's growth, with MINUTES as time constants."""

    def __init__(self) -> None:
        self.values = [0.0] * len(MINUTES)
        """Growth per minute, in the order of MINUTES."""
        self._total = 0

    def update(self, total: int, seconds: float) -> None:
        """Add the current value of the total, `seconds` (above zero) after the last update."""
        rate = (total - self._total) * 60 / seconds
        self._total = total
        for number, minutes in enumerate(MINUTES):
            weight = 1 - exp(-seconds / (60 * minutes))
            self.values[number] += (rate - self.values[number]) * weight
