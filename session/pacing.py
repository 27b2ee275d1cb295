"""FC-16: if a delivery would overflow a queue that drains, its publisher is paced for a limited time.

`Pacing` belongs to a queue, an mqueue or a shared queue; `Publisher` to a session that publishes. Queues of another
process pace publishers too: each is a `Pacer`.
"""

from typing import Final, final

from session.host import Host
from session.limits import Limits
from session.mqueue import MQueue
from session.patience import Patience

STALLED_LEAST: Final = 300_000
STALLED_MOST: Final = 1_000_000
"""Microseconds without draining after which a queue that paces has stalled: at least, and at most. While a client reads
its queue can remain unchanged, because TCP opens the window in steps: on a busy machine the first pause took 206 ms,
and a later one 630 ms."""
PAUSES: Final = 4
"""A queue that has drained again after a pause may pause this many times as long before it has stalled."""
TIMER_DELAY: Final = 100_000
"""Microseconds that a host's timers may be late: a bucket with less in it counts as empty, so none goes below 0."""


@final
class Publisher:
    """A session as a publisher that queues pace."""

    def __init__(self, host: Host, patience: int, now: int) -> None:
        self.host = host
        """The connection of its client, which reads its PUBLISHes."""
        self.patience = Patience(patience, now)
        self._paused_by: dict[Pacer, None] = {}

    def is_paced(self) -> bool:
        """Whether any queue paces it."""
        return len(self._paused_by) > 0

    def is_impatient(self, now: int) -> bool:
        """Whether its patience is used up."""
        return self.patience.left(now) < TIMER_DELAY

    def pause(self, pacing: "Pacer", now: int) -> None:
        """Pace it for one more queue. The number of queues does not change how fast its patience is used up."""
        if not self._paused_by:
            self.patience.start(now)
            self.host.pause_publishing()
        self._paused_by[pacing] = None

    def resume(self, pacing: "Pacer", now: int) -> None:
        """A queue no longer paces it."""
        del self._paused_by[pacing]
        if not self._paused_by:
            self.patience.stop(now)
            self.host.resume_publishing()

    def check_at(self, pacing: "Pacer", now: int) -> int:
        """When `check` is due for one more queue; the timers of the other queues are set already."""
        return min(self.patience.lasts_until(TIMER_DELAY, now), pacing.ends_at(now))

    def resume_all(self, now: int) -> None:
        """Its connection is closed, or its patience is used up."""
        for pacing in list(self._paused_by):
            pacing.resume(self, now)

    def check(self, now: int) -> int:
        """Resume it if its patience, or that of a queue, is used up. Returns when to call again, 0 = never."""
        for pacing in list(self._paused_by):
            pacing.check(now)
        if self.is_impatient(now):
            self.resume_all(now)
        if not self._paused_by:
            return 0
        at = self.patience.lasts_until(TIMER_DELAY, now)
        for pacing in self._paused_by:
            at = min(at, pacing.ends_at(now))
        return at


class Pacer:
    """What paces publishers."""

    def pause(self, publisher: Publisher, now: int) -> bool:
        """Pause one; False if that is not possible."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def resume(self, publisher: Publisher, now: int) -> None:
        """Stop pacing one."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def check(self, now: int) -> None:
        """End pacing if it is time."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def ends_at(self, now: int) -> int:
        """When `check` is due."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC


@final
class Pacing(Pacer):
    """A queue that paces the publishers whose deliveries would overflow it.

    While it is `active`, the caller drops nothing, and calls `pause` with the publisher of each delivery.
    """

    def __init__(self, patience: int, now: int) -> None:
        self.active = False
        self.patience = Patience(patience, now)
        self._moved_at = now  # when pacing began, or the queue has drained something since
        self._stalled = False
        self._stalled_after = STALLED_LEAST
        self._host: Host | None = None
        self._exhausted = False  # until the queue is empty, so that a full queue does not pace again and again
        self._paused: dict[Publisher, None] = {}

    def begin(self, host: Host, now: int) -> bool:
        """A delivery would overflow the queue; returns whether it may wait, and publishers are paced.

        `host` is woken when pacing ends.
        """
        self.check(now)  # without a publisher no timer calls it
        if not self.active:
            if self._exhausted or self._stalled:
                return False
            if self.patience.left(now) < TIMER_DELAY:
                self._exhausted = True
                return False
            self._host = host
            self._moved_at = now
            self.active = True
        return True

    def pause(self, publisher: Publisher, now: int) -> bool:
        """Pace the publisher of a delivery; returns False if that is not possible."""
        if publisher in self._paused:
            return True
        self.check(now)
        if self.active and not self._paused and publisher.is_impatient(now):
            self._exhaust(now)
        if not self.active or publisher.is_impatient(now):
            return False
        self.patience.start(now)
        self._paused[publisher] = None
        publisher.pause(self, now)
        return True

    def check(self, now: int) -> None:
        """End pacing if the queue has stalled, or its patience is used up."""
        if not self.active:
            return
        if self.patience.left(now) < TIMER_DELAY:
            self._exhaust(now)
        elif now - self._moved_at >= self._stalled_after:
            self._stalled = True
            self.end(now)

    def ends_at(self, now: int) -> int:
        """When `check` is due, unless the queue moves."""
        return min(self.patience.lasts_until(TIMER_DELAY, now), self._moved_at + self._stalled_after)

    def resume(self, publisher: Publisher, now: int) -> None:
        """Stop pacing one publisher. If it is the last and its patience is used up, pacing ends."""
        self._let_go(publisher, now)
        if not self._paused and publisher.is_impatient(now):
            self._exhaust(now)

    def end(self, now: int) -> None:
        """End pacing: resume all publishers."""
        if not self.active:
            return
        self.active = False
        for publisher in list(self._paused):
            self._let_go(publisher, now)
        if self._host is not None:
            self._host.wake()

    def note_connected(self) -> None:
        """A client has connected. Without it the queue could not drain, and it may read faster than the one before."""
        self._stalled = False
        self._stalled_after = STALLED_LEAST

    def note_drained(self, now: int) -> None:
        """The queue has drained a delivery, or had one acknowledged."""
        pause = (now - self._moved_at) * PAUSES
        if self.active and pause > self._stalled_after:
            self._stalled_after = min(pause, STALLED_MOST)
        self._moved_at = now
        self._stalled = False

    def note_empty(self) -> None:
        """The queue is empty: pacing may begin again."""
        self._exhausted = False
        self._stalled = False

    def _let_go(self, publisher: Publisher, now: int) -> None:
        del self._paused[publisher]
        if not self._paused:
            self.patience.stop(now)
        publisher.resume(self, now)

    def _exhaust(self, now: int) -> None:
        self._exhausted = True
        self.end(now)


def end_pacing(pacing: Pacing | None, publisher: Publisher | None, now: int) -> None:
    """A session's connection is closed: its queue paces no publisher, and no queue paces it."""
    if pacing is not None:
        pacing.end(now)
    if publisher is not None:
        publisher.resume_all(now)


def has_relief(mqueue: MQueue, behind: int, limits: Limits) -> bool:
    """Whether a queue, with the deliveries that wait `behind` it, is down to half of its limits: pacing ends.

    Pacing begins at the limits; the distance keeps it from starting and stopping in quick succession.
    """
    if limits.max_mqueue_len and mqueue.length + behind > limits.max_mqueue_len // 2:
        return False
    if not limits.max_mqueue_bytes:
        return True
    return behind == 0 and mqueue.bytes <= limits.max_mqueue_bytes // 2  # what is behind is not counted in bytes
