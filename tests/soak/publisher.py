"""A client that publishes numbered messages, and sends again what was not acknowledged (FC-21)."""

import asyncio
import struct
from typing import Final

from protocol import properties as props
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.connack import Connack
from protocol.publish import encode_publish
from tests.soak.client import Client, clock
from tests.soak.network import Network
from tests.soak.observed import ABANDONED, ACKNOWLEDGED, REFUSED, Message, Observed
from tests.soak.plan import PublisherPlan, topics

STAMP: Final = struct.Struct(">HI")
"""What a payload begins with: the publisher and the number of the message."""
SIZES: Final = ((STAMP.size, 3), (100, 5), (1000, 3), (8000, 1))
"""Payload bytes, and how often they come."""


class Outgoing:
    """A QoS 1 or 2 message that is not done with."""

    def __init__(self, message: Message, packet_id: int) -> None:
        self.message = message
        self.packet_id = packet_id
        self.released = False
        """QoS 2: whether PUBREC has come."""


class Publisher(Client):
    """Publishes until it is told to settle."""

    def __init__(self, plan: PublisherPlan, network: Network, observed: Observed, key: str) -> None:
        super().__init__(plan.client_id, plan.version, plan.kept, plan.keep_alive, network, observed, key)
        self.done = False
        self._plan = plan
        self._topics = topics()
        self._number = 0
        self._window = plan.window
        self._outgoing: dict[int, Outgoing] = {}
        self._place = asyncio.Event()
        self._due = 0.0

    @property
    def ready(self) -> bool:
        """Whether nothing is unacknowledged and nothing more comes."""
        return self.done and not self._outgoing

    @property
    def unanswered(self) -> int:
        """PUBLISHes without an answer."""
        return len(self._outgoing)

    def on_lost(self) -> None:
        """What is unacknowledged is sent again if the session goes on, and is given up otherwise."""
        if not self.kept:
            for outgoing in self._outgoing.values():
                if not outgoing.released:
                    outgoing.message.outcome = ABANDONED
            self._outgoing.clear()

    async def session(self, connack: Connack) -> None:
        """Send again what has to be, then go on."""
        maximum = props.integer(connack.properties, props.RECEIVE_MAXIMUM) or 65_535
        self._window = min(self._plan.window, maximum)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._read())
            for outgoing in list(self._outgoing.values()):
                if self._outgoing.get(outgoing.packet_id) is outgoing:
                    await self._send_again(outgoing)
            while not self.settling.is_set():
                await self._pause()
                for _ in range(self._plan.burst):
                    await self._publish()
            self.done = True

    async def _pause(self) -> None:
        """Wait for the next burst, or until it is time to settle."""
        self._due = max(self._due + self._plan.burst / self._plan.rate, clock() - 1)
        try:
            async with asyncio.timeout(max(0.0, self._due - clock())):
                await self.settling.wait()
        except TimeoutError:
            pass

    async def _publish(self) -> None:
        draws = self.draws
        qos = draws.choices((0, 1, 2), self._plan.weights)[0]
        while qos and len(self._outgoing) >= self._window:
            self._place.clear()
            await self._place.wait()
        size = draws.choices([size for size, _ in SIZES], [often for _, often in SIZES])[0]
        message = Message(self._plan.number, self._number, draws.choice(self._topics), qos, size)
        self._number += 1
        self.observed.messages[message.publisher, message.number] = message
        packet_id = self._packet_id() if qos else 0
        if qos:
            self._outgoing[packet_id] = Outgoing(message, packet_id)
        await self._send(message, packet_id, False)

    async def _send(self, message: Message, packet_id: int, dup: bool) -> None:
        if not message.sent:
            message.first_sent_at = clock()
        message.sent += 1
        payload = STAMP.pack(message.publisher, message.number).ljust(message.size, b".")
        topic = message.topic.encode()
        await self.send(encode_publish(topic, payload, message.qos, False, dup, packet_id, None, self.version))

    async def _send_again(self, outgoing: Outgoing) -> None:
        if outgoing.released:
            await self.send(Pubrel(outgoing.packet_id).encode(self.version))
        else:
            await self._send(outgoing.message, outgoing.packet_id, outgoing.message.sent > 0)

    async def _read(self) -> None:
        while True:
            packet = await self.receive()
            if isinstance(packet, Puback):
                self._on_puback(packet)
            elif isinstance(packet, Pubrec):
                await self._on_pubrec(packet)
            elif isinstance(packet, Pubcomp):
                self._on_pubcomp(packet)

    def _on_puback(self, packet: Puback) -> None:
        outgoing = self._outgoing.pop(packet.packet_id, None)
        if outgoing is None or outgoing.message.qos != 1:
            self.breach(f"has received PUBACK {packet.packet_id} for nothing")
            return
        outgoing.message.outcome = REFUSED if packet.reason_code >= 0x80 else ACKNOWLEDGED
        self._complete()

    async def _on_pubrec(self, packet: Pubrec) -> None:
        outgoing = self._outgoing.get(packet.packet_id)
        if outgoing is None or outgoing.message.qos != 2:
            self.breach(f"has received PUBREC {packet.packet_id} for nothing")
            return
        if packet.reason_code >= 0x80:
            del self._outgoing[packet.packet_id]
            outgoing.message.outcome = REFUSED
            self._complete()
            return
        outgoing.message.outcome = ACKNOWLEDGED
        outgoing.released = True
        await self.send(Pubrel(packet.packet_id).encode(self.version))

    def _on_pubcomp(self, packet: Pubcomp) -> None:
        outgoing = self._outgoing.pop(packet.packet_id, None)
        if outgoing is None or not outgoing.released:
            self.breach(f"has received PUBCOMP {packet.packet_id} for nothing")
        self._complete()

    def _complete(self) -> None:
        self.observed.last_progress = clock()
        self._place.set()

    def _packet_id(self) -> int:
        packet_id = self._number % 65_535 + 1
        while packet_id in self._outgoing:
            packet_id = packet_id % 65_535 + 1
        return packet_id

