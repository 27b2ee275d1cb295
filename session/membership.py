"""What a session pulls from, and what it has taken from the groups that it shares with (FC-13)."""

from collections import deque
from typing import TYPE_CHECKING, final

from protocol.publish import Publish
from session.source import BREATHER, EMPTY, PASSED_OVER, Source
from session.window import Window

if TYPE_CHECKING:
    from session.outbound import Outbound
    from session.shared_queue import SharedQueue


@final
class Membership:
    """What one session has to do with groups, and other sources."""

    def __init__(self) -> None:
        self.missed: deque[Source] = deque()
        """Sources that had something, or may have had, while the session could not take it."""
        self.taken: dict[int, SharedQueue] = {}
        """Where unacknowledged deliveries came from, by packet identifier."""

    def pull(self, outbound: "Outbound", now: int) -> bool:
        """Take what can be sent, from one source after the other; which one has handed over is last next time.

        Returns whether more can be sent once the outbox is written.
        """
        missed = self.missed
        passed_over: list[Source] = []
        more = False
        for _ in range(len(missed)):
            if not outbound.has_room() or not outbound.is_open():
                break
            source = missed.popleft()
            result = source.pull(outbound, now)
            if result == PASSED_OVER:
                passed_over.append(source)
            elif result != EMPTY:
                missed.append(source)
                more = more or result == BREATHER
        passed_over.reverse()
        missed.extendleft(passed_over)
        return more or (len(missed) > 0 and not outbound.has_room())

    def give_back(self, window: Window, now: int) -> int:
        """The session is over: the QoS 1 that it has not acknowledged returns to the groups. Returns how many.

        QoS 2 must not go to anybody else [MQTT-4.8.2-5].
        """
        returned: dict[SharedQueue, list[Publish]] = {}
        count = 0
        for packet_id, inflight in window.entries.items():
            source = self.taken.get(packet_id)
            if source is not None and inflight.publish.qos == 1:
                returned.setdefault(source, []).append(inflight.publish)
        self.taken.clear()
        for source, deliveries in returned.items():
            if source.take_back(deliveries, now):
                count += len(deliveries)
        return count
