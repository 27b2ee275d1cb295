"""CL-3 without a journal: PUBACK waits until the cells that get the message have acknowledged it.

Else a crash of the publisher's cell would lose an acknowledged message for a client that is still there. All deliveries
to links in one turn of the loop are a batch, which has a number. PUBACK waits for it, as with a journal it waits for a
commit.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, final

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


@final
class _Batch:
    """What goes to links in one turn."""

    def __init__(self, number: int, at: int) -> None:
        self.number = number
        self.at = at
        self.open = True
        """Whether the turn has not ended."""
        self.left = 0
        """Links that have not acknowledged all of it."""
        self.crossings: list[_Crossing] = []


@final
class Crossings(Barrier):
    """All deliveries to other cells that are not acknowledged, in their order."""

    def __init__(self, wheel: Wheel, soon: Callable[[Callable[[], None]], object]) -> None:
        """`soon` calls in the next turn."""
        super().__init__()
        self._wheel = wheel
        self._soon = soon
        self._batch = _Batch(0, 0)
        self._batch.open = False
        self._crossed = False
        self._pending: deque[_Batch] = deque()
        self._waiting: deque[tuple[int, Endpoint]] = deque()
        self._timed = False

    def crossed(self) -> int:
        """The number of the batch that something has been added to since this was asked; 0 = nothing has."""
        crossed, self._crossed = self._crossed, False
        return self._batch.number if crossed else 0

    def current(self) -> _Batch:
        """The batch of this turn, to which something is added."""
        self._crossed = True
        batch = self._batch
        if not batch.open:
            batch = self._batch = _Batch(batch.number + 1, self._wheel.now)
            self._pending.append(batch)
            self._soon(self.end_turn)
            if not self._timed:
                self._timed = True
                self._wheel.add(self._wheel.now + TICK, _CrossingTimer(self, self._wheel))
        return batch

    def end_turn(self) -> None:
        """The batch is complete."""
        self._batch.open = False
        self.advance()

    def wait(self, endpoint: Endpoint, commit: int) -> None:
        """Have the endpoint's socket write on when all up to this batch are acknowledged."""
        self._waiting.append((commit, endpoint))

    def give_up(self, now: int) -> bool:
        """Wait no more for cells that have not acknowledged for PATIENCE; returns whether any batch is left."""
        while self._pending and self._pending[0].at + PATIENCE <= now:
            batch = self._pending.popleft()
            for crossing in batch.crossings:
                if crossing.places:
                    crossing.link.stalled = True
            self.committed = batch.number
        self.advance()
        self._timed = len(self._pending) > 0
        return self._timed

    def advance(self) -> None:
        """Something may have been acknowledged: write what waits for it."""
        pending = self._pending
        while pending and not pending[0].open and not pending[0].left:
            self.committed = pending.popleft().number
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
        self._last: _Crossing | None = None

    def add(self, publish: Publish) -> Publish:
        """Add a delivery to the batch of this turn. Returns one of its own."""
        if self.stalled:
            return publish
        batch, last = self._crossings.current(), self._last
        if last is None or last.batch is not batch:
            last = self._last = _Crossing(self._crossings, batch, self)
            batch.crossings.append(last)
            batch.left += 1
        own = publish.copy()
        own.holder = last
        return own

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
    """What goes to one link in one turn."""

    def __init__(self, crossings: Crossings, batch: _Batch, link: LinkCrossings) -> None:
        self.batch = batch
        self.link = link
        self.places = 0
        """How many of its deliveries are not acknowledged."""
        self._crossings = crossings

    def hold(self, publish: Publish) -> None:
        self.places += 1

    def release(self, publish: Publish) -> None:
        self.places -= 1
        if self.places == 0:
            self.link.stalled = False
            self.batch.left -= 1
            if not self.batch.open:
                self._crossings.advance()

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
