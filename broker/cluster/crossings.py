"""CL-3 without a journal: PUBACK waits until the cells that get the message have acknowledged it.

Else a crash of the publisher's cell would lose an acknowledged message for a client that is still there. Each delivery
to a link has a number. PUBACK waits for the last one, as with a journal it waits for a commit.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, final

from broker.runtime.barrier import Barrier
from broker.runtime.clock import SECOND
from broker.runtime.endpoint import Endpoint
from broker.runtime.timers import TICK, Timer, Wheel
from protocol.publish import Publish
from session.holder import Holder
from session.journal import QueueJournal
from session.tail import Tail

PATIENCE: Final = SECOND
"""Microseconds for which PUBACK waits. Then it is sent, and nobody waits for that cell until it acknowledges again."""


class _Pending(NamedTuple):
    number: int
    at: int
    link: "LinkCrossings"


@final
class Crossings(Barrier):
    """All deliveries to other cells that are not acknowledged, in their order."""

    def __init__(self, wheel: Wheel) -> None:
        super().__init__()
        self._wheel = wheel
        self._offered = 0
        self._asked = 0
        self._pending: deque[_Pending] = deque()
        self._done: set[int] = set()
        self._waiting: deque[tuple[int, Endpoint]] = deque()
        self._timed = False

    def crossed(self) -> int:
        """The number of the last delivery since this was asked; 0 = there was none."""
        asked, self._asked = self._asked, self._offered
        return self._offered if self._offered > asked else 0

    def begin(self, link: "LinkCrossings") -> int:
        """A delivery goes to a link; returns its number."""
        self._offered += 1
        self._pending.append(_Pending(self._offered, self._wheel.now, link))
        if not self._timed:
            self._timed = True
            self._wheel.add(self._wheel.now + TICK, _CrossingTimer(self, self._wheel))
        return self._offered

    def done(self, number: int) -> None:
        """A delivery is acknowledged, or dropped."""
        if number > self.committed:
            self._done.add(number)
            self._advance()

    def wait(self, endpoint: Endpoint, commit: int) -> None:
        """Have the endpoint's socket write on when all up to this one are."""
        self._waiting.append((commit, endpoint))

    def give_up(self, now: int) -> bool:
        """Wait no more for cells that have not acknowledged for PATIENCE; returns whether any delivery is left."""
        while self._pending and self._pending[0].at + PATIENCE <= now:
            first = self._pending.popleft()
            if first.number in self._done:
                self._done.discard(first.number)
            else:
                first.link.stalled = True
            self.committed = first.number
        self._advance()
        self._timed = len(self._pending) > 0
        return self._timed

    def _advance(self) -> None:
        pending, done = self._pending, self._done
        while pending and (pending[0].number in done or pending[0].link.stalled):
            number = pending.popleft().number
            done.discard(number)
            self.committed = number
        waiting = self._waiting
        while waiting and waiting[0][0] <= self.committed:
            waiting.popleft()[1].socket.on_commit()


@final
class LinkCrossings(QueueJournal):
    """Those of one link: to its session it is a journal that writes nothing."""

    def __init__(self, crossings: Crossings) -> None:
        self.stalled = False
        """Whether nobody waits for the other cell, because it has not acknowledged for PATIENCE."""
        self._crossings = crossings

    def add(self, publish: Publish) -> Publish:
        """Number a delivery. Returns one of its own."""
        if self.stalled:
            return publish
        own = publish.copy()
        own.holder = _Crossing(self._crossings.begin(self), self._done)
        return own

    def _done(self, number: int) -> None:
        self.stalled = False
        self._crossings.done(number)

    def owns(self, publish: Publish) -> bool:
        """Nothing is in a journal."""
        return False

    def evicts(self, length: int, size: int) -> bool:
        """Nothing is on disk."""
        return False

    def lanes(self) -> list[int]:
        """Nothing is on disk."""
        return []

    def tail(self, on_read: Callable[[list[Publish]], None], lane: int) -> Tail:
        """Nothing is on disk."""
        raise NotImplementedError

    def pull_pause(self) -> int:
        """A link pulls nothing."""
        return 0


@final
class _Crossing(Holder):
    """One delivery to a link."""

    def __init__(self, number: int, done: Callable[[int], None]) -> None:
        self._number = number
        self._done = done
        self._places = 0

    def hold(self, publish: Publish) -> None:
        self._places += 1

    def release(self, publish: Publish) -> None:
        self._places -= 1
        if self._places == 0:
            self._done(self._number)

    def is_blocking(self) -> bool:
        return False

    def address(self) -> Holder | None:
        return None


@final
class _CrossingTimer(Timer):
    def __init__(self, crossings: Crossings, wheel: Wheel) -> None:
        self._crossings = crossings
        self._wheel = wheel

    def due(self, now: int) -> None:
        if self._crossings.give_up(now):
            self._wheel.add(now + TICK, self)
