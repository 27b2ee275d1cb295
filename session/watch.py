"""FC-14: slow consumers and stalled windows, looked at when a timer comes due, not per message."""

from typing import TYPE_CHECKING, Final, final

from protocol import reason_codes
from session.limits import Limits
from session.window import Window

if TYPE_CHECKING:
    from session.outbound import Outbound

SECOND: Final = 1_000_000
SLOW: Final = 1
STALLED: Final = 2


@final
class Watch:
    """What has been seen of one session since its backlog began or its window filled up. Times in microseconds."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.slow = False
        """Whether the backlog that there is has been reported: an episode is reported once."""
        self.drained = 0
        """Deliveries that have left the mqueue."""
        self.acknowledged = 0
        """Deliveries that the client has completed."""
        self.moved_at = 0
        """When an acknowledgement last came, or the window last filled up."""
        self.rate = 0.0
        """Messages a second in the last period that was looked at."""
        self._since = 0  # when the running period began, 0 = there is no backlog
        self._drained = 0
        self._acknowledged = 0
        self._stalled_since = -1  # when the window that has been reported as stalled last moved

    def begin_backlog(self, now: int) -> int:
        """The mqueue has got its first delivery; returns when to look."""
        self._begin(now)
        return now + self.limits.slow_check_period

    def end_backlog(self) -> None:
        """Nothing waits any more."""
        self._since = 0
        self.slow = False

    def note_acknowledged(self, completed: bool, now: int) -> None:
        """An acknowledgement has moved a delivery on, or even completed it."""
        self.moved_at = now
        if completed:
            self.acknowledged += 1

    def reset(self) -> None:
        """The client is gone, and with it what was slow about it."""
        self.end_backlog()
        self._stalled_since = -1

    def look(self, window: Window, now: int) -> int:
        """What has come to be true and is to be reported: SLOW, STALLED, both or neither as bits."""
        found = 0
        if self._is_slow(now):
            if not self.slow:
                found |= SLOW
            self.slow = True
        elif self._since == now:  # a period has ended well
            self.slow = False
        stalls_at = self._stalls_at(window)
        if stalls_at and now >= stalls_at and self._stalled_since != self.moved_at:
            self._stalled_since = self.moved_at
            found |= STALLED
        return found

    def deadline(self, window: Window, now: int) -> int:
        """When to look again; 0 = no need."""
        slow = self._since + self.limits.slow_check_period if self._since else 0
        stalled = self._stalls_at(window)
        if stalled and stalled <= now:
            stalled = now + self.limits.stalled_window  # reported; it may move, and stall again
        return min(slow or stalled, stalled or slow)

    def _is_slow(self, now: int) -> bool:
        """Whether a period has ended in which too little was acknowledged and drained; begins the next one."""
        period = now - self._since
        if not self._since or period < self.limits.slow_check_period:
            return False
        done = max(self.drained - self._drained, self.acknowledged - self._acknowledged)
        self.rate = done * SECOND / period
        self._begin(now)
        return self.rate < self.limits.slow_threshold

    def _begin(self, now: int) -> None:
        self._since = now
        self._drained = self.drained
        self._acknowledged = self.acknowledged

    def _stalls_at(self, window: Window) -> int:
        """When the window will have been full for too long without an acknowledgement; 0 = it is not full."""
        if not self.limits.stalled_window or not window.full():
            return 0
        return self.moved_at + self.limits.stalled_window


def look(outbound: "Outbound", watch: Watch, now: int) -> int:
    """Report what is slow about a session; returns when to look again, 0 = no need."""
    found = watch.look(outbound.window, now)
    mqueue = outbound.mqueue
    waiting = mqueue.length if mqueue is not None else 0
    if found & STALLED:
        outbound.counters.stalled_window += 1
        detail = f"{len(outbound.window.entries)} unacknowledged, {waiting} waiting behind them"
        outbound.host.report("stalled_window", detail)
    if found & SLOW:
        outbound.counters.slow_consumer += 1
        pace = f"{watch.rate:.3g} messages a second, {waiting} waiting"
        outbound.host.report("slow_consumer", pace)
        if outbound.limits.slow_disconnect:
            outbound.host.disconnect(reason_codes.QUOTA_EXCEEDED, f"slow consumer: {pace}")
            return 0
    return watch.deadline(outbound.window, now)
