"""FC-14: slow consumers and stalled windows, checked by a timer, not per message."""

from typing import Final, final

from session.limits import Limits
from session.window import Window

SECOND: Final = 1_000_000
SLOW: Final = 1
STALLED: Final = 2


@final
class Watch:
    """Progress of one session since its backlog began or its window filled up. Times in microseconds."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.slow = False
        """Whether the current backlog has been reported: once per episode."""
        self.drained = 0
        """Deliveries that have left the mqueue."""
        self.acknowledged = 0
        """Deliveries that the client has completed."""
        self.moved_at = 0
        """When an acknowledgement last came, or the window last filled up."""
        self.rate = 0.0
        """Messages a second in the last period."""
        self._since = 0  # when the current period began, 0 = there is no backlog
        self._drained = 0
        self._acknowledged = 0
        self._stalled_since = -1  # `moved_at` of the stalled window that was last reported

    def begin_backlog(self, now: int) -> int:
        """The mqueue has got its first delivery; returns when to call `check`."""
        self._begin(now)
        return now + self.limits.slow_check_period

    def end_backlog(self) -> None:
        """The mqueue is empty, or the client is detached."""
        self._since = 0
        self.slow = False

    def note_acknowledged(self, completed: bool, now: int) -> None:
        """An acknowledgement was received; `completed`: the delivery is fully acknowledged."""
        self.moved_at = now
        if completed:
            self.acknowledged += 1

    def check(self, window: Window, now: int) -> int:
        """What has to be reported now: SLOW, STALLED, both or neither, as bits."""
        found = 0
        if self._since and now - self._since >= self.limits.slow_check_period:
            slow = self._end_period(now) < self.limits.slow_threshold
            if slow and not self.slow:
                found |= SLOW
            self.slow = slow
        stalls_at = self._stalls_at(window)
        if stalls_at and now >= stalls_at and self._stalled_since != self.moved_at:
            self._stalled_since = self.moved_at
            found |= STALLED
        return found

    def deadline(self, window: Window, now: int) -> int:
        """When to call `check` again; 0 = never."""
        slow = self._since + self.limits.slow_check_period if self._since else 0
        stalled = self._stalls_at(window)
        if stalled and stalled <= now:
            stalled = now + self.limits.stalled_window  # reported; it may move, and stall again
        return earlier(slow, stalled)

    def _end_period(self, now: int) -> float:
        """Return the messages a second that were acknowledged or drained in the period, and begin the next one."""
        done = max(self.drained - self._drained, self.acknowledged - self._acknowledged)
        self.rate = done * SECOND / (now - self._since)
        self._begin(now)
        return self.rate

    def _begin(self, now: int) -> None:
        self._since = now
        self._drained = self.drained
        self._acknowledged = self.acknowledged

    def _stalls_at(self, window: Window) -> int:
        """When the window will have been full for too long without an acknowledgement; 0 = it is not full."""
        if not self.limits.stalled_window or not window.full:
            return 0
        return self.moved_at + self.limits.stalled_window


def earlier(at: int, other: int) -> int:
    """The earlier of two times, where 0 means never."""
    return min(at or other, other or at)
