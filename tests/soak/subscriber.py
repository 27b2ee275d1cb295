"""A client that subscribes, and acknowledges well, late or only when it is sent everything again."""

import asyncio
from typing import Final

from protocol import properties as props
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.connack import Connack
from protocol.packet import Packet
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from tests.soak.client import Client, clock
from tests.soak.network import LostError, Network
from tests.soak.observed import Observed, Receipt, Seen
from tests.soak.plan import SubscriberPlan
from tests.soak.publisher import STAMP

LATEST: Final = 2.0
"""Seconds by which an acknowledgement is late at most."""


class Subscriber(Client):
    """Subscribes, once for each session, and notes all that comes."""

    def __init__(self, plan: SubscriberPlan, network: Network, observed: Observed, key: str) -> None:
        super().__init__(plan.client_id, plan.version, plan.kept, plan.keep_alive, network, observed, key)
        self._plan = plan
        self._seen: Seen | None = None
        self._beginning = False
        self._unreleased: set[int] = set()
        """QoS 2 packet identifiers that the session remembers until PUBREL."""
        self._owed: list[tuple[float, Packet]] = []
        """Acknowledgements that this connection still owes, and when they are to go."""
        self._aliases: dict[int, bytes] = {}

    @property
    def ready(self) -> bool:
        """Whether it is connected, subscribed, and owes nothing."""
        subscribed = self._seen is not None and not self._seen.ended and self._seen.subscribed_at <= clock()
        return subscribed and self.link is not None and not self.link.gone and not self._owed

    @property
    def state(self) -> str:
        """How it is, in words."""
        link = "never connected" if self.link is None else "cut off" if self.link.gone else "connected"
        subscribed = self._seen is not None and not self._seen.ended and self._seen.subscribed_at <= clock()
        return f"{link}, {'' if subscribed else 'not '}subscribed, owes {len(self._owed)} acknowledgements"

    def begins_anew(self) -> bool:
        """Whoever keeps its session restarts now and then nevertheless."""
        if self._beginning:
            return True  # nobody knows whether the last CONNECT has arrived
        restarts = not self.settling.is_set() and self.draws.random() < self._plan.restarts
        if self._seen is None or not self.kept or restarts:
            self._begin()
        return self._beginning

    def _begin(self) -> None:
        self._beginning = True
        if self._seen is not None:
            self._seen.ended = True
        self._seen = Seen(self.client_id, self._plan.filters, self.kept)
        self.observed.sessions.append(self._seen)
        self._unreleased.clear()

    def properties(self) -> Properties:
        """The limits that it states."""
        stated: Properties = {}
        if self._plan.receive_maximum:
            stated[props.RECEIVE_MAXIMUM] = self._plan.receive_maximum
        if self._plan.aliases:
            stated[props.TOPIC_ALIAS_MAXIMUM] = self._plan.aliases
        return stated

    def on_lost(self) -> None:
        """A session that is not kept is over."""
        self._owed.clear()
        if self._seen is not None and not self.kept and not self._beginning:
            self._seen.ended = True

    async def session(self, connack: Connack) -> None:
        """Subscribe if the session is new, then read."""
        seen = self._seen
        assert seen is not None
        self._beginning = False
        self._owed.clear()
        self._aliases.clear()
        if seen.subscribed_at > clock():
            filters = [Subscription(text, qos) for text, qos in seen.filters.items()]
            await self.send(Subscribe(1, filters).encode(self.version))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._read(seen))
            tasks.create_task(self._pay())
            await self._leave()

    async def _leave(self) -> None:
        """After a while leave in one of several ways, unless everything is to settle."""
        try:
            async with asyncio.timeout(self.draws.expovariate(1 / self._plan.stays)):
                await self.settling.wait()
            return
        except TimeoutError:
            pass
        assert self.link is not None
        if self.draws.random() < 0.6:
            self.link.cut(reset=self.draws.random() < 0.3)
        # Or else the next connection takes the session over.
        raise LostError

    async def _read(self, seen: Seen) -> None:
        while True:
            packet = await self.receive()
            if isinstance(packet, Publish):
                await self._on_publish(seen, packet)
            elif isinstance(packet, Pubrel):
                self._unreleased.discard(packet.packet_id)
                await self._answer(Pubcomp(packet.packet_id))
            elif isinstance(packet, Suback):
                if packet.reason_codes != list(seen.filters.values()):
                    self.breach(f"has subscribed to {seen.filters} and was granted {packet.reason_codes}")
                seen.subscribed_at = clock()

    async def _on_publish(self, seen: Seen, packet: Publish) -> None:
        publisher, number = STAMP.unpack_from(packet.payload)
        topic = self._topic(packet).decode()
        again = packet.qos == 2 and packet.packet_id in self._unreleased
        seen.receipts.append(Receipt(publisher, number, topic, packet.qos, packet.dup, again))
        self.observed.last_receipt = clock()
        if not packet.dup:
            self.observed.last_progress = clock()
        if packet.qos == 1:
            await self._answer(Puback(packet.packet_id))
        elif packet.qos == 2:
            self._unreleased.add(packet.packet_id)
            await self._answer(Pubrec(packet.packet_id))
        if self._plan.pace and not self.settling.is_set():
            await asyncio.sleep(self._plan.pace)

    def _topic(self, packet: Publish) -> bytes:
        alias = props.integer(packet.properties, props.TOPIC_ALIAS)
        if alias:
            if packet.topic:
                self._aliases[alias] = packet.topic
            if alias > self._plan.aliases or alias not in self._aliases:
                self.breach(f"has received topic alias {alias}, which means nothing")
                raise LostError
            return self._aliases[alias]
        return packet.topic

    async def _answer(self, packet: Packet) -> None:
        plan = self._plan
        chance = 1.0 if self.settling.is_set() else self.draws.random()
        if chance < plan.withheld:
            self._owed.append((float("inf"), packet))
        elif chance < plan.withheld + plan.late:
            self._owed.append((clock() + self.draws.uniform(0, LATEST), packet))
        else:
            await self.send(packet.encode(self.version))

    async def _pay(self) -> None:
        """Send late acknowledgements when it is time, and all of them as soon as everything is to settle."""
        while True:
            await asyncio.sleep(0.05)
            now = float("inf") if self.settling.is_set() else clock()
            due = [packet for at, packet in self._owed if at <= now]
            self._owed = [(at, packet) for at, packet in self._owed if at > now]
            for packet in due:
                await self.send(packet.encode(self.version))
