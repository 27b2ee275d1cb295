"""The PUBLISHes of one session that wait for their acknowledgement (FC-22, FC-25, FC-26)."""

from typing import Final, final

from protocol.properties import Properties
from protocol.publish import Publish
from protocol.publish_encoder import encode_outgoing_properties

OVERHEAD: Final = 64
"""Bytes added to topic and properties of a PUBLISH, for the memory of its object."""


def weight(publish: Publish) -> int:
    """The bytes that a parked PUBLISH counts for: its payload, or `rest_of` if that is more."""
    return max(publish.size, rest_of(publish))


def rest_of(publish: Publish) -> int:
    """The bytes of a waiting PUBLISH besides its payload: topic, properties and overhead."""
    return bytes_around(publish.topic, publish.properties)


def bytes_around(topic: bytes, properties: Properties | None) -> int:
    """The bytes of a message that is kept, besides its payload: topic, properties and overhead."""
    rest = OVERHEAD + len(topic)
    if properties is not None:
        rest += len(encode_outgoing_properties(properties, b""))
    return rest


@final
class ParkedIds:
    """Packet ids of PUBLISHes that wait because an address is full.

    On a new connection a client resends unacknowledged PUBLISHes with the same ids.
    """

    def __init__(self) -> None:
        self.here = 0
        """How many were sent or resent on the current connection: the client counts these as unacknowledged."""
        self._qos1: set[int] = set()  # of the current connection
        self._qos2: dict[int, bool] = {}  # of any connection: whether it was sent or resent on the current one

    @property
    def qos2(self) -> int:
        """How many QoS 2 ids there are."""
        return len(self._qos2)

    def connect(self) -> None:
        """A new connection: nothing was received on it yet."""
        self.here = 0
        self._qos1.clear()
        for packet_id in self._qos2:
            self._qos2[packet_id] = False

    def add(self, qos: int, packet_id: int) -> None:
        """A PUBLISH of QoS 1 or 2 has been parked."""
        self.here += 1
        if qos == 1:
            self._qos1.add(packet_id)
        else:
            self._qos2[packet_id] = True

    def has_qos1(self, packet_id: int) -> bool:
        """Whether a QoS 1 PUBLISH with this id, received on the current connection, waits."""
        return packet_id in self._qos1

    def sees_qos2(self, packet_id: int) -> bool:
        """Whether a QoS 2 PUBLISH with this id waits; if so, note that it was resent."""
        here = self._qos2.get(packet_id)
        if here is None:
            return False
        if not here:
            self._qos2[packet_id] = True
            self.here += 1
        return True

    def has_seen(self, packet_id: int) -> bool:
        """Whether a QoS 2 PUBLISH with this id, sent or resent on the current connection, waits."""
        return self._qos2.get(packet_id, False)

    def remove_qos1(self, packet_id: int) -> None:
        """A QoS 1 PUBLISH of the current connection no longer waits."""
        self._qos1.discard(packet_id)
        self.here -= 1

    def remove_qos2(self, packet_id: int) -> None:
        """A QoS 2 PUBLISH no longer waits."""
        if self._qos2.pop(packet_id, False):
            self.here -= 1


@final
class ParkedPublishes:
    """QoS 2 PUBLISHes of the current connection that wait for a free packet id, in order of arrival."""

    def __init__(self) -> None:
        self.publishes: dict[int, Publish] = {}
        """By packet id."""
        self.bytes = 0
        """The sum of their `weight`."""

    def add(self, publish: Publish) -> None:
        """Add a PUBLISH at the tail."""
        self.publishes[publish.packet_id] = publish
        self.bytes += weight(publish)

    def pop(self) -> Publish:
        """Remove and return the first one."""
        publish = self.publishes.pop(next(iter(self.publishes)))
        self.bytes -= weight(publish)
        return publish
