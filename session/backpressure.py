"""FC-34: a queue that says that it is full before a PUBLISH is routed, so that its publisher is told.

The router asks each session and group that would get a PUBLISH of QoS 1 or 2. If one of them has no room, nobody gets
it: it is refused, or waits (broker/addresses). Topics with PUBLISHes that wait for a queue are called when it has room,
one after the other: each that finds room for one of its PUBLISHes calls the next.
"""

from collections import OrderedDict
from typing import final

from mypy_extensions import i64

from session.address import Watcher
from session.limits import Limits


@final
class Backpressure:
    """Whether a queue tells that it is full, and who waits for room in it. Times in microseconds."""

    def __init__(self) -> None:
        self.waiters: OrderedDict[Watcher, None] = OrderedDict()
        """Topics with PUBLISHes that wait for room in this queue, in turn."""
        self.away_since: i64 = 0
        """Since when nobody is connected that takes from the queue; 0 = somebody is, or it is not known."""
        self._full_since: i64 = 0  # and nothing has been taken from it; 0 = there is room

    def tells(self, limits: Limits, online: bool, now: int) -> bool:
        """Whether publishers are told. If not, the queue drops its oldest.

        A client that is away, or takes nothing, must not stop its publishers for ever.
        """
        if not online:
            return self.away_since > 0 and now - self.away_since < limits.overflow_offline_grace
        return self._full_since == 0 or now - self._full_since < limits.overflow_timeout

    def note_full(self, now: int) -> None:
        """A PUBLISH finds no room."""
        if self._full_since == 0:
            self._full_since = now

    def note_room(self) -> None:
        """A PUBLISH comes, and the queue is not full."""
        self._full_since = 0

    def note_presence(self, online: bool, now: int) -> None:
        """Whether anybody is connected that takes from the queue."""
        if online:
            self.away_since = 0
        elif self.away_since == 0:
            self.away_since = now

    def note_drained(self, has_room: bool, moved: bool, now: int) -> None:
        """Something may have left the queue, and has if it has `moved`."""
        if has_room:
            self._full_since = 0
            self.call()
        elif moved and self._full_since:
            self._full_since = now

    def call(self) -> None:
        """Call the first who waits. It stays the first until `forget`."""
        for watcher in self.waiters:
            watcher.on_room()
            break

    def wait(self, watcher: Watcher) -> None:
        """Call `watcher` when there is room and it is its turn."""
        self.waiters[watcher] = None

    def forget(self, watcher: Watcher) -> None:
        """It waits no longer."""
        self.waiters.pop(watcher, None)
