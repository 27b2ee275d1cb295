"""The in-flight window: a session's sent, not fully acknowledged QoS 1 and 2 deliveries (FC-1, FC-8, FC-21)."""

from typing import Final, final

from mypy_extensions import mypyc_attr

from protocol import packet_types
from protocol.errors import ProtocolError
from protocol.publish import Publish
from session.holder import hold, release
from session.limits import PACKET_IDS
from session.stopwatch import Stopwatch

DONE: Final = 0
WAIT_PUBACK: Final = 1
WAIT_PUBREC: Final = 2
WAIT_PUBCOMP: Final = 3
UNEXPECTED: Final = 4

# (phase, acknowledgement) -> next phase; all others are UNEXPECTED, a protocol error.
_MOVES: Final[dict[tuple[int, int], int]] = {
    (WAIT_PUBACK, packet_types.PUBACK): DONE,
    (WAIT_PUBREC, packet_types.PUBREC): WAIT_PUBCOMP,
    (
        WAIT_PUBCOMP,
        packet_types.PUBREC,
    ): WAIT_PUBCOMP,  # for a resent PUBLISH: PUBREL is sent again
    (WAIT_PUBCOMP, packet_types.PUBCOMP): DONE,
}
_NAMES: Final = {packet_types.PUBACK: "PUBACK", packet_types.PUBREC: "PUBREC", packet_types.PUBCOMP: "PUBCOMP"}
_EXPECTED: Final = {WAIT_PUBACK: "PUBACK", WAIT_PUBREC: "PUBREC", WAIT_PUBCOMP: "PUBCOMP"}
# The same as a flat table, for speed; the index is phase * 16 + packet type.
_NEXT: Final = bytes([_MOVES.get((key >> 4, key & 15), UNEXPECTED) for key in range(64)])


@mypyc_attr(acyclic=True)
@final
class Inflight:
    """One delivery in the window. `sent_at` is when it was first sent, in microseconds."""

    def __init__(self, publish: Publish, sent_at: int) -> None:
        self.publish = publish
        self.phase: int = WAIT_PUBACK if publish.qos == 1 else WAIT_PUBREC
        self.sent_at = sent_at
        self.last_sent_at = sent_at


@final
class Restored:
    """FC-27: a delivery that was in the window before the process began; `received`: PUBREC has come for it."""

    def __init__(self, publish: Publish, packet_id: int, received: bool) -> None:
        self.publish = publish
        self.packet_id = packet_id
        self.received = received


def wrong_kind(packet_type: int, packet_id: int, inflight: Inflight) -> ProtocolError:
    """The error for an UNEXPECTED acknowledgement [MQTT-4.13.1-1]; in 3.1.1 [MQTT-4.8.0-1]."""
    return ProtocolError(
        f"{_NAMES[packet_type]} for packet identifier {packet_id}, a delivery of QoS {inflight.publish.qos}; "
        f"{_EXPECTED[inflight.phase]} was expected"
    )


@mypyc_attr(acyclic=True)  # it refers to PUBLISHes only, which are acyclic too: 16 bytes less
@final
class Window:
    """Deliveries by packet identifier, in the order first sent, at most `limit` of them (FC-1)."""

    def __init__(self) -> None:
        self.limit: int = PACKET_IDS
        self.entries: dict[int, Inflight] = {}
        self.full_time = Stopwatch()
        self._last_id = 0

    def full(self) -> bool:
        """Whether no further QoS 1 or 2 delivery may be sent; also while a kept window exceeds a smaller new limit."""
        return len(self.entries) >= self.limit

    def add(self, publish: Publish, now: int) -> int:
        """Add `publish`; returns a packet identifier not in use [MQTT-2.2.1-4]. The window must not be full."""
        entries = self.entries
        packet_id: int = self._last_id % PACKET_IDS + 1
        while packet_id in entries:
            packet_id = packet_id % PACKET_IDS + 1
        self._last_id = packet_id
        entries[packet_id] = Inflight(publish, now)
        if publish.holder is not None:
            hold(publish)  # FC-24
        if len(entries) >= self.limit:
            self.full_time.start(now)
        return packet_id

    def restore(self, restored: Restored, now: int) -> None:
        """FC-27: add a delivery with the packet id that it had."""
        publish = restored.publish
        inflight = self.entries[restored.packet_id] = Inflight(publish, now)
        if restored.received:
            inflight.phase = WAIT_PUBCOMP
        self._last_id = restored.packet_id
        if publish.holder is not None:
            hold(publish)  # FC-24

    def set_limit(self, limit: int, now: int) -> None:
        """FC-1: W of a new connection."""
        self.limit = limit
        if self.full():
            self.full_time.start(now)
        else:
            self.full_time.stop(now)

    def advance(self, packet_id: int, inflight: Inflight, packet_type: int, failed: bool, now: int) -> int:
        """Apply an acknowledgement; returns the new phase, or UNEXPECTED. `failed`: its reason is 0x80 or above."""
        phase: int = _NEXT[inflight.phase << 4 | packet_type]
        if failed and phase == WAIT_PUBCOMP:
            phase = DONE  # FC-1: a PUBREC that refuses frees the slot [MQTT-4.3.3-4]
        if phase == DONE:
            self.remove(packet_id, inflight, now)
        elif phase != UNEXPECTED:
            inflight.phase = phase
        return phase

    def remove(self, packet_id: int, inflight: Inflight, now: int) -> None:
        """Free a slot."""
        del self.entries[packet_id]
        if inflight.publish.holder is not None:
            release(inflight.publish)
        if self.full_time.running and not self.full():
            self.full_time.stop(now)

    def clear(self, now: int) -> None:
        """The session has ended: free all slots."""
        for inflight in self.entries.values():
            if inflight.publish.holder is not None:
                release(inflight.publish)  # FC-24
        self.entries.clear()
        self.full_time.stop(now)
