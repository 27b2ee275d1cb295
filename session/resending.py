"""FC-8, FC-38: resends a kept window after a reconnect and, in 3.1.1, what is unacknowledged for too long."""

from typing import final

from mypy_extensions import i64

from session.counters import Counters
from session.outbox import PUBREL_HEAD, Outbox
from session.window import WAIT_PUBACK, WAIT_PUBCOMP, Inflight, Window


@final
class KeptWindow:
    """The deliveries of a kept window that are still to be resent to a new connection, in the order first sent."""

    def __init__(self, window: Window, singly: bool) -> None:
        """`singly`: each one waits until the last one is acknowledged, and the first one for `release`."""
        self._ids = list(window.entries)
        self._ids.reverse()
        self.singly = singly
        self._held = singly

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, packet_id: object) -> bool:
        return packet_id in self._ids

    def next(self, window: Window) -> int:
        """The next packet id, until `done`; 0 = none is left, or the window has no free slot (FC-1)."""
        ids = self._ids
        limit: i64 = 1 if self.singly else window.limit
        if not ids or self._held or len(window.entries) - len(ids) >= limit:
            return 0
        return ids[-1]

    def done(self) -> None:
        """What `next` has returned is resent, or need not be."""
        self._ids.pop()

    def forget(self, packet_id: int) -> None:
        """A delivery was acknowledged before it was resent."""
        if packet_id in self._ids:
            self._ids.remove(packet_id)

    def release(self) -> None:
        """The first one may go."""
        self._held = False

    def is_over(self, window: Window) -> bool:
        """Whether what is new may follow: nothing is left, and what has gone singly is acknowledged."""
        return not self._ids and not (self.singly and window.entries)

    def alone(self, window: Window) -> int:
        """The packet id of the delivery that is under way singly; 0 = none is."""
        if not self.singly or len(window.entries) - len(self._ids) != 1:
            return 0
        return next(iter(window.entries))  # they go in this order


def resend(packet_id: int, inflight: Inflight, outbox: Outbox, counters: Counters, now: int) -> None:
    """Put the PUBLISH into the outbox again, or the PUBREL if PUBREC has been received.

    A server may take less than the QoS that the PUBLISH had before the reconnect [MQTT-3.2.2-11].
    """
    inflight.last_sent_at = now
    if inflight.phase != WAIT_PUBCOMP and inflight.publish.qos > i64(outbox.maximum_qos):
        inflight.publish = inflight.publish.at(i64(outbox.maximum_qos), inflight.publish.retain)
        inflight.phase = WAIT_PUBACK
    if inflight.phase == WAIT_PUBCOMP:
        outbox.add_acknowledgement(PUBREL_HEAD, packet_id)
        counters.begin_uncommon().resent_pubrel += 1
    elif inflight.publish.qos == 0:
        outbox.add_publish(inflight.publish, 0, now)
        counters.begin_uncommon().resent_publish += 1
    else:
        outbox.add_resent_publish(inflight.publish, packet_id, now)
        counters.begin_uncommon().resent_publish += 1


def resend_overdue(
    window: Window, kept: KeptWindow | None, outbox: Outbox, counters: Counters, interval: int, now: int
) -> int:
    """Resend what was sent `interval` microseconds ago. Returns when the next delivery is due."""
    oldest = now
    for packet_id, inflight in window.entries.items():
        if kept is not None and packet_id in kept:
            continue  # not sent on this connection yet
        if inflight.last_sent_at + interval <= now:
            resend(packet_id, inflight, outbox, counters, now)
        oldest = min(oldest, inflight.last_sent_at)
    return oldest + interval
