"""What the model moves about: deliveries, and the packets that come of them."""

from dataclasses import dataclass
from typing import Final

SECOND: Final = 1_000_000
"""Microseconds."""

Packet = tuple[object, ...]
"""A packet as the client sees it: its type first, see `publish_packet` and `Message`."""


@dataclass(frozen=True, eq=False)
class Message:
    """One delivery. Times are microseconds, `expiry` is in seconds, 0 = none."""

    text: str
    topic: str
    qos: int
    payload: bytes
    routed_at: int
    expiry: int = 0
    flow: int = 1
    """FC-33: whose turn it takes: that of who has published it, or of who had published what it replaces (FC-37)."""
    publisher: int = 0
    """Who has published it, if that is not the same; 0 = it is."""
    number: int = 0
    """The order on disk (FC-27)."""
    restored_at: int = 0
    """When the process began, if it has come before that (FC-27)."""

    @property
    def own_flow(self) -> int:
        """FC-33: that of who has published it."""
        return self.publisher or self.flow

    @property
    def size(self) -> int:
        """Payload bytes: what byte limits count."""
        return len(self.payload)

    def expired(self, now: int) -> bool:
        """Whether its time is over [MQTT-3.3.2-5]."""
        return self.expiry > 0 and now >= self.routed_at + self.expiry * SECOND

    def aged(self, now: int, most: int) -> bool:
        """FC-36: whether it has waited longer than it may. Corner: a new process counts from its own beginning."""
        return 0 < most < now - max(self.routed_at, self.restored_at)

    def overdue(self, now: int, most: int) -> str:
        """Why it is not delivered any more, if it is not: it has expired, or waited too long."""
        if self.expired(now):
            return "expired"
        return "aged" if self.aged(now, most) else ""

    def seconds_left(self, now: int, version: int) -> int | None:
        """The Message Expiry Interval that an MQTT 5 client is told, begun seconds counted whole [MQTT-3.3.2-6]."""
        if version == 4 or not self.expiry:
            return None
        return max(self.expiry - (now - self.routed_at) // SECOND, 0)

    def packet_length(self, version: int) -> int:
        """Bytes of the whole PUBLISH packet."""
        properties = 0
        if version == 5:
            properties = 1 + (5 if self.expiry else 0)
        rest = 2 + len(self.topic) + (2 if self.qos else 0) + properties + self.size
        length_of_rest = 1 if rest < 128 else 2 if rest < 16_384 else 3
        return 1 + length_of_rest + rest

    def packet(self, packet_id: int, dup: bool, now: int, version: int) -> Packet:
        """The PUBLISH as the client sees it."""
        left = self.seconds_left(now, version)
        return ("PUBLISH", packet_id, dup, self.qos, self.topic, self.payload, left)
