"""A client of a generated rule set: what it sends is answered or not, what comes is kept."""

import time
from typing import Final, TypeVar

from broker.auth.permissions import Who
from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.connack import Connack
from protocol.connect import Connect, Will
from protocol.disconnect import Disconnect
from protocol.packet import Packet
from protocol.ping import Pingreq, Pingresp
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from tests.support.broker.tokens import SECRET, token
from tests.support.process import Address
from tests.support.wire import WireClient

SECONDS: Final = 300.0
"""Patience on a busy machine."""

LATE: Final = 30.0
"""Seconds after which what has not come is taken for lost."""

DENIED: Final = reason_codes.NOT_AUTHORIZED

Delivery = tuple[str, bytes]

P = TypeVar("P", bound=Packet)


class Peer:
    """One connection; acknowledges everything."""

    def __init__(self, address: Address, who: Who, will: Will | None = None, receive_maximum: int = 0) -> None:
        """Connect. `code` is that of CONNACK."""
        self._held: list[Packet] | None = None
        self._open: set[int] = set()
        """Packet ids of QoS 2 deliveries whose PUBREL has not come."""
        self.who = who
        self.received: list[Delivery] = []
        self.retained: list[Delivery] = []
        self.disconnected = False
        self._wire = WireClient(address, 5, timeout=SECONDS, source=who.host)
        password = None
        if who.user is not None:
            password = token(SECRET, "HS256", sub=who.user, roles=sorted(who.roles), seconds=3_600).encode()
        own: Properties | None = {props.RECEIVE_MAXIMUM: receive_maximum} if receive_maximum else None
        self._wire.send(Connect(who.client_id, True, password=password, will=will, properties=own, version=5))
        self.code = self._wire.expect(Connack).reason_code

    def subscribe(self, wanted: list[tuple[str, int]]) -> list[int]:
        """The reason codes of SUBACK; retained messages that come are in `retained`."""
        self.send(Subscribe(1, [Subscription(each, qos) for each, qos in wanted]))
        suback = self._until(Suback)
        return [DENIED] * len(wanted) if suback is None else suback.reason_codes

    def publish(self, topic: str, payload: bytes, qos: int, retain: bool) -> int:
        """PUBLISH; the reason code, 0 at QoS 0, which has none, or if the broker has disconnected."""
        self.send(Publish(topic.encode(), payload, qos, retain, packet_id=1 if qos else 0))
        if qos == 0:
            self.settle()
            return 0
        if qos == 1:
            puback = self._until(Puback)
            return 0 if puback is None else puback.reason_code
        pubrec = self._until(Pubrec)
        if pubrec is None or pubrec.reason_code >= 0x80:
            return 0 if pubrec is None else pubrec.reason_code
        self.send(Pubrel(1))
        self._until(Pubcomp)
        return pubrec.reason_code

    def settle(self) -> None:
        """Take everything that is on its way.

        A broker may answer one ping before it has written the rest, and send more when that is acknowledged.
        """
        seen = -1
        while not self.disconnected and (self._open or seen < len(self.received) + len(self.retained)):
            seen = len(self.received) + len(self.retained)
            for _ in range(2):
                self.send(Pingreq())
                self._until(Pingresp)

    def take(self, least: int = 0) -> tuple[list[Delivery], list[Delivery]]:
        """What has come since the last time, and what of it was retained; waits for so many."""
        until = time.monotonic() + LATE
        self.settle()
        while len(self.received) + len(self.retained) < least and time.monotonic() < until and not self.disconnected:
            self.settle()
        found = self.received, self.retained
        self.received, self.retained = [], []
        return found

    def hold(self) -> None:
        """Acknowledge nothing from now on, so that the rest has to wait in the broker."""
        self._held = []

    def release(self, least: int) -> list[Delivery]:
        """Acknowledge what has been held; returns what has waited, and comes now: it waits for so many."""
        held, self._held = self._held or [], None
        self._open |= {answer.packet_id for answer in held if isinstance(answer, Pubrec)}
        self.send(*held)
        return self.take(least)[0]

    def leave_with_will(self) -> None:
        """DISCONNECT with the will; when the broker has closed, it has been published."""
        self.send(Disconnect(0x04))
        self._wire.expect_close()
        self._wire.close()

    def close(self) -> None:
        """End."""
        self._wire.close()

    def send(self, *packets: Packet) -> None:
        """Send packets, unless the broker has disconnected."""
        if not self.disconnected:
            try:
                self._wire.send(*packets)
            except ConnectionError:
                pass  # why is still to be read

    def _until(self, kind: type[P]) -> P | None:
        """The next packet of a kind; others are handled meanwhile. None if the broker disconnects."""
        while not self.disconnected:
            try:
                packet = self._wire.receive()
            except ConnectionError:
                self.disconnected = True
                break
            if isinstance(packet, kind):
                return packet
            self._handle(packet)
        return None

    def _handle(self, packet: Packet) -> None:
        if isinstance(packet, Publish):
            (self.retained if packet.retain else self.received).append((packet.topic.decode(), bytes(packet.payload)))
            if packet.qos:
                answer = Puback(packet.packet_id) if packet.qos == 1 else Pubrec(packet.packet_id)
                if self._held is None:
                    self._open |= {packet.packet_id} if packet.qos == 2 else set()
                    self.send(answer)
                else:
                    self._held.append(answer)
        elif isinstance(packet, Pubrel):
            self._open.discard(packet.packet_id)
            self.send(Pubcomp(packet.packet_id))
        elif isinstance(packet, Disconnect):
            self.disconnected = True
            assert packet.reason_code == DENIED, packet
        else:
            raise AssertionError(f"{self.who.client_id} received {packet!r}")
