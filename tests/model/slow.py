"""FC-14: who is slow, and whose window is stalled. It is looked at when a timer comes due."""

from tests.model.knobs import Knobs
from tests.model.message import SECOND


class Slow:
    """What has been seen since the backlog began, and since the window last moved."""

    def __init__(self, knobs: Knobs) -> None:
        self.knobs = knobs
        self.backlog_since: int | None = None
        """When the running period began; None: there is no backlog."""
        self.drained = 0
        """Deliveries that have left the mqueue towards the client in the period; corner: expired ones too."""
        self.acknowledged = 0
        self.told_slow = False
        """Corner: a backlog is reported once, until it is gone or a period has ended well."""
        self.moved_at = 0
        """When an acknowledgement last came, the window filled up or the connection began."""
        self.told_stalled: int | None = None
        """The `moved_at` of the stall that has been reported: once each."""

    def begin_backlog(self, now: int) -> None:
        """An online session begins to queue."""
        if self.knobs.slow_threshold:
            self.begin_period(now)

    def begin_period(self, now: int) -> None:
        """Count from here."""
        self.backlog_since = now
        self.drained = self.acknowledged = 0

    def end_backlog(self) -> None:
        """Nothing waits any more."""
        self.backlog_since = None
        self.told_slow = False

    def disconnect(self) -> None:
        """The client is gone, and with it what was slow about it."""
        self.end_backlog()
        self.told_stalled = None

    def is_slow(self, now: int) -> bool:
        """Look; True: it is to be reported now. Corner: a period lasts until it is looked at."""
        if self.backlog_since is None or now < self.backlog_since + self.knobs.slow_check_period:
            return False
        rate = max(self.drained, self.acknowledged) * SECOND / (now - self.backlog_since)
        slow = rate < self.knobs.slow_threshold
        report = slow and not self.told_slow
        self.told_slow = slow
        self.begin_period(now)
        return report

    def is_stalled(self, full: bool, now: int) -> bool:
        """Look; True: it is to be reported now."""
        stalls_at = self.stalls_at(full)
        if stalls_at is None or now < stalls_at:
            return False
        self.told_stalled = self.moved_at
        return True

    def stalls_at(self, full: bool) -> int | None:
        """When a stall is to be reported."""
        if not self.knobs.stalled_window or not full or self.told_stalled == self.moved_at:
            return None
        return self.moved_at + self.knobs.stalled_window
