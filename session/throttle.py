"""Limits of deliveries besides the window and the gate: the byte window (FC-10) and the rate (FC-11)."""

from typing import final

from protocol.publish import Publish
from session import qos0_gate
from session.byte_window import ByteWindow
from session.counters import Counters
from session.limits import Limits
from session.outbox import Outbox
from session.rate import Rate
from session.stopwatch import Stopwatch
from session.window import Window


def new_throttle(limits: Limits, now: int) -> "Throttle | None":
    """The throttle of a session; None if its limits set neither."""
    if limits.consumer_window_size < 0 and not limits.consumer_max_rate:
        return None
    return Throttle(limits, now)


@final
class Throttle:
    """The byte window and the rate of one session; either may be missing."""

    def __init__(self, limits: Limits, now: int) -> None:
        self.byte_window = _new_byte_window(limits)
        self.rate = _new_rate(limits, now)
        self._byte_window_time = Stopwatch()
        self._rate_time = Stopwatch()

    def begin_with(self, window: Window) -> None:
        """FC-10: what is unacknowledged counts from the beginning."""
        if self.byte_window is not None:
            for inflight in window.entries.values():
                self.byte_window.sent(inflight.publish)

    def use(self, limits: Limits, window: Window, now: int) -> None:
        """The limits of a new connection, which may be others."""
        size = -1 if self.byte_window is None else self.byte_window.size
        if size != limits.consumer_window_size:
            self.byte_window = _new_byte_window(limits)
            self.begin_with(window)
        per_second = 0 if self.rate is None else self.rate.per_second
        if per_second != limits.consumer_max_rate:
            self.rate = _new_rate(limits, now)

    def closed_by(self, publish: Publish, now: int) -> int:
        """Why a delivery must wait, as a reason of the gate: WINDOW_FULL, RATE, or OPEN if it need not."""
        byte_window = self.byte_window
        if byte_window is not None and byte_window.closed(publish):
            return qos0_gate.WINDOW_FULL
        rate = self.rate
        return qos0_gate.OPEN if rate is None or rate.available(now) else qos0_gate.RATE

    def may_resend(self, now: int) -> bool:
        """FC-38: whether the rate allows a PUBLISH that is resent; the byte window counts it already."""
        return self.rate is None or self.rate.take(now)

    def next_at(self, now: int) -> int:
        """When the rate allows the next delivery."""
        return now if self.rate is None else self.rate.next_at(now)

    def sent(self, publish: Publish, now: int) -> None:
        """A delivery has been sent for the first time."""
        if self.byte_window is not None:
            self.byte_window.sent(publish)
        if self.rate is not None:
            self.rate.take(now)

    def restore(self, publish: Publish) -> None:
        """FC-27: a delivery was in the window before the process began; FC-10 counts it still."""
        if self.byte_window is not None:
            self.byte_window.sent(publish)

    def completed(self, publish: Publish) -> None:
        """A QoS 1 or 2 delivery has left the window."""
        if self.byte_window is not None:
            self.byte_window.completed(publish)

    def note_written(self, outbox: Outbox, congested: bool) -> None:
        """With a byte window the transport's high-water mark is 0: if it is not congested, it is empty."""
        if self.byte_window is not None and not congested and not outbox.delivery_bytes:
            self.byte_window.written()

    def opens_when_written(self, congested: bool) -> bool:
        """Whether the byte window has more room as soon as the outbox has been written."""
        return self.byte_window is not None and self.byte_window.unwritten > 0 and not congested

    def note_head(self, closed: int, now: int) -> None:
        """Measure how long the next delivery waits, and for which limit."""
        self._byte_window_time.run(closed == qos0_gate.WINDOW_FULL, now)
        self._rate_time.run(closed == qos0_gate.RATE, now)

    def holding(self) -> int:
        """Which limit the next delivery waits for: WINDOW_FULL (bytes), RATE, or OPEN."""
        if self._byte_window_time.running:
            return qos0_gate.WINDOW_FULL
        return qos0_gate.RATE if self._rate_time.running else qos0_gate.OPEN

    def disconnect(self, now: int) -> None:
        """The connection is closed: QoS 0 sent on it no longer counts, unacknowledged QoS 1 and 2 still do."""
        if self.byte_window is not None:
            self.byte_window.written()
        self.note_head(qos0_gate.OPEN, now)

    def end(self, now: int) -> None:
        """The session has ended."""
        if self.byte_window is not None:
            self.byte_window.clear()
        self.note_head(qos0_gate.OPEN, now)

    def fill(self, counters: Counters, now: int) -> None:
        """Fill in the columns of the interval that ends."""
        uncommon = counters.begin_uncommon()
        uncommon.window_bytes_full_us = self._byte_window_time.take(now)
        uncommon.rate_limited_us = self._rate_time.take(now)
        if self.byte_window is not None:
            uncommon.window_bytes = self.byte_window.bytes


def _new_byte_window(limits: Limits) -> ByteWindow | None:
    return ByteWindow(limits.consumer_window_size) if limits.consumer_window_size >= 0 else None


def _new_rate(limits: Limits, now: int) -> Rate | None:
    return Rate(limits.consumer_max_rate, now) if limits.consumer_max_rate else None
