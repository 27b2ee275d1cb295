"""The in-flight window: a session's sent, not fully acknowledged QoS 1 and 2 deliveries (FC-1, FC-8, FC-21)."""

from typing import Final, final

from mypy_extensions import i32, i64, mypyc_attr

from protocol import packet_types
from protocol.errors import ProtocolError
from protocol.publish import Publish
from session.holder import hold, release
from session.limits import PACKET_IDS
from session.packet_ids import KEYS
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
NEXT_PHASE: Final = bytes([_MOVES.get((key >> 4, key & 15), UNEXPECTED) for key in range(64)])
"""The same as a flat table, for speed; the index is phase * 16 + packet type."""


@mypyc_attr(acyclic=True, free_list_len=1)  # with one delivery under way at a time it is used again
@final
class Inflight:
    """One delivery in the window. `sent_at` is when it was first sent, in microseconds."""

    def __init__(self, publish: Publish, sent_at: i64) -> None:
        self.publish = publish
        self.phase: i64 = WAIT_PUBACK if publish.qos == 1 else WAIT_PUBREC
        self.sent_at: i64 = sent_at
        self.last_sent_at: i64 = sent_at


@final
class Restored:
    """FC-27: a delivery that was in the window before the process began; `received`: PUBREC has come for it."""

    def __init__(self, publish: Publish, packet_id: int, received: bool) -> None:
        self.publish = publish
        self.packet_id = packet_id
        self.received = received


_NO_ENTRIES: Final[dict[int, Inflight]] = {}
"""Those of all windows that have had none: most subscribers of QoS 0 never do."""


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
        self.limit: i64 = PACKET_IDS
        self.entries = _NO_ENTRIES
        self.full = False
        """Whether no further QoS 1 or 2 delivery may be sent; also while a kept window exceeds a smaller new limit."""
        self.last_id: i32 = 0  # both share eight bytes: each connection has a window
        self.full_time: Stopwatch | None = None
        """How long it was full; None until it first is."""
        self.most: i64 = 0
        """The highest number of deliveries since the interval of the counters began."""

    def add(self, publish: Publish, now: int) -> int:
        """Add `publish`; returns a packet identifier not in use [MQTT-2.2.1-4]. The window must not be full."""
        entries = self.entries
        if entries is _NO_ENTRIES:
            entries = self.entries = {}
        inflight = Inflight(publish, now)
        packet_id: int = self.last_id % PACKET_IDS + 1
        while entries.setdefault(KEYS[packet_id], inflight) is not inflight:  # that id is in use
            packet_id = packet_id % PACKET_IDS + 1
        self.last_id = packet_id
        if publish.holder is not None:
            hold(publish)  # FC-24
        length: i64 = len(entries)
        if length > self.most:
            self.most = length
        if length >= self.limit:
            self.full = True
            self._time_full(now)
        return packet_id

    def restore(self, restored: Restored, now: int) -> None:
        """FC-27: add a delivery with the packet id that it had."""
        publish = restored.publish
        if self.entries is _NO_ENTRIES:
            self.entries = {}
        inflight = self.entries[KEYS[restored.packet_id]] = Inflight(publish, now)
        if restored.received:
            inflight.phase = WAIT_PUBCOMP
        self.last_id = restored.packet_id
        self.most = max(self.most, len(self.entries))
        if publish.holder is not None:
            hold(publish)  # FC-24

    def set_limit(self, limit: int, now: int) -> None:
        """FC-1: W of a new connection. `full_time` does not run: it has stopped with the last one."""
        self.limit = limit
        self.full = len(self.entries) >= limit
        if self.full:
            self._time_full(now)

    def remove(self, packet_id: int, inflight: Inflight, now: int) -> None:
        """Free a slot."""
        del self.entries[KEYS[packet_id]]
        if inflight.publish.holder is not None:
            release(inflight.publish)
        if self.full and len(self.entries) < self.limit:
            self.full = False
            self.stop_time(now)

    def clear(self, now: int) -> None:
        """The session has ended: free all slots."""
        for inflight in self.entries.values():
            if inflight.publish.holder is not None:
                release(inflight.publish)  # FC-24
        self.entries = _NO_ENTRIES
        self.full = False
        self.stop_time(now)

    def is_timed(self) -> bool:
        """Whether `full_time` runs."""
        return self.full_time is not None and self.full_time.running

    def _time_full(self, now: int) -> None:
        time = self.full_time
        if time is None:
            time = self.full_time = Stopwatch()
        time.start(now)

    def stop_time(self, now: int) -> None:
        """It is not full any more, or its client is detached."""
        if self.full_time is not None:
            self.full_time.stop(now)
