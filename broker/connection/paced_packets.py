"""Packets of a client that are held back while it is paced (FC-16)."""

from collections import deque
from typing import Final, final

from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.packet import Packet
from protocol.ping import Pingreq, Pingresp
from protocol.publish import Publish
from session.parked import rest_of

MOST_BYTES: Final = 65_536
"""Bytes of PUBLISHes held back at which reading is paused."""
MOST_BEFORE_NEEDED: Final = 1_048_576
"""The same while the client's acknowledgements are needed, because others are paced for its own queue."""
OTHER: Final = 262_144
"""What a packet that is no PUBLISH counts for then: each may be as large as mqtt.max_packet_size."""


@final
class PacedPackets:
    """Holds back PUBLISHes, so that the acknowledgements behind them can be handled.

    Other packets, such as SUBSCRIBE, must not overtake them: they are held back too, and reading is paused, unless the
    client's acknowledgements are needed.
    """

    def __init__(self) -> None:
        self._packets: deque[Packet] = deque()
        self._bytes = 0
        self._others = 0  # packets that are not PUBLISHes
        self._qos2: dict[int, int] = {}  # QoS 2 packet ids, with the PUBLISHes of each

    def is_full(self, needed: bool) -> bool:
        """Whether reading has to pause; `needed`: publishers are paced until the client acknowledges."""
        if needed:
            return self._bytes + self._others * OTHER >= MOST_BEFORE_NEEDED
        return self._bytes >= MOST_BYTES or self._others > 0

    def add(self, packet: Packet) -> None:
        """Append a packet."""
        self._packets.append(packet)
        self._count(packet, 1)

    def take(self) -> Packet | None:
        """Remove and return the first packet; None = there is none."""
        if not self._packets:
            return None
        packet = self._packets.popleft()
        self._count(packet, -1)
        return packet

    def may_overtake(self, packet: Packet) -> bool:
        """Whether a packet may overtake the others.

        A PUBREL waits behind its own PUBLISH, which a 3.1.1 client may have resent: that would count as a new message
        if its id were released first (FC-21).
        """
        if isinstance(packet, Pubrel):
            return packet.packet_id not in self._qos2
        return isinstance(packet, Puback | Pubrec | Pubcomp | Pingreq | Pingresp)

    def _count(self, packet: Packet, step: int) -> None:
        if isinstance(packet, Publish):
            self._bytes += step * (packet.size + rest_of(packet))
            if packet.qos == 2:
                left = self._qos2.pop(packet.packet_id, 0) + step
                if left:
                    self._qos2[packet.packet_id] = left
        else:
            self._others += step
