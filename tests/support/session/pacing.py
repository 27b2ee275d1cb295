"""A session or a group, with publishers and one clock for all: for FC-16."""

from collections.abc import Sequence

from session.limits import Limits
from session.shared_queue import SharedQueue
from tests.support.session.messages import SECOND, message
from tests.support.session.peer import Peer

PATIENCE = 5 * SECOND


class Scene:
    """Receivers with the same limits, and publishers. Every message goes to all the receivers of the scene."""

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        receivers: int = 1,
        publishers: int = 1,
        patience: int = PATIENCE,
        timers_late: float = 0.0,
    ) -> None:
        """`timers_late`: by how many seconds."""
        self.limits = limits if limits is not None else Limits(max_inflight=2, max_mqueue_len=10)
        self.receivers = [Peer(self.limits, patience=patience) for _ in range(receivers)]
        self.publishers = [Peer(Limits(), patience=patience) for _ in range(publishers)]
        self.receiver = self.receivers[0]
        self.publisher = self.publishers[0]
        self.group: SharedQueue | None = None
        self.late = int(timers_late * SECOND)
        self.count = 0
        """Messages that have been brought so far; each has its number for a text."""

    @property
    def peers(self) -> list[Peer]:
        """Everybody, once."""
        return list(dict.fromkeys([*self.receivers, *self.publishers]))

    @property
    def now(self) -> int:
        """The clock of all, in microseconds."""
        return self.receiver.now

    def bring(
        self, most: int, publisher: Peer | None = None, *, qos: int = 1, size: int = 0, to: Sequence[Peer] | None = None
    ) -> int:
        """A publisher sends `most` messages, one after the other, until it is held back. Returns how many it sent."""
        publisher = publisher or self.publisher
        for number in range(most):
            if publisher.host.paused:
                return number
            self._route(publisher, qos, size, to)
        return most

    def broker_brings(self, count: int, *, qos: int = 1, size: int = 0) -> None:
        """Messages come from nobody who could be held back, such as $SYS."""
        for _ in range(count):
            self._route(None, qos, size, None)

    def _route(self, publisher: Peer | None, qos: int, size: int, to: Sequence[Peer] | None) -> None:
        publish = message(self.count, qos, size=size, now=self.now)
        self.count += 1
        if self.group is not None:
            self.group.deliver(publish, publisher.outbound if publisher is not None else None, self.now)
        for receiver in (self.receivers if to is None else to) if self.group is None else ():
            receiver.route(publish, publisher=publisher)
        self.run()

    def run(self) -> None:
        """All sessions make their passes."""
        for peer in self.peers:
            if peer.outbound.sender.connected:
                peer.run()

    def acknowledge(self, count: int = 1, receiver: Peer | None = None) -> None:
        """A receiver acknowledges QoS 1 in the order in which it came."""
        receiver = receiver or self.receiver
        for _ in range(count):
            receiver.puback(receiver.window_ids()[0])
        self.run()

    def drain(self, receiver: Peer | None = None) -> None:
        """A receiver acknowledges QoS 1 until nothing is unacknowledged."""
        receiver = receiver or self.receiver
        while receiver.window_ids():
            self.acknowledge(1, receiver)

    def advance(self, seconds: float) -> None:
        """Let time pass; timers come due on the way."""
        until = self.now + int(seconds * SECOND)
        while due := [peer for peer in self.peers if 0 < peer.outbound.sender.timer_at <= until - self.late]:
            peer = min(due, key=lambda peer: peer.outbound.sender.timer_at)
            at = peer.outbound.sender.timer_at
            self._set_clock(max(self.now, at + self.late))
            peer.session.on_timer(self.now)
            assert not 0 < peer.outbound.sender.timer_at <= at, "a timer for a time that has passed"
            self.run()
        self._set_clock(until)

    def _set_clock(self, now: int) -> None:
        for peer in self.peers:
            peer.now = now

    def fill(self) -> None:
        """Fill the window and the queue to the last place; nothing is held back yet."""
        own = self.limits
        count = own.max_mqueue_len + own.max_inflight * (len(self.receivers) if self.group is not None else 1)
        assert self.bring(count) == count
        assert not self.publisher.host.paused

    def overfill(self) -> None:
        """Fill the window and the queue, and have the publisher send up to five more messages."""
        self.fill()
        self.bring(5)

    def check_books(self, *receivers: Peer) -> None:
        """What was offered, or is in the mailbox, has been sent, dropped, or waits."""
        for receiver in receivers or self.receivers:
            counters = receiver.outbound.sender.counters
            for qos in range(3):
                offered, sent, dropped = (
                    counters.column(f"{name}_qos{qos}") for name in ("offered", "sent", "dropped")
                )
                mqueue = receiver.outbound.mqueue
                waiting = sum(publish.qos == qos for publish in mqueue) if mqueue is not None else 0
                assert offered == sent + dropped + waiting, f"QoS {qos}"


def dropped(peer: Peer) -> int:
    """How many deliveries an overflow has dropped in this interval."""
    return peer.outbound.sender.counters.dropped_queue_full
