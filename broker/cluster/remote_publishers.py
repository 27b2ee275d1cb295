"""CL-5: publishers that other cells serve, which queues of this cell pace (FC-16).

A link carries the messages of many publishers. Each is paced alone, as if it were a client of this cell: its own cell
holds it back when it is asked to.
"""

from collections.abc import Callable
from typing import Final, final

from broker.cluster.controls import PAUSE, RESUME, about
from broker.runtime.timers import Timer, Wheel
from session.host import NoHost
from session.outbound import Outbound
from session.pacing import Publisher

MOST: Final = 4_096
"""Publishers of one cell that are remembered at a time, beside those that are paced."""
_SOON: Final = 100_000


@final
class RemotePublishers:
    """The publishers of one other cell."""

    def __init__(self, wheel: Wheel, patience: Callable[[], int], tell: Callable[[bytes], None]) -> None:
        """`patience`: for how long queues may pace one, in microseconds. `tell` sends the other cell a packet."""
        self._wheel = wheel
        self._patience = patience
        self._tell = tell
        self._known: dict[int, Publisher] = {}

    def use(self, outbound: Outbound, number: int, now: int) -> None:
        """What comes over the link from now on is of this publisher; 0 = of nobody who could be paced."""
        publisher = self._known.get(number)
        if publisher is None:
            if len(self._known) >= MOST:
                self._forget()
            publisher = self._known[number] = self._new(number, now)
        outbound.publisher = publisher

    def end(self, now: int) -> None:
        """The link is closed: what is in flight on it is all that comes."""
        known, self._known = self._known, {}
        for publisher in known.values():
            publisher.resume_all(now)

    def _new(self, number: int, now: int) -> Publisher:
        host = _RemoteClient(number, self._wheel, self._tell)
        host.publisher = Publisher(host, self._patience() if number else 0, now)
        return host.publisher

    def _forget(self) -> None:
        self._known = {number: each for number, each in self._known.items() if each.is_paced()}


@final
class _RemoteClient(NoHost):
    """The connection of a publisher, at its own cell."""

    def __init__(self, number: int, wheel: Wheel, tell: Callable[[bytes], None]) -> None:
        self.publisher: Publisher | None = None
        self._number = number
        self._wheel = wheel
        self._tell = tell

    def pause_publishing(self) -> None:
        """Have it paused, and look when its patience is used up."""
        self._tell(about(PAUSE, self._number))
        if self.publisher is not None:
            self._wheel.add(self._wheel.now + _SOON, _PatienceTimer(self.publisher, self._wheel))

    def resume_publishing(self) -> None:
        """Have it resumed."""
        self._tell(about(RESUME, self._number))


@final
class _PatienceTimer(Timer):
    def __init__(self, publisher: Publisher, wheel: Wheel) -> None:
        self._publisher = publisher
        self._wheel = wheel

    def wanted(self) -> bool:
        return self._publisher.is_paced()

    def due(self, now: int) -> None:
        at = self._publisher.check(now)
        if at:
            self._wheel.add(at, self)
