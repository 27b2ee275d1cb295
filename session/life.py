"""Sums over a session's life, for those who look at all of it rather than at intervals."""

from typing import final

from mypy_extensions import mypyc_attr

from session.counters import Counters


@mypyc_attr(acyclic=True)
@final
class Life:
    """What a session has counted since it began, or in those intervals whose counters it has given away."""

    def __init__(self) -> None:
        self.sent = 0
        self.acknowledged = 0
        self.dropped = 0
        self.window_full_us = 0
        self.paced_for_us = 0

    def add(self, counters: Counters) -> None:
        """Add what one interval has counted."""
        self.sent += counters.sent_qos0 + counters.sent_qos1 + counters.sent_qos2
        self.acknowledged += counters.acknowledged_qos1 + counters.acknowledged_qos2
        self.dropped += counters.dropped_qos0 + counters.dropped_qos1 + counters.dropped_qos2
        self.window_full_us += counters.window_full_us
        self.paced_for_us += counters.paced_for_us

    def include(self, other: "Life") -> None:
        """Add all of another."""
        self.sent += other.sent
        self.acknowledged += other.acknowledged
        self.dropped += other.dropped
        self.window_full_us += other.window_full_us
        self.paced_for_us += other.paced_for_us
